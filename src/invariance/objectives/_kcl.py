r"""KCL: a kernel pulls the two views together and pushes the samples of a view apart.

$$L = -2\,\frac1n\sum_i k(u_i, v_i) + \gamma\Big[\binom n2^{-1}\sum_{i<j} k(u_i, u_j)
+ \binom n2^{-1}\sum_{i<j} k(v_i, v_j)\Big]$$

Means over pairs, no logarithm outside: the expected loss does not depend on n, so a
small batch is only a noisier one. D = |x - y|:

| kernel | k(x, y) |
|---|---|
| gaussian | exp(-t D^2) |
| log | -(1/2) log(1 + t D^2); the released code's alignment is twice this |
| imq | c / sqrt(c^2 + D^2) with c = t |
| riesz | sign(s) D^(-s); s > 0 has no floor when views coincide, see the next |
| gaussian_riesz | energy riesz(s), alignment gaussian(t): the safe way to use s > 0 |

A row on top of another gets no gradient from a kernel with a cusp there (riesz).
Where rows are normalized, one of zeros counts as at right angles to those of its view.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..partition import (
    FUNCTIONS,
    Share,
    fused_loss,
    gather_last,
    log_partition,
    row_sums,
)
from ._arguments import (
    Finite,
    NotZero,
    Positive,
    Reduction,
    check_settings,
    longest_row,
    one_of,
    ready_rows,
    sample_ids,
    settings_of,
    take_pair,
    tile_precision,
)
from ._contrast import log_count
from ._objective import Objective
from ._shares import Gather, count_rows

Kernel = Annotated[str, one_of("gaussian", "log", "imq", "riesz", "gaussian_riesz")]


@check_settings
def kcl(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    kernel: Kernel = "gaussian",
    gamma: Finite = 16.0,
    t: Positive = 2.0,
    s: NotZero = -1.0,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Kernel energy within the views minus kernel alignment across them.

    Settings:
        kernel (gaussian, log, imq, riesz, gaussian_riesz): How nearness is measured.
        gamma (any number): Weight of the energy that pushes rows apart.
        t (above 0): Width of the kernel; riesz has none.
        s (not 0): Exponent of riesz and gaussian_riesz.

    >>> import torch
    >>> z = torch.eye(3)  # every D^2 within a view is 2
    >>> kcl(z, z, gamma=0.0), kcl(z, z, gamma=1.0, t=0.5)  # -2, -2 + 2/e
    (tensor(-2.), tensor(-1.2642))
    """
    u, v, share = take_pair(u, v, gather)
    n, precision = count_rows(u, share), tile_precision(u, v)
    alone = share is None
    if kernel == "gaussian" and normalize and reduction == "mean" and alone:
        loss = fused_loss(
            u,
            v,
            "kernel",
            parameters=(2 * gamma / (n - 1), 2.0 * t),
            scale=2 * t,  # of unit rows: D^2 is 2 minus twice the score
            negatives="within",
            log_count=log_count(n, "within"),
            precision=precision,
        )
        if loss is not None:
            return loss
    u, v = ready_rows(u, normalize), ready_rows(v, normalize)
    energy, alignment = {
        "riesz": (("riesz", s), ("riesz", s)),
        "gaussian_riesz": (("riesz", s), ("gaussian", t)),
    }.get(kernel, ((kernel, t), (kernel, t)))
    how: Any = {"unit": normalize, "precision": precision, "share": share}
    sums = kernel_sums((u, v), *energy, **how)
    near = gather_last(pair_kernel(u, v, *alignment), share)
    if reduction == "none":
        return gamma * (sums.sum(0) / (n - 1)) - 2 * near
    return gamma * (sums.sum() / (n * (n - 1))) - 2 * near.mean()


class KCL(Objective):
    """``kcl`` with its settings."""

    __init__ = settings_of(kcl)

    @property
    def idle(self) -> tuple[str, ...]:
        """Width or exponent, whichever the kernel has none of."""
        return {"riesz": ("t",), "gaussian_riesz": ()}.get(self.kernel, ("s",))


# ---------------------------------------------------------------- kernels of distances


def pair_kernel(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    kernel: str,
    parameter: float | int,
) -> Float[Tensor, " n"]:
    """k(u_i, v_i), row by row."""
    square = (u - v).square().sum(1)
    if kernel == "gaussian":
        return (-parameter * square).exp()
    value, _ = FUNCTIONS[kernel]
    return value(-square / 2, parameter)


def kernel_sums(
    views: Sequence[Float[Tensor, "n d"]],
    kernel: str,
    parameter: float | int,
    *,
    unit: bool,
    precision: str = "auto",
    share: Share | None = None,
) -> Float[Tensor, "v m"]:
    """Sum of k(x_i, x_j) over the other rows j of the view, for each row i.

    It streams through the log-partition (Gaussian) or the same tiles (the others), so
    no distance matrix is held. Divided by n - 1, the mean is a U-statistic, unbiased
    for any n.
    """
    how: Any = {"unit": unit, "precision": precision, "share": share}
    if kernel == "gaussian":
        return log_gaussian_sums(views, parameter, **how).exp()
    how = _how(views[0], **how) | {"offset": 1.0 if unit else 0.0}
    each = [row_sums(*_rows(x, unit), kernel, parameter, **how) for x in views]
    return torch.stack(each)


def log_gaussian_sums(
    views: Sequence[Float[Tensor, "n d"]],
    t: float | int,
    *,
    unit: bool,
    precision: str = "auto",
    share: Share | None = None,
) -> Float[Tensor, "v m"]:
    """Log sum_{j != i} exp(-t |x_i - x_j|^2): a log-partition at scale 2t."""
    how = _how(views[0], unit, precision, share)
    how |= {"scale": 2 * t, "longest": longest_row(unit)}
    sums = torch.stack([log_partition(*_rows(x, unit), **how) for x in views])
    return sums - 2 * t if unit else sums


def _how(x: Tensor, unit: bool, precision: str, share: Share | None) -> dict[str, Any]:
    ids = sample_ids(x, share)
    precision = precision if unit else "exact"
    kinds = {"row_ids": ids, "column_ids": ids}
    return {**kinds, "precision": precision, "share": share}


def _rows(x: Tensor, unit: bool) -> tuple[Tensor, Tensor]:
    """Rows whose scores are -D^2/2, or for unit rows 1 - D^2/2."""
    return (x, x) if unit else _distance_rows(x)


def _distance_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows a and b with a_i . b_j = -|x_i - x_j|^2 / 2.

    A small distance is a difference of large squares: 16 bits do not hold it.
    """
    half = x.square().sum(1, keepdim=True) / 2
    one = torch.ones_like(half)
    return torch.cat([x, -half, one], 1), torch.cat([x, one, -half], 1)
