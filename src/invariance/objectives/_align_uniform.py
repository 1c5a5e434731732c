r"""Alignment and uniformity as a loss: near partners, rows spread over the sphere.

$$L = w_a\,\frac1n\sum_i |u_i - v_i|^\alpha + \frac{w_u}2\big[U(u) + U(v)\big],\qquad
U(z) = \log\binom n2^{-1}\sum_{i<j} e^{-t|z_i - z_j|^2}$$

At t = 2 a uniform sphere has U = -3.94 in 128 dimensions, a collapsed batch U = 0.
Where rows are normalized, one of zeros counts as at right angles to all in U.
"""

import math
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ..partition import SAME_POINT
from ._batch import read_pair
from ._declared_settings import (
    Finite,
    Gather,
    MeanOnly,
    Positive,
    check_settings,
    settings_of,
)
from ._kcl import log_gaussian_sums
from ._objective import Objective, Terms


@check_settings
def align_uniform(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    alpha: Positive = 2.0,
    t: Positive = 2.0,
    align_weight: Finite = 1.0,
    uniform_weight: Finite = 1.0,
    normalize: bool = True,
    gather: Gather = None,
    reduction: MeanOnly = "mean",
) -> Float[Tensor, ""]:
    """Weighted sum of alignment and mean uniformity of the two views.

    Settings:
        alpha (above 0): Exponent of the distance between partners.
        t (above 0): Width of the Gaussian that measures how even the rows lie.
        align_weight (any number): Weight of the distance between partners.
        uniform_weight (any number): Weight of the unevenness.

    >>> import torch
    >>> z = torch.eye(3)
    >>> align_uniform(z, z)  # aligned; every D^2 is 2, so U = -4
    tensor(-4.)
    """
    weights = {"alignment": align_weight, "uniformity": uniform_weight}
    return _terms(u, v, alpha, t, weights, normalize, gather).total


def _terms(
    u: Tensor,
    v: Tensor,
    alpha: float | int,
    t: float | int,
    weights: dict[str, float | int],
    normalize: bool,
    gather: Any,
) -> Terms:
    batch = read_pair(u, v, normalize=normalize, gather=gather)
    u, v = batch.views
    sums = log_gaussian_sums(batch, t)
    parts = {
        "alignment": batch.of_all(_distances(u, v, alpha)).mean(),
        "uniformity": sums.logsumexp(1).mean() - math.log(batch.n * (batch.n - 1)),
    }
    return Terms(parts, weights)


def _distances(u: Tensor, v: Tensor, alpha: float | int) -> Float[Tensor, " n"]:
    """|u_i - v_i|^alpha."""
    square = (u - v).square().sum(1)
    if alpha == 2:
        return square
    apart = square > SAME_POINT  # |u - v| has no slope at 0: give coinciding rows none
    return (square.where(apart, 1.0) ** (alpha / 2)).where(apart, 0.0)


class AlignUniform(Objective):
    """``align_uniform`` with its settings."""

    __init__ = settings_of(align_uniform)

    def terms(self, u: Tensor, v: Tensor) -> Terms:
        """Alignment and uniformity."""
        weights = {"alignment": self.align_weight, "uniformity": self.uniform_weight}
        how = self.alpha, self.t, weights, self.normalize, self.gather
        return self.require_finite(_terms(u, v, *how))
