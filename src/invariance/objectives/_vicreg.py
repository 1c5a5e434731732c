r"""VICReg: the views agree, every feature varies, and no two vary together.

$$L = \lambda\,\frac1{nd}\|u - v\|^2 + \frac\mu2\big[V(u) + V(v)\big]
+ \nu\big[C(u) + C(v)\big]$$

$V(z) = \frac1d\sum_k \max(0, 1 - \sqrt{\mathrm{var}\,z_k + 10^{-4}})$ and C the
off-diagonal squares of the covariance (n - 1 in the divisor) over d. This is
the released code; the paper's text sums the first term over d and has no half on the
second. Rows are not normalised.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import mse_loss, relu

from ._objective import Objective
from ._rows import check_number, paired_rows

VARIANCE_FLOOR = 1e-4


def vicreg(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    invariance_weight: float | int = 25.0,
    variance_weight: float | int = 25.0,
    covariance_weight: float | int = 1.0,
) -> Float[Tensor, ""]:
    """Weighted sum of invariance, variance and covariance.

    >>> import torch
    >>> u = 2 * torch.eye(4)
    >>> vicreg(u, u, variance_weight=0.0, covariance_weight=0.0)
    tensor(0.)
    """
    weights = (invariance_weight, variance_weight, covariance_weight)
    _check(*weights)
    parts = _terms(u, v).values()
    return torch.stack([w * p for w, p in zip(weights, parts, strict=True)]).sum()


def _terms(u: Tensor, v: Tensor) -> dict[str, Tensor]:
    u, v = paired_rows(u, v, normalize=False)
    return {
        "invariance": mse_loss(u, v),
        "variance": (_variance(u) + _variance(v)) / 2,
        "covariance": _covariance(u) + _covariance(v),
    }


def _variance(z: Tensor) -> Tensor:
    return relu(1 - (z.var(0) + VARIANCE_FLOOR).sqrt()).mean()


def _covariance(z: Tensor) -> Tensor:
    z = z - z.mean(0)
    covariance = z.T @ z / (len(z) - 1)
    off_diagonal = covariance.square().sum() - covariance.diagonal().square().sum()
    return off_diagonal / z.shape[1]


def _check(
    invariance: float | int, variance: float | int, covariance: float | int
) -> None:
    check_number("invariance_weight", invariance)
    check_number("variance_weight", variance)
    check_number("covariance_weight", covariance)


class VICReg(Objective):
    """``vicreg`` with its settings."""

    def __init__(
        self,
        invariance_weight: float | int = 25.0,
        variance_weight: float | int = 25.0,
        covariance_weight: float | int = 1.0,
    ) -> None:
        super().__init__()
        _check(invariance_weight, variance_weight, covariance_weight)
        self.invariance_weight = invariance_weight
        self.variance_weight = variance_weight
        self.covariance_weight = covariance_weight

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return vicreg(
            u,
            v,
            invariance_weight=self.invariance_weight,
            variance_weight=self.variance_weight,
            covariance_weight=self.covariance_weight,
        )

    def readings(self, u: Tensor, v: Tensor) -> dict[str, float]:
        """The loss and its three unweighted parts."""
        parts = _terms(u.detach(), v.detach())
        return super().readings(u, v) | {k: float(p) for k, p in parts.items()}
