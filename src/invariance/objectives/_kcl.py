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

from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..partition import FUNCTIONS, fused_loss, log_partition, row_sums
from ._batch import Batch, make_batch, share_pair
from ._contrast import log_count
from ._declared_settings import (
    Finite,
    Gather,
    NotZero,
    Positive,
    Reduction,
    check_settings,
    one_of,
    settings_of,
)
from ._objective import Objective

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
    share = share_pair(u, v, gather)
    alone = share is None
    if kernel == "gaussian" and normalize and reduction == "mean" and alone:
        n = len(u)
        loss = fused_loss(
            u,
            v,
            "kernel",
            parameters=(2 * gamma / (n - 1), 2.0 * t),
            scale=2 * t,  # of unit rows: D^2 is 2 minus twice the score
            negatives="within",
            log_count=log_count(n, "within"),
        )
        if loss is not None:
            return loss
    batch = make_batch((u, v), normalize=normalize, share=share)
    u, v = batch.views
    energy, alignment = {
        "riesz": (("riesz", s), ("riesz", s)),
        "gaussian_riesz": (("riesz", s), ("gaussian", t)),
    }.get(kernel, ((kernel, t), (kernel, t)))
    sums, n = kernel_sums(batch, *energy), batch.n
    near = batch.of_all(pair_kernel(u, v, *alignment))
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
    batch: Batch, kernel: str, parameter: float | int
) -> Float[Tensor, "v m"]:
    """Sum of k(x_i, x_j) over the other rows j of the view, for each row i.

    It streams through the log-partition (Gaussian) or the same tiles (the others), so
    no distance matrix is held. Divided by n - 1, the mean is a U-statistic, unbiased
    for any n.
    """
    if kernel == "gaussian":
        return log_gaussian_sums(batch, parameter).exp()
    how = _full_pairing(batch) | {"offset": 1.0 if batch.unit else 0.0}
    pairs = [_rows(x, batch.unit) for x in batch.views]
    return torch.stack([row_sums(*p, kernel, parameter, **how) for p in pairs])


def log_gaussian_sums(batch: Batch, t: float | int) -> Float[Tensor, "v m"]:
    """Log sum_{j != i} exp(-t |x_i - x_j|^2): a log-partition at scale 2t."""
    how = _full_pairing(batch) | {"scale": 2 * t, "longest": batch.longest}
    pairs = [_rows(x, batch.unit) for x in batch.views]
    sums = torch.stack([log_partition(*p, **how) for p in pairs])
    return sums - 2 * t if batch.unit else sums


def _full_pairing(batch: Batch) -> dict[str, Any]:
    """``pairing``; with all digits where scores are differences of squares."""
    return batch.pairing if batch.unit else batch.pairing | {"precision": "exact"}


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
