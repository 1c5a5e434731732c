r"""A score: how many test samples were right, and how sure that number is.

The interval is Wilson's, which stays inside [0, 1] and holds for few samples and for
accuracies near the ends:

$$\frac{1}{1+z^2/n}\Big(p + \frac{z^2}{2n} \pm
  z\sqrt{\frac{p(1-p)}{n} + \frac{z^2}{4n^2}}\Big),\qquad z = 1.96$$

It covers the draw of the test samples only; the spread over training seeds is another
matter, and usually the larger one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxtyping import Bool
from torch import Tensor

Setting = int | float | str | bool

Z95 = 1.959963984540054  # normal quantile of 97.5 %


def wilson_interval(n_correct: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share, from a count out of ``n``.

    >>> low, high = wilson_interval(10, 10)
    >>> round(low, 3), high
    (0.722, 1.0)
    """
    p, shrink = n_correct / n, 1 + Z95**2 / n
    centre = (p + Z95**2 / (2 * n)) / shrink
    half = Z95 / shrink * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n * n))
    low = 0.0 if n_correct == 0 else centre - half
    return low, 1.0 if n_correct == n else centre + half


@dataclass(frozen=True)
class Score:
    """The result of one evaluation, with what is needed to trust and repeat it."""

    name: str
    """What was measured, such as "knn"."""
    accuracy: float
    """Share of test samples that were right, 0 to 1."""
    n_test: int
    """Number of test samples."""
    interval: tuple[float, float]
    """95 % interval of the accuracy over draws of the test samples."""
    settings: dict[str, Setting] = field(default_factory=dict)
    """Every setting, as it was used."""
    notes: tuple[str, ...] = ()
    """What a reader should know about this number, in sentences."""

    @classmethod
    def of(
        cls,
        name: str,
        correct: Bool[Tensor, " n"],
        settings: Mapping[str, Setting],
        notes: tuple[str, ...] = (),
    ) -> "Score":
        """The score of test samples that were each right or wrong."""
        n, n_correct = len(correct), int(correct.sum())
        interval = wilson_interval(n_correct, n)
        return cls(name, n_correct / n, n, interval, dict(settings), notes)

    def __str__(self) -> str:
        low, high = (f"{100 * end:.1f}" for end in self.interval)
        settings = ", ".join(
            f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in self.settings.items()
        )
        samples = f"{self.n_test:,} test samples"
        first = (
            f"{self.name}: {100 * self.accuracy:.2f} % "
            f"(95 % interval {low} to {high}, {samples}"
            + (f"; {settings})" if settings else ")")
        )
        return "\n".join([first, *(f"  note: {note}" for note in self.notes)])
