r"""Dimensional collapse: rows that differ, but only along a few directions.

$$\mathrm{used} = \min\Big\{k : \sum_{l\le k}\sigma_l^2 \ge 0.99
  \sum_l\sigma_l^2\Big\}$$

with $\sigma$ the singular values of the centred rows, largest first. ``rank`` counts
those above rounding, ``dead`` the features that never change. A matrix of rank r has
rank r (r - 1 if centring takes one away) whatever its width; even rows use nearly all
of min(n - 1, d). ``collapse`` sees rows that are all alike, this rows on a line or a
plane, which look healthy there.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ._rows import as_rows

SHARE = 0.99
FEW = 0.1


@dataclass(frozen=True)
class Dimensions:
    """How many directions the rows use."""

    width: int
    """Features of a row."""
    rank: int
    """Directions along which rows differ at all."""
    used: int
    """Directions that hold 99 % of the variance; 0 if all rows are the same."""
    dead: int
    """Features that are the same in every row."""
    sentence: str
    """The reading in words."""

    @property
    def collapsed(self) -> bool:
        """Whether less than a tenth of the width is used."""
        return self.used < FEW * self.width

    def __str__(self) -> str:
        return self.sentence


def dimensions(z: Float[Tensor, "n d"]) -> Dimensions:
    """How many directions the rows use, of how many there are.

    >>> import torch
    >>> line = torch.outer(torch.arange(5.0), torch.ones(40))
    >>> print(dimensions(line))
    Dimensional collapse: 1 of 40 directions hold 99 % of the variance.
    """
    z = as_rows(z, at_least=2).double()
    n, d = z.shape
    centred = z - z.mean(0)
    sigma = torch.linalg.svdvals(centred)
    # centring rounds in proportion to the rows as they were
    smallest = max(n, d) * 1e-7 * float(torch.linalg.matrix_norm(z, 2))
    rank = int((sigma > smallest).sum())
    power = sigma.square().cumsum(0)
    used = int((power < SHARE * power[-1]).sum()) + 1 if rank else 0
    size = z.abs().amax(0).clamp_min(1e-30)
    dead = int((centred.abs().amax(0) <= 1e-6 * size).sum())
    few = used < FEW * d
    sentence = (
        f"{'Dimensional collapse: ' if few else ''}{used} of {d} directions hold "
        f"{SHARE:.0%} of the variance"
    ).replace("%", " %") + (f"; {dead} features never change." if dead else ".")
    return Dimensions(d, rank, used, dead, sentence)
