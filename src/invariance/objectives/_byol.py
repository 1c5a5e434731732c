r"""BYOL: predict the target network's view from the online network's other view.

$$L = \frac1n\sum_i \big(2 - 2\cos(u_i, \mathrm{sg}\,v'_i)\big)
+ \big(2 - 2\cos(v_i, \mathrm{sg}\,u'_i)\big)$$

u, v are the online predictions, u', v' the target network's projections, without
gradient. 0 <= L <= 8. There are no negatives: nothing in the loss itself forbids
collapse, only the moving target and the predictor do.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from ..errors import ShapeError
from ._batch import check_tensor, read_pair
from ._declared_settings import (
    Gather,
    Reduction,
    check_settings,
    reduce,
    settings_of,
)
from ._objective import Objective


@check_settings
def byol(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    target_u: Float[Tensor, "n d"] | None = None,
    target_v: Float[Tensor, "n d"] | None = None,
    *,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Squared distance of unit predictions to the other view's unit targets.

    Without targets the rows themselves, detached, are the targets.

    >>> import torch
    >>> byol(torch.eye(2), torch.eye(2).flip(0))  # orthogonal: 2 + 2
    tensor(4.)
    """
    return 4 - 2 * reduce(cosines(u, v, target_u, target_v, gather), reduction)


def cosines(
    u: Tensor,
    v: Tensor,
    target_u: Tensor | None,
    target_v: Tensor | None,
    gather: Any,
) -> Float[Tensor, " m"]:
    """cos(u, sg v') + cos(v, sg u'), row by row."""
    target_u, target_v = detach(target_u, u, "u"), detach(target_v, v, "v")
    batch = read_pair(u, target_v, gather=gather)
    same = False if batch.share is None else batch.share
    other = read_pair(v, target_u, gather=same)
    first, second = ((x * y).sum(1) for x, y in (batch.views, other.views))
    return batch.of_all(first + second)


def detach(target: Tensor | None, row: Tensor, name: str) -> Tensor:
    """A target without gradient; the rows themselves where there is none."""
    check_tensor(row, name)
    if target is None:
        return row.detach()
    check_tensor(target, f"target_{name}")
    if target.shape != row.shape:
        raise ShapeError(
            f"target_{name} needs the shape of {name}: got {tuple(target.shape)} and "
            f"{tuple(row.shape)}."
        )
    return target.detach()


class BYOL(Objective):
    """``byol`` with its settings."""

    __init__ = settings_of(byol)
    takes = "targets"
