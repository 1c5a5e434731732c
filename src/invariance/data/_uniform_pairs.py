r"""A uniform variable seen through uniform noise: sharp edges, no Gaussian in sight.

$$X\sim U(0,1),\quad Y = X + U(-e, e):\qquad
I = \begin{cases} e - \log 2e & e\le\tfrac12\\ 1/(4e) & e\ge\tfrac12\end{cases}$$

in each of ``dim`` independent columns.
"""

import math

import torch
from torch import Tensor

from ..errors import SettingError
from ._pairs import Pairs


def uniform_noise(dim: int = 1, *, noise: float | int) -> Pairs:
    """``dim`` uniform columns and what is left of them under noise of +-``noise``.

    >>> round(uniform_noise(noise=0.1).nats, 4)
    1.7094
    """
    if noise <= 0 or dim < 1:
        raise SettingError(f"Expected noise > 0 and dim >= 1, got {noise} and {dim}.")
    e = float(noise)
    nats = dim * (e - math.log(2 * e) if e <= 0.5 else 1 / (4 * e))

    def draw(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        shape = (2, n, dim)
        x, u = torch.rand(shape, generator=generator, dtype=torch.float64)
        return x, x + e * (2 * u - 1)

    def ratio(x: Tensor, y: Tensor) -> Tensor:
        # p(y) = |[y - e, y + e] and [0, 1]| / 2e, and p(y|x) = 1/2e inside the noise
        overlap = (y + e).clamp(max=1) - (y - e).clamp(min=0)
        edge = 1e-6  # what float32 rows may be off by
        inside = ((y - x).abs() <= e + edge) & (overlap > 0)
        return torch.where(inside, -overlap.clamp_min(1e-300).log(), -math.inf).sum(1)

    return Pairs(f"uniform {dim}x{dim}, noise {e:g}", nats, dim, dim, draw, ratio)
