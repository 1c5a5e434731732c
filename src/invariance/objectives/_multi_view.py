r"""Several views of every sample at once: four ways to put them together.

z has shape (views, n, d), $s^{ab}_{ij} = z_{ai}\cdot z_{bj}/\tau$ and
$P_{ai} = \log\sum_b\sum_{j\ne i} e^{s^{ab}_{ij}}$ over all views of the other samples.

- "pairs": mean over pairs of views of the symmetric InfoNCE.
- "poly": $\mathrm{mean}_{a\ne b,i}\,\mathrm{softplus}(P_{ai} - s^{ab}_{ii})$. With two
  views this is NT-Xent.
- "mv_info_nce": $\mathrm{mean}_i\,\mathrm{softplus}(\log\sum_a e^{P_{ai}} - A_i)$,
  $A_i = \log\sum_{a\ne b} e^{s^{ab}_{ii}}$: one term a sample, the released code (its
  README leaves the within-view negatives out).
- "mv_dhel": $\mathrm{mean}_i\,(\sum_a Q_{ai} - \log\sum_{a<b} e^{s^{ab}_{ii}})$,
  $Q_{ai} = \log\sum_{j\ne i} e^{s^{aa}_{ij}}$ within the view. With two views this is
  DHEL's "sum".
"""

import itertools
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from ..partition import log_partition
from ._contrast import Source
from ._info_nce import info_nce
from ._objective import Objective, softmax_readings
from ._rows import (
    Number,
    check_choice,
    check_ids,
    check_positive,
    check_views,
    full_precision,
    longest_row,
    sample_ids,
    tile_precision,
    view_stack,
)

AGGREGATES = ("pairs", "poly", "mv_info_nce", "mv_dhel")


def multi_view(
    z: Float[Tensor, "v n d"],
    *,
    temperature: Number = 0.1,
    aggregate: str = "pairs",
    normalize: bool = True,
) -> Float[Tensor, ""]:
    """Contrast of all views of all samples.

    >>> import torch
    >>> multi_view(torch.ones(3, 4, 8))  # log 4
    tensor(1.3863)
    """
    check_positive("temperature", temperature)
    check_choice("aggregate", aggregate, AGGREGATES)
    if aggregate == "pairs":
        check_views(z)
        losses = [
            info_nce(u, v, temperature=temperature, normalize=normalize)
            for u, v in itertools.combinations(z, 2)
        ]
        return losses[0] if len(losses) == 1 else torch.stack(losses).mean()
    precision = tile_precision(z)
    z = view_stack(z, normalize=normalize)
    n_views, n, _ = z.shape
    scale, ids = 1 / temperature, sample_ids(z[0])
    positive = _positives(z, scale)
    how: dict[str, Any] = {"scale": scale, "precision": precision}
    how["longest"] = longest_row(normalize)
    if aggregate == "mv_dhel":
        within = [log_partition(u, u, row_ids=ids, column_ids=ids, **how) for u in z]
        a, b = torch.triu_indices(n_views, n_views, 1, device=z.device)
        return (torch.stack(within).sum(0) - positive[a, b].logsumexp(0)).mean()
    rows, ids = z.flatten(0, 1), torch.cat([ids] * n_views)
    negative = log_partition(rows, rows, row_ids=ids, column_ids=ids, **how)
    negative = negative.unflatten(0, (n_views, n))
    other_view = ~torch.eye(n_views, dtype=torch.bool, device=z.device)
    if aggregate == "poly":
        loss = softplus(negative[:, None] - positive)
        return (loss * other_view[..., None]).sum() / (n * n_views * (n_views - 1))
    positive = positive.masked_fill(~other_view[..., None], -torch.inf)
    return softplus(negative.logsumexp(0) - positive.flatten(0, 1).logsumexp(0)).mean()


def _positives(z: Tensor, scale: Number) -> Float[Tensor, "v v n"]:
    """Logits of every two views of a sample.

    Not a matrix product: autocast would round it, and its gradient, to half precision.
    """
    each = [torch.stack([(a * b).sum(1) for b in z]) for a in z]
    return scale * torch.stack(each)


class MultiView(Objective):
    """``multi_view`` with its settings."""

    def __init__(
        self,
        temperature: float | int = 0.1,
        *,
        aggregate: str = "pairs",
        normalize: bool = True,
    ) -> None:
        super().__init__()
        check_positive("temperature", temperature)
        check_choice("aggregate", aggregate, AGGREGATES)
        self.temperature = temperature
        self.aggregate = aggregate
        self.normalize = normalize

    def forward(self, z: Tensor) -> Tensor:
        """The loss of a batch of shape (views, n, d)."""
        return multi_view(
            z,
            temperature=self.temperature,
            aggregate=self.aggregate,
            normalize=self.normalize,
        )

    def against(self, z: Tensor, source: Source, ids: Tensor) -> Tensor:  # type: ignore[override]
        """The loss of (views, n, d) against the negatives of a source."""
        z = view_stack(z, normalize=self.normalize)
        check_ids(ids, z.shape[1])
        scale = 1 / self.temperature
        with full_precision(z):
            each = [source.negative(u, ids, scales=[scale])[0] for u in z]
        negative = torch.stack(each)
        positive = _positives(z, scale)
        a, b = torch.triu_indices(len(z), len(z), 1, device=z.device)
        if self.aggregate == "mv_dhel":
            return (negative.sum(0) - positive[a, b].logsumexp(0)).mean()
        if self.aggregate == "mv_info_nce":
            both = torch.cat([positive[a, b], positive[b, a]]).logsumexp(0)
            return softplus(negative.logsumexp(0) - both).mean()
        each = [softplus(negative[i] - positive[a, b]) for i in (a, b)]
        return torch.stack(each).mean()

    def readings(self, z: Tensor) -> dict[str, float]:
        """The loss, and what the first two views say of it."""
        softmax = softmax_readings(
            z[0], z[1], temperature=self.temperature, normalize=self.normalize
        )
        return super().readings(z) | softmax
