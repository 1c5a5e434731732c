r"""Barlow Twins: the features of the two views correlate one to one, and no others do.

$$L = \sum_k (1 - c_{kk})^2 + \lambda\sum_{k\ne l} c_{kl}^2,\qquad
c = \frac1n\,\mathrm{std}(u)^\top\mathrm{std}(v)$$

std standardises every feature over the batch (biased variance, batch norm's 1e-5 under
the root). A sum over features, so L grows with d; a constant feature costs 1. Rows are
not normalised.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ._objective import Objective
from ._rows import check_number, paired_rows

VARIANCE_FLOOR = 1e-5


def barlow_twins(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    off_diagonal_weight: float | int = 0.0051,
) -> Float[Tensor, ""]:
    """Squared distance of the cross-correlation matrix from the identity.

    >>> import torch
    >>> u = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> barlow_twins(u, u) < 1e-6
    tensor(True)
    """
    check_number("off_diagonal_weight", off_diagonal_weight)
    diagonal, rest = _terms(u, v)
    return diagonal + off_diagonal_weight * rest


def _terms(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    u, v = paired_rows(u, v, normalize=False)
    correlation = _standardise(u).T @ _standardise(v) / len(u)
    diagonal = correlation.diagonal()
    rest = correlation.square().sum() - diagonal.square().sum()
    return (1 - diagonal).square().sum(), rest


def _standardise(x: Tensor) -> Tensor:
    variance, mean = torch.var_mean(x, 0, correction=0)
    return (x - mean) / (variance + VARIANCE_FLOOR).sqrt()


class BarlowTwins(Objective):
    """``barlow_twins`` with its settings."""

    def __init__(self, off_diagonal_weight: float | int = 0.0051) -> None:
        super().__init__()
        check_number("off_diagonal_weight", off_diagonal_weight)
        self.off_diagonal_weight = off_diagonal_weight

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return barlow_twins(u, v, off_diagonal_weight=self.off_diagonal_weight)

    def readings(self, u: Tensor, v: Tensor) -> dict[str, float]:
        """The loss and its two unweighted parts."""
        diagonal, rest = _terms(u.detach(), v.detach())
        parts = {"diagonal": float(diagonal), "off_diagonal": float(rest)}
        return super().readings(u, v) | parts
