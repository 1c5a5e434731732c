r"""Barlow Twins: the features of the two views correlate one to one, and no others do.

$$L = \sum_k (1 - c_{kk})^2 + \lambda\sum_{k\ne l} c_{kl}^2,\qquad
c = \frac1n\,\mathrm{std}(u)^\top\mathrm{std}(v)$$

std standardizes every feature over the batch (biased variance, batch norm's 1e-5 under
the root). A sum over features, so L grows with d; a constant feature costs 1. Rows are
not normalized.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ._batch import full_precision, paired_rows
from ._declared_settings import Finite, Gather, MeanOnly, check_settings, settings_of
from ._objective import Objective, Terms

VARIANCE_FLOOR = 1e-5


@check_settings
def barlow_twins(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    off_diagonal_weight: Finite = 0.0051,
    gather: Gather = None,
    reduction: MeanOnly = "mean",
) -> Float[Tensor, ""]:
    """Squared distance of the cross-correlation matrix from the identity.

    Settings:
        off_diagonal_weight (any number): Weight of correlations between different
            features.

    >>> import torch
    >>> u = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> barlow_twins(u, u) < 1e-6
    tensor(True)
    """
    return _terms(u, v, off_diagonal_weight, gather).total


def _terms(u: Tensor, v: Tensor, weight: float | int, gather: Any) -> Terms:
    u, v = paired_rows(u, v, normalize=False, gather=gather)
    with full_precision(u):
        correlation = _standardize(u).T @ _standardize(v) / len(u)
    diagonal = correlation.diagonal()
    parts = {
        "diagonal": (1 - diagonal).square().sum(),
        "off_diagonal": correlation.square().sum() - diagonal.square().sum(),
    }
    return Terms(parts, {"off_diagonal": weight})


def _standardize(x: Tensor) -> Tensor:
    """Each feature with mean 0 and variance 1, also if squares would be infinite."""
    limits, largest = torch.finfo(x.dtype), x.detach().abs().amax(0)
    unit = largest.where(largest > limits.max**0.25, 1.0)
    x, floor = x / unit, VARIANCE_FLOOR / unit / unit + limits.tiny
    variance, mean = torch.var_mean(x, 0, correction=0)
    return (x - mean) / (variance + floor).sqrt()


class BarlowTwins(Objective):
    """``barlow_twins`` with its settings."""

    __init__ = settings_of(barlow_twins)

    def terms(self, u: Tensor, v: Tensor) -> Terms:
        """Diagonal and off-diagonal of the cross-correlation matrix."""
        terms = _terms(u, v, self.off_diagonal_weight, self.gather)
        return self.require_finite(terms)
