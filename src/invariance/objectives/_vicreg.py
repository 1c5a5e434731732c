r"""VICReg: the views agree, every feature varies, and no two vary together.

$$L = \lambda\,\frac1{nd}\|u - v\|^2 + \frac\mu2\big[V(u) + V(v)\big]
+ \nu\big[C(u) + C(v)\big]$$

$V(z) = \frac1d\sum_k \max(0, 1 - \sqrt{\mathrm{var}\,z_k + 10^{-4}})$ and C the
off-diagonal squares of the covariance (n - 1 in the divisor) over d. This is
the released code; the paper's text sums the first term over d and has no half on the
second. Rows are not normalized.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import mse_loss, relu

from ._batch import full_precision, paired_rows
from ._declared_settings import Finite, Gather, MeanOnly, check_settings, settings_of
from ._objective import Objective, Terms

VARIANCE_FLOOR = 1e-4


@check_settings
def vicreg(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    invariance_weight: Finite = 25.0,
    variance_weight: Finite = 25.0,
    covariance_weight: Finite = 1.0,
    gather: Gather = None,
    reduction: MeanOnly = "mean",
) -> Float[Tensor, ""]:
    """Weighted sum of invariance, variance and covariance.

    Settings:
        invariance_weight (any number): Weight of the distance between partners.
        variance_weight (any number): Weight of features that vary too little.
        covariance_weight (any number): Weight of features that vary together.

    >>> import torch
    >>> u = 2 * torch.eye(4)
    >>> vicreg(u, u, variance_weight=0.0, covariance_weight=0.0)
    tensor(0.)
    """
    weights = (invariance_weight, variance_weight, covariance_weight)
    return _terms(u, v, weights, gather).total


def _terms(u: Tensor, v: Tensor, weights: tuple, gather: Any) -> Terms:
    u, v = paired_rows(u, v, normalize=False, gather=gather)
    parts = {
        "invariance": mse_loss(u, v),
        "variance": (_variance(u) + _variance(v)) / 2,
        "covariance": _covariance(u) + _covariance(v),
    }
    return Terms(parts, dict(zip(parts, weights, strict=True)))


def _variance(z: Tensor) -> Tensor:
    return relu(1 - (z.var(0) + VARIANCE_FLOOR).sqrt()).mean()


def _covariance(z: Tensor) -> Tensor:
    z = z - z.mean(0)
    with full_precision(z):
        covariance = z.T @ z / (len(z) - 1)
    off_diagonal = covariance.square().sum() - covariance.diagonal().square().sum()
    return off_diagonal / z.shape[1]


class VICReg(Objective):
    """``vicreg`` with its settings."""

    __init__ = settings_of(vicreg)

    def terms(self, u: Tensor, v: Tensor) -> Terms:
        """Invariance, variance and covariance."""
        weights = self.invariance_weight, self.variance_weight, self.covariance_weight
        return self.require_finite(_terms(u, v, weights, self.gather))
