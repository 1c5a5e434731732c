r"""The Gaussian estimate: canonical correlations, with or without the margins.

$$\hat I = -\tfrac12\sum_k\log(1-\hat\rho_k^2) - \text{bias},\qquad
\text{bias} = \tfrac12\big[c(d_x)+c(d_y)-c(d_x+d_y)\big]$$

c(d) is the known error of the log-determinant of a sample covariance, a sum of digamma
functions. Exact on average for Gaussian data; after normal scores (a Gaussian copula)
for every increasing image of them, too; elsewhere neither above nor below I for sure.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import digamma
from torch import Tensor


def canonical_correlations(
    x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"]
) -> Float[Tensor, " k"]:
    """The canonical correlations of the sample, largest first.

    >>> import torch
    >>> x = torch.tensor([[1.0], [2.0], [3.0], [5.0]]).double()
    >>> round(canonical_correlations(x, 7 - 2 * x)[0].item(), 6)
    1.0
    """
    return correlations_and_ranks(x, y)[0]


def correlations_and_ranks(
    x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"]
) -> tuple[Float[Tensor, " k"], tuple[int, int]]:
    """Canonical correlations, and how many columns of x and y are no sums of others."""
    a, b = _basis(x), _basis(y)
    return torch.linalg.svdvals(a.T @ b).clamp(max=1.0), (a.shape[1], b.shape[1])


def _basis(z: Tensor) -> Tensor:
    """Orthonormal columns that span the centred columns of z."""
    z = z.double() - z.double().mean(0)
    z = z / z.std(0).clamp(min=1e-300)
    left, size, _ = torch.linalg.svd(z, full_matrices=False)
    return left[:, size > 1e-9 * size[0]]


def gaussian_information(
    rho: Float[Tensor, " k"], n: int, widths: tuple[int, int]
) -> tuple[float, float]:
    """Nats and their standard error from sample canonical correlations.

    ``widths`` counts columns that say something new: repeated ones add no chance of
    correlation, and so no bias.
    """
    left = 1 - rho.square()
    nats = -0.5 * left.log().sum().item()
    bias = (_c(n, widths[0]) + _c(n, widths[1]) - _c(n, sum(widths))) / 2
    # the delta method for what is correlated, the chi-square for what is not
    chance = widths[0] * widths[1] / n
    linked = max(0.0, rho.square().sum().item() - chance)
    spread = linked / n + widths[0] * widths[1] / (2 * n**2)
    return nats - bias, math.sqrt(spread)


def _c(n: int, d: int) -> float:
    """E log|S| - log|Sigma| of the sample covariance of d normal columns."""
    free = n - 1
    return float(np.sum(digamma((free - np.arange(d)) / 2)) - d * math.log(free / 2))
