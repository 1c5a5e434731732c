r"""Alignment and uniformity as a loss: near partners, rows spread over the sphere.

$$L = w_a\,\frac1n\sum_i |u_i - v_i|^\alpha + \frac{w_u}2\big[U(u) + U(v)\big],\qquad
U(z) = \log\binom n2^{-1}\sum_{i<j} e^{-t|z_i - z_j|^2}$$

At t = 2 a uniform sphere has U = -3.94 in 128 dimensions, a collapsed batch U = 0.
"""

import math

from jaxtyping import Float
from torch import Tensor

from ..partition import SAME_POINT
from ._kernels import log_gaussian_sums
from ._objective import Objective
from ._rows import check_number, check_positive, paired_rows, tile_precision


def align_uniform(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    alpha: float | int = 2.0,
    t: float | int = 2.0,
    align_weight: float | int = 1.0,
    uniform_weight: float | int = 1.0,
    normalize: bool = True,
) -> Float[Tensor, ""]:
    """Weighted sum of alignment and mean uniformity of the two views.

    >>> import torch
    >>> z = torch.eye(3)
    >>> align_uniform(z, z)  # aligned; every D^2 is 2, so U = -4
    tensor(-4.)
    """
    _check(alpha, t, align_weight, uniform_weight)
    precision = tile_precision(u, v)
    u, v = paired_rows(u, v, normalize=normalize)
    align, uniform = _terms(u, v, alpha, t, unit=normalize, precision=precision)
    return align_weight * align + uniform_weight * uniform


def _terms(
    u: Tensor,
    v: Tensor,
    alpha: float | int,
    t: float | int,
    *,
    unit: bool,
    precision: str = "auto",
) -> tuple[Tensor, Tensor]:
    pairs = math.log(len(u) * (len(u) - 1))
    sums = log_gaussian_sums((u, v), t, unit=unit, precision=precision)
    return _distances(u, v, alpha).mean(), sums.logsumexp(1).mean() - pairs


def _distances(u: Tensor, v: Tensor, alpha: float | int) -> Float[Tensor, " n"]:
    """|u_i - v_i|^alpha."""
    square = (u - v).square().sum(1)
    if alpha == 2:
        return square
    apart = square > SAME_POINT  # |u - v| has no slope at 0: give coinciding rows none
    return (square.where(apart, 1.0) ** (alpha / 2)).where(apart, 0.0)


def _check(
    alpha: float | int,
    t: float | int,
    align_weight: float | int,
    uniform_weight: float | int,
) -> None:
    check_positive("alpha", alpha)
    check_positive("t", t)
    check_number("align_weight", align_weight)
    check_number("uniform_weight", uniform_weight)


class AlignUniform(Objective):
    """``align_uniform`` with its settings."""

    def __init__(
        self,
        alpha: float | int = 2.0,
        *,
        t: float | int = 2.0,
        align_weight: float | int = 1.0,
        uniform_weight: float | int = 1.0,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        _check(alpha, t, align_weight, uniform_weight)
        self.alpha = alpha
        self.t = t
        self.align_weight = align_weight
        self.uniform_weight = uniform_weight
        self.normalize = normalize

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return align_uniform(
            u,
            v,
            alpha=self.alpha,
            t=self.t,
            align_weight=self.align_weight,
            uniform_weight=self.uniform_weight,
            normalize=self.normalize,
        )

    def readings(self, u: Tensor, v: Tensor) -> dict[str, float]:
        """The loss and its two parts."""
        rows = paired_rows(u.detach(), v.detach(), normalize=self.normalize)
        align, uniform = _terms(*rows, self.alpha, self.t, unit=self.normalize)
        parts = {"alignment": float(align), "uniformity": float(uniform)}
        return super().readings(u, v) | parts
