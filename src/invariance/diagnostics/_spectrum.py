"""How many directions rows use: the spectrum, and the two kinds of collapse.

Rows that are all alike are a collapse, which ``collapse`` sees. Rows that differ, but
on a line or a plane only, are a dimensional collapse: they look healthy there, and
``effective_rank`` and ``dimensions`` see them.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..checked_rows import as_rows, as_unit_rows
from ..thresholds import NARROW_SPREAD, is_collapsed, uses_few_directions
from ..words import count

EPSILON = 1e-7
VARIANCE_SHARE = 0.99


def singular_spectrum(z: Float[Tensor, "n d"]) -> Float[Tensor, " k"]:
    """The min(n, d) singular values of the rows, largest first, on their device.

    >>> import torch
    >>> singular_spectrum(torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
    tensor([4., 3.])
    """
    return torch.linalg.svdvals(as_rows(z))


def effective_rank(z: Float[Tensor, "n d"]) -> float:
    r"""How many directions the rows use, weighed by their strength (RankMe).

    $$\mathrm{rank} = \exp\Big(-\sum_k p_k\log p_k\Big),\qquad
      p_k = \frac{\sigma_k}{\sum_l\sigma_l} + 10^{-7}$$

    with $\sigma$ the singular values of the matrix as it is: neither centered nor
    normalized, and not squared. Between 1 (all rows on one line) and min(n, d) (all
    directions equally strong); 0 for a matrix of zeros. A fall during training is
    dimensional collapse. Compare only readings with the same n and d.

    >>> import torch
    >>> round(effective_rank(torch.eye(6)), 3)
    6.0
    """
    spectrum = singular_spectrum(z)
    total = spectrum.sum()
    if total == 0:
        return 0.0
    p = spectrum / total + EPSILON
    return torch.exp(-(p * p.log()).sum()).item()


@dataclass(frozen=True)
class Collapse:
    """How far the rows are from being all the same."""

    spread: float
    """Mean standard deviation of a feature of the normalized rows."""
    healthy: float
    """The spread of rows that cover the sphere evenly: 1 / sqrt(d)."""
    collapsed: bool
    """Whether less than a tenth of the healthy spread is left."""
    sentence: str
    """The reading in words."""

    @property
    def ratio(self) -> float:
        """The spread as a share of the healthy one, 0 to 1."""
        return self.spread / self.healthy

    def __str__(self) -> str:
        return self.sentence


def collapse(z: Float[Tensor, "n d"]) -> Collapse:
    r"""Whether the rows still differ (the reading of SimSiam).

    $$\mathrm{spread} = \frac1d\sum_k \operatorname{std}_i(z_{ik}),\qquad
      \mathrm{healthy} = \frac1{\sqrt d}$$

    Rows are normalized; the standard deviation is that of the rows given (divided by
    n). Rows spread evenly over the sphere read 1/sqrt(d), identical rows 0; nothing
    reads more than 1/sqrt(d).

    >>> import torch
    >>> print(collapse(torch.ones(8, 4)))
    Collapsed: the spread of a feature is 0 % of the healthy 0.500.
    """
    z = as_unit_rows(z, at_least=2)
    spread = z.std(0, correction=0).mean().item()
    healthy = z.shape[1] ** -0.5
    ratio = spread / healthy
    collapsed = is_collapsed(ratio)
    word = "Collapsed" if collapsed else "Narrow" if ratio < NARROW_SPREAD else "Wide"
    sentence = (
        f"{word}: the spread of a feature is {ratio:.0%} of the healthy {healthy:.3f}."
    ).replace("%", " %")
    return Collapse(spread, healthy, collapsed, sentence)


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
        return uses_few_directions(self.used, self.width)

    def __str__(self) -> str:
        return self.sentence


def dimensions(z: Float[Tensor, "n d"]) -> Dimensions:
    r"""How many directions the rows use, of how many there are.

    $$\mathrm{used} = \min\Big\{k : \sum_{l\le k}\sigma_l^2 \ge 0.99
      \sum_l\sigma_l^2\Big\}$$

    with $\sigma$ the singular values of the centered rows, largest first. A matrix of
    rank r has rank r (r - 1 if centering takes one away) whatever its width; even rows
    use nearly all of min(n - 1, d).

    >>> import torch
    >>> line = torch.outer(torch.arange(5.0), torch.ones(40))
    >>> print(dimensions(line))
    1 of 40 directions holds 99 % of the variance: a line, a dimensional collapse.
    """
    z = as_rows(z, at_least=2).double()
    n, d = z.shape
    centered = z - z.mean(0)
    sigma = torch.linalg.svdvals(centered)
    # centering rounds in proportion to the rows as they were
    smallest = max(n, d) * 1e-7 * float(torch.linalg.matrix_norm(z, 2))
    rank = int((sigma > smallest).sum())
    power = sigma.square().cumsum(0)
    used = int((power < VARIANCE_SHARE * power[-1]).sum()) + 1 if rank else 0
    size = z.abs().amax(0).clamp_min(1e-30)
    dead = int((centered.abs().amax(0) <= 1e-6 * size).sum())
    verb = "holds" if used == 1 else "hold"
    sentence = f"{used} of {d} directions {verb} {VARIANCE_SHARE:.0%} of the variance"
    sentence = sentence.replace("%", " %")
    if used == 0:
        sentence = f"None of {d} directions varies: all rows are the same, a collapse"
    elif used == 1 and d > 1:
        sentence += ": a line, a dimensional collapse"
    elif uses_few_directions(used, d):
        sentence += (
            ": few, as is usual for telling a few classes apart, and a dimensional "
            "collapse if there is more to tell apart"
        )
    if dead:
        sentence += f"; {count(dead, 'feature')} never {'change' + 's' * (dead == 1)}"
    sentence += "."
    return Dimensions(d, rank, used, dead, sentence)
