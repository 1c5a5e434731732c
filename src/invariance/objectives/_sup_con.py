r"""SupCon: every row of the anchor's class is its positive (the L_out form).

$$L = \frac1n\sum_i\Big(\log\sum_{k\ne i} e^{z_i\cdot z_k/\tau}
- \frac1{|P(i)|}\sum_{p\in P(i)} z_i\cdot z_p/\tau\Big)$$

P(i) is the other rows with i's label; an anchor without any counts 0, yet the mean
divides by all n. Where no anchor has any, a warning says so (not on an accelerator,
where looking would stall the queue). For two views pass ``torch.cat([u, v])`` and
``labels.repeat(2)``. The mean over P(i) is a product with a class sum, O(n d). The
original code multiplies by tau / 0.07; this does not.

On a GPU it repeats bit for bit where the fused kernels take it (``suits_fused_loss``,
and an even number of rows); elsewhere class sums are added up in no fixed order there.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..checked_rows import may_look
from ..errors import SettingError, ShapeError, warn_caller
from ..partition import (
    Share,
    add_up,
    class_pull,
    fused_loss,
    gather_last,
    gather_rows,
    log_partition,
    number_rows,
    suits_fused_loss,
    take_whole_gradient,
)
from ._batch import (
    anchors_for,
    check_on_all,
    check_rows,
    check_tensor,
    full_precision,
    make_batch,
    ready_rows,
    take_share,
)
from ._contrast import Source, check_source
from ._declared_settings import (
    Gather,
    Reduction,
    Temperature,
    check_settings,
    reduce,
    settings_of,
)
from ._learned_temperature import scale_of
from ._objective import Objective


@check_settings
def sup_con(
    z: Float[Tensor, "n d"],
    labels: Int[Tensor, " m"],
    *,
    temperature: Temperature = 0.1,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Log-partition over all other rows minus the mean logit of the same class.

    >>> import torch
    >>> sup_con(torch.ones(6, 8), torch.tensor([0, 0, 1, 1, 2, 2]))  # log 5
    tensor(1.6094)
    """
    check_tensor(z, "z")
    share, scale = take_share(z, gather), scale_of(temperature)
    check_on_all(_check_labels, z, labels, share=share)
    # the operation takes rows as two views, so there must be an even number
    if normalize and reduction == "mean" and len(z) % 2 == 0 and share is None:
        fused = suits_fused_loss(z, z, scale=scale, negatives="others")
        if fused and not isinstance(scale, Tensor):
            return _fused(z, labels, scale)
    batch = make_batch((z,), normalize=normalize, share=share)
    (rows,) = batch.views
    nearness, weight = _own_class(rows, labels, share)
    how = batch.pairing | {"longest": batch.longest}
    spread = log_partition(rows, rows, scale=scale, **how)
    return reduce(spread * (weight > 0) - scale * nearness * weight, reduction)


def _fused(z: Tensor, labels: Tensor, scale: float) -> Tensor:
    """The same by an operation for the spread and one for the pull.

    What pulls a row is quadratic in the rows of its class, and its gradient twice the
    mean of the others: known without asking autograd.
    """
    extra, anchors, value = class_pull(z, labels, -scale / len(z))
    u, v = z.chunk(2)
    spread = fused_loss(
        u,
        v,
        "spread",
        scale=scale,
        negatives="others",
        log_count=math.log(len(z) - 1),
        anchors=anchors,
        extra=extra,
    )
    assert spread is not None
    return spread + value


def _check_labels(z: Tensor, labels: Tensor, share: Share | None) -> None:
    check_rows(z, "z", share=share)
    check_tensor(labels, "labels")
    no_integers = labels.is_floating_point() or labels.dtype == torch.bool
    if labels.shape != z.shape[:1] or no_integers:
        raise ShapeError(
            f"labels need one integer per row of z: expected ({len(z)},), got "
            f"{tuple(labels.shape)} of {labels.dtype}."
        )


def _own_class(z: Tensor, labels: Tensor, share: Share | None) -> tuple[Tensor, Tensor]:
    """Each row's product with the sum of the others of its class; 1 / their number, or
    0.

    Over processes of all rows.
    """
    if share is not None:
        return _own_class_of_all(z, labels, share)
    # a class is known by where it begins among the sorted labels: no need to ask how
    # many there are, so it compiles and nothing waits for the device
    ordered = labels.sort().values
    begin = torch.searchsorted(ordered, labels)
    n_others = torch.searchsorted(ordered, labels, right=True) - begin - 1
    sums = torch.zeros_like(z).index_add_(0, begin, z).index_select(0, begin)
    if may_look(labels):
        _warn_if_alone(n_others)
    return (z * (sums - z)).sum(1), _share_of_each(n_others, z)


def _own_class_of_all(z: Tensor, labels: Tensor, share: Share) -> tuple[Tensor, Tensor]:
    """The same over processes, which send class sums to each other, not rows."""
    _, number, sizes = gather_rows(labels, share=share).unique(
        return_inverse=True, return_counts=True
    )
    class_of_row = number[share.own_rows]
    sums = z.new_zeros(len(sizes), z.shape[1]).index_add(0, class_of_row, z)
    sums = add_up(sums, share)
    n_others = sizes[number] - 1
    if may_look(labels):
        _warn_if_alone(n_others)
    nearness = (z * (sums[class_of_row] - z)).sum(1)
    return gather_last(nearness, share), _share_of_each(n_others, z)


def _share_of_each(n_others: Int[Tensor, " n"], z: Tensor) -> Float[Tensor, " n"]:
    """1 / how many others there are, 0 where there is none."""
    # integers divided by each other have torch's default precision, not that of z
    return (n_others > 0).to(z.dtype) / n_others.clamp_min(1)


def _warn_if_alone(n_others: Int[Tensor, " n"]) -> None:
    if not bool(n_others.any()):
        warn_caller(
            f"No two of the {len(n_others)} labels are equal, so there is nothing to "
            "learn from: the loss is 0. Pass both views, as torch.cat([u, v]) with "
            "labels.repeat(2), or batches with several samples of a class."
        )


class SupCon(Objective):
    """``sup_con`` with its settings."""

    __init__ = settings_of(sup_con)
    takes = "labels"
    negatives = "all"  # of other classes

    def against(
        self, u: Tensor, v: Tensor | None, source: Source, ids: Tensor
    ) -> Tensor:
        """The loss of rows u with labels ``ids``, a source's rows as further negatives.

        The source's ids are labels: what it holds of the anchor's own class is no
        negative. A memory bank's are row numbers, so it is refused.
        """
        if getattr(source, "numbered", False):
            raise SettingError(
                "sup_con leaves out the anchor's class, but a memory bank knows rows "
                "by number, not by label: use a queue that remembers labels."
            )
        check_source(source)
        check_tensor(u, "u")
        share = take_share(u, self.gather)
        check_on_all(_check_labels, u, ids, share=share)
        (u,), ids, share = anchors_for(source, [u], ids, share)
        z, scale = ready_rows(u, self.normalize), scale_of(self.temperature)
        nearness, weight = _own_class(z, ids, share)
        rows = number_rows(z, share)
        how: Any = {"row_ids": rows, "column_ids": rows, "share": share}
        spread = log_partition(z, z, scale=scale, **how)
        with full_precision(z):
            known = [take_whole_gradient(scale, share)]
            further = gather_last(source.negative(z, ids, scales=known)[0], share)
        both = torch.logaddexp(spread, further)
        loss = both * (weight > 0) - scale * nearness * weight
        return self.require_finite(reduce(loss, self.reduction))

    def chance(self, n: int, n_views: int = 2) -> float:
        """Any of the other rows of all views."""
        return math.log(n_views * n - 1)
