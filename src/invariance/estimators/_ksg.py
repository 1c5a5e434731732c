r"""Kraskov, Stögbauer and Grassberger's estimate from nearest neighbours.

$$\hat I = \psi(k) + \psi(n) - \frac1n\sum_i\big[\psi(n_x(i)+1)+\psi(n_y(i)+1)\big]$$

n_x(i) counts the rows whose x is strictly closer than the k-th neighbour in the joint
space (largest-coordinate distance). Nearly unbiased in few dimensions; in many, or for
strong dependence, it comes out far too low.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from scipy.spatial import cKDTree
from scipy.special import digamma
from torch import Tensor


def ksg(
    x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"], *, neighbours: int = 3
) -> tuple[float, float]:
    """Nats and their standard error.

    Columns should be on a common scale, and free of ties: neighbours at distance zero
    have no density.

    >>> import torch
    >>> x = torch.randn(500, 1, generator=torch.Generator().manual_seed(0))
    >>> y = x + torch.randn(500, 1, generator=torch.Generator().manual_seed(1))
    >>> round(ksg(x, y)[0], 1)  # log(2) / 2
    0.3
    """
    a, b = (np.ascontiguousarray(z.double().cpu().numpy()) for z in (x, y))
    n = len(a)
    both = np.concatenate([a, b], 1)
    distance = cKDTree(both).query(both, k=neighbours + 1, p=np.inf)[0][:, -1]
    counts = [_closer(z, distance) for z in (a, b)]
    terms = digamma(counts[0] + 1) + digamma(counts[1] + 1)
    nats = float(digamma(neighbours) + digamma(n) - terms.mean())
    # neighbouring terms share samples; a tenth more covers it in practice
    return nats, 1.1 * float(terms.std()) / math.sqrt(n)


def _closer(z: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """How many other rows lie strictly within each row's distance."""
    if z.shape[1] > 1:
        within = np.nextafter(distance, 0)
        found = cKDTree(z).query_ball_point(z, within, p=np.inf, return_length=True)
        return np.maximum(found - 1, 0)
    # a sorted column answers at once, but for rounding: the row that sets the distance
    # must not be counted, so the ends are moved in until differences are smaller
    column = z[:, 0]
    ordered = np.sort(column)
    high = np.searchsorted(ordered, column + distance, side="right")
    low = np.searchsorted(ordered, column - distance, side="left")
    while (over := (high > low + 1) & (ordered[high - 1] - column >= distance)).any():
        high = high - over
    while (over := (high > low + 1) & (column - ordered[low] >= distance)).any():
        low = low + over
    return np.maximum(high - low - 1, 0)


def corrected_ksg(
    x: Float[Tensor, "n dx"],
    y: Float[Tensor, "n dy"],
    twin: tuple[Float[Tensor, "n dx"], Float[Tensor, "n dy"], float],
    *,
    neighbours: int = 3,
) -> tuple[float, float]:
    """The estimate less its error on a twin: rows of known information.

    The twin is drawn from a distribution like the data's (a Gaussian of the same
    correlations), so the two errors are nearly the same.
    """
    nats, error = ksg(x, y, neighbours=neighbours)
    same, twin_error = ksg(twin[0], twin[1], neighbours=neighbours)
    return nats - (same - twin[2]), math.hypot(error, twin_error)


def gaussian_twin(
    x: Float[Tensor, "n dx"],
    y: Float[Tensor, "n dy"],
    nats: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, float]:
    """Normal rows with the covariance of [x, y], and their exact information."""
    both = torch.cat([x, y], 1).double()
    both = both - both.mean(0)
    covariance = both.T @ both / len(both)
    values, vectors = torch.linalg.eigh(covariance)
    root = vectors * values.clamp(min=0).sqrt()
    draw = torch.randn(both.shape, generator=generator, dtype=torch.float64) @ root.T
    return draw[:, : x.shape[1]], draw[:, x.shape[1] :], nats
