r"""Collapse: whether the rows still differ (the reading of SimSiam).

$$\mathrm{spread} = \frac1d\sum_k \operatorname{std}_i(z_{ik}),\qquad
  \mathrm{healthy} = \frac1{\sqrt d}$$

Rows are normalised; the standard deviation is that of the rows given (divided by n).
Rows spread evenly over the sphere read 1/sqrt(d), identical rows 0; nothing reads more
than 1/sqrt(d). Rows on a few directions can still look healthy here: that is
dimensional collapse, which ``effective_rank`` sees.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ._rows import unit_rows

COLLAPSED, NARROW = 0.1, 0.5  # shares of the healthy spread


@dataclass(frozen=True)
class Collapse:
    """How far the rows are from being all the same."""

    spread: float
    """Mean standard deviation of a feature of the normalised rows."""
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
    """The spread of the normalised rows beside that of an even cover of the sphere.

    >>> import torch
    >>> print(collapse(torch.ones(8, 4)))
    Collapsed: the spread of a feature is 0 % of the healthy 0.500.
    """
    z = unit_rows(z, at_least=2)
    spread = z.std(0, correction=0).mean().item()
    healthy = z.shape[1] ** -0.5
    ratio = spread / healthy
    word = (
        "Collapsed" if ratio < COLLAPSED else "Narrow" if ratio < NARROW else "Healthy"
    )
    sentence = (
        f"{word}: the spread of a feature is {ratio:.0%} of the healthy {healthy:.3f}."
    ).replace("%", " %")
    return Collapse(spread, healthy, ratio < COLLAPSED, sentence)
