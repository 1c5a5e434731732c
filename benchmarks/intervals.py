"""How sure a difference of means is, from a handful of runs each.

``welch`` compares two groups of runs; ``paired`` runs that share their seeds. Both give
the mean difference and the interval that holds the true one in 95 of 100 such studies.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy import stats


@dataclass(frozen=True)
class Difference:
    """The first group's mean less the second's, with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isinf(self.low) and math.isinf(self.high):
            return f"{self.mean:+.2f} [no interval: one run]"
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def welch(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Means of independent runs, each group with a spread of its own.

    With one run in a group nothing is known of its spread: the interval is infinite.

    >>> print(welch([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]))
    +0.00 [-2.27, +2.27]
    """
    mean = fmean(a) - fmean(b)
    if min(len(a), len(b)) < 2:
        return Difference(mean, -math.inf, math.inf)
    parts = [stdev(group) ** 2 / len(group) for group in (a, b)]
    error = math.sqrt(sum(parts))
    if not error:
        return Difference(mean, mean, mean)
    shares = zip(parts, (a, b), strict=True)
    freedom = sum(parts) ** 2 / sum(p**2 / (len(g) - 1) for p, g in shares)
    half = float(stats.t.ppf(0.975, freedom)) * error
    return Difference(mean, mean - half, mean + half)


def paired(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Means of runs that come in pairs, such as two settings with the same seeds.

    >>> print(paired([2.0, 3.0, 4.5], [1.0, 2.0, 3.0]))
    +1.17 [+0.45, +1.88]
    """
    gaps = [x - y for x, y in zip(a, b, strict=True)]
    mean = fmean(gaps)
    if len(gaps) < 2:
        return Difference(mean, -math.inf, math.inf)
    half = float(stats.t.ppf(0.975, len(gaps) - 1)) * stdev(gaps) / len(gaps) ** 0.5
    return Difference(mean, mean - half, mean + half)


def correlate(x: Sequence[float], y: Sequence[float]) -> Difference:
    """Pearson's correlation with its 95 % interval, by Fisher's transformation."""
    if len(x) < 4:
        return Difference(math.nan, -1.0, 1.0)
    r = pearson(x, y)
    if math.isnan(r):
        return Difference(r, -1.0, 1.0)
    if abs(r) >= 1:
        return Difference(r, r, r)
    center, half = math.atanh(r), 1.96 / math.sqrt(len(x) - 3)
    return Difference(r, math.tanh(center - half), math.tanh(center + half))


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """NaN where one of them never changes.

    >>> round(pearson([1, 2, 3], [2, 4, 7]), 3)
    0.993
    """
    mx, my = fmean(x), fmean(y)
    xx, yy = sum((a - mx) ** 2 for a in x), sum((b - my) ** 2 for b in y)
    xy = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return xy / math.sqrt(xx * yy) if xx * yy else math.nan


def show_mean(values: Sequence[float], digits: int = 2) -> str:
    """Mean and standard deviation, as in '68.21 ± 0.14'.

    >>> show_mean([1.0, 2.0]), show_mean([1.0])
    ('1.50 ± 0.71', '1.00')
    """
    text = f"{fmean(values):.{digits}f}"
    return text if len(values) < 2 else f"{text} ± {stdev(values):.{digits}f}"
