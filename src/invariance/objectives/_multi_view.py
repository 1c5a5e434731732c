r"""Several views of every sample at once: four ways to put them together.

z has shape (views, n, d), $s^{ab}_{ij} = z_{ai}\cdot z_{bj}/\tau$ and
$P_{ai} = \log\sum_b\sum_{j\ne i} e^{s^{ab}_{ij}}$ over all views of the other samples.

- "pairs": mean over pairs of views of the symmetric InfoNCE.
- "poly": $\mathrm{mean}_{a\ne b,i}\,\mathrm{softplus}(P_{ai} - s^{ab}_{ii})$. With two
  views this is NT-Xent.
- "mv_info_nce": $\mathrm{mean}_i\,\mathrm{softplus}(\log\sum_a e^{P_{ai}} - A_i)$,
  $A_i = \log\sum_{a\ne b} e^{s^{ab}_{ii}}$: one term per sample, the released code (its
  README leaves the within-view negatives out).
- "mv_dhel": $\mathrm{mean}_i\,(\sum_a Q_{ai} - \log\sum_{a<b} e^{s^{ab}_{ii}})$,
  $Q_{ai} = \log\sum_{j\ne i} e^{s^{aa}_{ij}}$ within the view. With two views this is
  DHEL's "sum".
"""

import itertools
import math
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..partition import (
    Share,
    gather_last,
    log_partition,
    softplus,
    split_views,
    take_whole_gradient,
)
from ._batch import (
    anchors_for,
    check_ids,
    full_precision,
    make_batch,
    ready_rows,
    share_views,
)
from ._contrast import Source, check_source, warn_if_alone
from ._declared_settings import (
    Gather,
    Number,
    Reduction,
    Temperature,
    check_settings,
    one_of,
    reduce,
    settings_of,
)
from ._info_nce import info_nce
from ._learned_temperature import scale_of
from ._objective import Objective

Aggregate = Annotated[str, one_of("pairs", "poly", "mv_info_nce", "mv_dhel")]


@check_settings
def multi_view(
    z: Float[Tensor, "v n d"],
    *,
    temperature: Temperature = 0.1,
    aggregate: Aggregate = "pairs",
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Contrast of all views of all samples.

    Settings:
        aggregate (pairs, poly, mv_info_nce, mv_dhel): How the views of a sample are put
            together.

    >>> import torch
    >>> multi_view(torch.ones(3, 4, 8))  # log 4
    tensor(1.3863)
    """
    share = share_views(z, gather)
    if aggregate == "pairs":
        kind: Any = {"temperature": temperature, "normalize": normalize}
        kind |= {"reduction": reduction, "gather": False if share is None else share}
        losses = [info_nce(u, v, **kind) for u, v in itertools.combinations(z, 2)]
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean(0)
    batch, n_views = make_batch(z, normalize=normalize, share=share), len(z)
    z, scale = batch.views, scale_of(temperature)
    positive = _positives(z, scale, share)
    how = batch.pairing | {"scale": scale, "longest": batch.longest}
    if aggregate == "mv_dhel":
        within = [log_partition(u, u, **how) for u in z]
        return reduce(_dhel(torch.stack(within), positive), reduction)
    rows, ids = z.flatten(0, 1), how["row_ids"].repeat(n_views)
    how |= {"row_ids": ids, "column_ids": ids}
    how["share"] = None if share is None else share.repeat(n_views)
    negative = log_partition(rows, rows, **how)
    negative = split_views(negative, n_views, share)
    other_view = ~torch.eye(n_views, dtype=torch.bool, device=z.device)
    if aggregate == "poly":
        loss = softplus(negative[:, None] - positive) * other_view[..., None]
        pairs = n_views * (n_views - 1)
        if reduction == "none":
            return loss.sum((0, 1)) / pairs
        return loss.sum() / (batch.n * pairs)
    positive = positive.masked_fill(~other_view[..., None], -torch.inf)
    loss = softplus(negative.logsumexp(0) - positive.flatten(0, 1).logsumexp(0))
    return reduce(loss, reduction)


def _positives(z: Tensor, scale: Number, share: Share | None) -> Float[Tensor, "v v n"]:
    """Logits of every two views of a sample.

    Not a matrix product: autocast would round it, and its gradient, to half precision.
    """
    each = [torch.stack([(a * b).sum(1) for b in z]) for a in z]
    return scale * gather_last(torch.stack(each), share)


def _dhel(
    negative: Float[Tensor, "v n"], positive: Float[Tensor, "v v n"]
) -> Float[Tensor, " n"]:
    a, b = torch.triu_indices(len(negative), len(negative), 1, device=negative.device)
    return negative.sum(0) - positive[a, b].logsumexp(0)


class MultiView(Objective):
    """``multi_view`` with its settings."""

    __init__ = settings_of(multi_view)
    takes = "views"

    @property
    def negatives(self) -> str:  # type: ignore[override]
        """Whose softmax it is, by the aggregate."""
        return {"pairs": "cross", "mv_dhel": "within"}.get(self.aggregate, "all")

    def against(
        self, u: Tensor, v: Tensor | None, source: Source, ids: Tensor
    ) -> Tensor:
        """The loss of all views, u of shape (views, n, d), against a source."""
        check_source(source)
        share = share_views(u, self.gather)
        check_ids(ids, u.shape[1])
        (z,), ids, share = anchors_for(source, [u], ids, share)
        z, scale = ready_rows(z, self.normalize), scale_of(self.temperature)
        with full_precision(z):
            known = [take_whole_gradient(scale, share)]
            each = [source.negative(x, ids, scales=known)[0] for x in z]
        negative = gather_last(torch.stack(each), share)
        positive = _positives(z, scale, share)
        warn_if_alone(negative)
        alone = negative == -torch.inf  # a row that the source left without negatives
        a, b = torch.triu_indices(len(z), len(z), 1, device=z.device)
        if self.aggregate == "mv_dhel":
            loss = _dhel(negative.masked_fill(alone, 0.0), positive)
            loss = loss.masked_fill(alone.all(0), 0.0)
        elif self.aggregate == "mv_info_nce":
            both = torch.cat([positive[a, b], positive[b, a]]).logsumexp(0)
            total = negative.masked_fill(alone.all(0), 0.0).logsumexp(0)
            loss = softplus(total.masked_fill(alone.all(0), -torch.inf) - both)
        else:
            each = [softplus(negative[i] - positive[a, b]) for i in (a, b)]
            loss = torch.stack(each).flatten(0, 1)
        return self.require_finite(reduce(loss, self.reduction))

    def chance(self, n: int, n_views: int = 2) -> float | None:
        """All views of the other samples against the views of one."""
        if self.aggregate == "pairs":
            return math.log(n)
        if self.aggregate == "poly":
            return math.log((n - 1) * n_views + 1)
        if self.aggregate == "mv_info_nce":
            return math.log1p((n - 1) * n_views / (n_views - 1))
        return None
