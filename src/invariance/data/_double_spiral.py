r"""The double spiral: points along two spirals that wind into each other.

$$(x, y) = \pm\,\tfrac{1}{2\pi}\,t\,(\cos t, \sin t),\qquad t = 2\pi n\sqrt{u},\quad
u\ \text{even in}\ [0, 1]$$

The sign is the class, n the number of turns, and neighboring arms are 1/2 apart. With 2
turns each coordinate spreads by about 1, so noise that is measured by the spread is
noise in the plane. After Wu et al. 2020
(the views paper, 4.3), where a representation in two dimensions is looked at: a linear
classifier of it tells the spirals apart only where they have been unrolled.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError
from ._load_request import Request
from ._row import Column, Row
from ._sources import Read, Stored
from ._split import draw_parts

SPIRALS = ("first spiral", "second spiral")
KIND = Row([Column("x"), Column("y")])


def double_spiral(
    n: int, *, turns: float | int = 2, seed: int = 0
) -> tuple[Float[Tensor, "n 2"], Int[Tensor, " n"]]:
    """Points, and which spiral each is on.

    >>> points, spirals = double_spiral(1000)
    >>> points.shape, [round(s, 1) for s in points.std(0).tolist()], spirals[:4]
    (torch.Size([1000, 2]), [1.0, 1.0], tensor([0, 1, 0, 1]))
    """
    if not turns > 0:
        raise SettingError(f"The spirals make more than 0 turns: got {turns}.")
    generator = torch.Generator().manual_seed(seed)
    end = 2 * math.pi * turns
    t = end * torch.rand(n, generator=generator, dtype=torch.float64).sqrt()
    spirals = torch.arange(n) % 2
    radius = (1 - 2 * spirals) * turns * t / end
    points = torch.stack([radius * t.cos(), radius * t.sin()], 1)
    return points.float(), spirals


def read_double_spiral(request: Request) -> Read:
    """The points of one part; "all" is four fifths train, then a fifth test."""
    parts = draw_parts(request, 4000, 1000, one_in=5)
    drawn = [double_spiral(n, seed=seed) for n, seed in parts]
    items = Stored(torch.cat([points for points, _ in drawn]), KIND)
    items.labels = torch.cat([spirals for _, spirals in drawn])
    items.class_names = SPIRALS
    return Read("double_spiral", items, parallel=False)
