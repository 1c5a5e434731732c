"""Numbers of several seeds: their mean, their spread, and whether two differ.

Verdicts lean on intervals of 95 % from Student's law, which assume independent seeds
and means that are about normal. Two settings measured with the same seeds are compared
seed by seed. One seed alone decides nothing: its interval is infinite. Every interval
stands by itself; none is corrected for how many others there are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.stats import spearmanr, t


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation and number, with an interval of 95 % for the mean.

    >>> s = Spread.of([1.0, 2.0, 3.0])
    >>> str(s), round(s.low, 2), round(s.high, 2)
    ('2.0 ± 1.0', -0.48, 4.48)
    """

    mean: float
    deviation: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of at least one value."""
        deviation = stdev(values) if len(values) > 1 else math.nan
        return cls(fmean(values), deviation, len(values))

    @property
    def half_width(self) -> float:
        """Of the interval; infinite for one value."""
        if self.n < 2:
            return math.inf
        return float(t.ppf(0.975, self.n - 1)) * self.deviation / math.sqrt(self.n)

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width

    @property
    def is_above_zero(self) -> bool:
        """Beyond what seeds explain."""
        return self.low > 0

    @property
    def is_below_zero(self) -> bool:
        """Beyond what seeds explain."""
        return self.high < 0

    def __str__(self) -> str:
        return show_spread(self.mean, self.deviation)


def compare(a: Sequence[float], b: Sequence[float]) -> Spread:
    """A - b, seed by seed.

    >>> compare([3.0, 4.0, 5.1], [1.0, 2.0, 3.0]).is_above_zero
    True
    """
    return Spread.of([x - y for x, y in zip(a, b, strict=True)])


def show_spread(mean: float, deviation: float = math.nan) -> str:
    """A mean with as many digits as its deviation warrants: two of the deviation.

    >>> show_spread(71.238, 1.44), show_spread(0.01234), show_spread(12345.6, 200.0)
    ('71.2 ± 1.4', '0.01234', '12,346 ± 200')
    """
    if not math.isfinite(mean):
        return str(mean)
    if not math.isfinite(deviation) or deviation == 0:
        return f"{mean:,.4g}" if abs(mean) < 1e5 else f"{mean:.3g}"
    digits = max(0, 1 - math.floor(math.log10(deviation)))
    if digits > 6:
        return f"{mean:.3g} ± {deviation:.1g}"
    return f"{mean:,.{digits}f} ± {deviation:,.{digits}f}"


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's, from -1 to 1; 0 where one of them is constant.

    >>> round(rank_correlation([1.0, 2.0, 3.0], [10.0, 20.0, 15.0]), 6)
    0.5
    """
    if len(set(x)) < 2 or len(set(y)) < 2:
        return 0.0
    return float(spearmanr(x, y).statistic)
