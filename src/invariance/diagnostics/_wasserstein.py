r"""Distance of the pairwise cosines from those of a uniform sphere.

$$W_1 = \int_0^1 \big| F_n^{-1}(q) - F^{-1}(q) \big|\, dq$$

F_n is the law of the cosines of all pairs i < j, F that of x·y for independent uniform
x, y on the sphere of R^D: x·y = 2B - 1 with B ~ Beta((D-1)/2, (D-1)/2), of mean 0 and
variance 1/D. D is the width of the rows. The integral is exact: between two steps of
F_n it has the antiderivative

$$\int_{-1}^s x f(x)\,dx = -\frac{\Gamma(D/2)}{\Gamma((D-1)/2)\sqrt\pi}
  \cdot\frac{(1-s^2)^{(D-1)/2}}{D-1}$$

Between 0 and about 1; near 0 is even coverage, near 1 collapse. Unlike the uniformity
it sees the whole law of the cosines, not mostly the closest pairs.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import betainc, betaincinv, gammaln
from torch import Tensor

from ..errors import SettingError, ShapeError
from ._rows import unit_rows


def wasserstein_to_uniform(
    z: Float[Tensor, "n d"], *, max_rows: int = 1000, seed: int = 0
) -> float:
    """Wasserstein-1 distance between the rows' cosines and the ideal ones.

    Args:
        z: the rows, normalised here; at least two, at least two wide.
        max_rows: of more rows than this, so many are drawn without replacement.
        seed: of that draw.

    >>> import torch
    >>> round(wasserstein_to_uniform(torch.ones(5, 64)), 4)     # collapsed
    1.0
    """
    z = unit_rows(z, at_least=2)
    n, d = z.shape
    if d < 2:
        raise ShapeError(f"A sphere needs rows at least 2 wide: got {tuple(z.shape)}.")
    if max_rows < 2:
        raise SettingError(f"max_rows must be at least 2: got {max_rows}.")
    if n > max_rows:
        generator = torch.Generator().manual_seed(seed)
        n, z = (
            max_rows,
            z[torch.randperm(n, generator=generator)[:max_rows].to(z.device)],
        )
    with torch.autocast(z.device.type, enabled=False):
        cosines = (z @ z.T)[*torch.triu_indices(n, n, 1, device=z.device)]
    return _distance_to_sphere_law(cosines.double().cpu().numpy().clip(-1, 1), d)


def _distance_to_sphere_law(cosines: Float[np.ndarray, " m"], d: int) -> float:
    a, m = (d - 1) / 2, len(cosines)
    log_density = math.fsum((gammaln(d / 2), -gammaln(a), -math.log(math.pi) / 2))

    def partial_mean(s: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        return -math.exp(log_density) * (1 - s**2) ** a / (d - 1)

    # the k-th smallest cosine stands for the levels k/m to (k+1)/m of the ideal law
    level = np.arange(m + 1) / m
    edge = 2 * betaincinv(a, a, level) - 1
    x = np.sort(cosines)
    # where the ideal quantile passes x: below it x - F^-1 counts, above it F^-1 - x
    split_level = betainc(a, a, (1 + x) / 2).clip(level[:-1], level[1:])
    split_mean = partial_mean(x.clip(edge[:-1], edge[1:]))
    edge_mean = partial_mean(edge)
    below = x * (split_level - level[:-1]) - (split_mean - edge_mean[:-1])
    above = (edge_mean[1:] - split_mean) - x * (level[1:] - split_level)
    return float((below + above).sum())
