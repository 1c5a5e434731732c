"""What counts as collapsed and as saturated, for every reading, warning and verdict.

Plain numbers in, yes or no out, without torch: whoever holds the numbers (a batch, a
line of metrics.jsonl, an estimate) asks the same question here.
"""

import math

COLLAPSED_SPREAD = 0.1
"""Share of the spread of an even cover below which rows count as all the same."""
NARROW_SPREAD = 0.5
"""Share of the spread of an even cover below which rows fill a cone only."""
COLLAPSED_RANK = 1.5
"""Effective rank below which rows lie on one line, up to noise."""
FEW_DIRECTIONS = 0.1
"""Share of the width; rows that use fewer directions may be a dimensional collapse."""


def is_collapsed(spread: float, effective_rank: float | None = None) -> bool:
    """Whether rows are nearly all the same, or lie on one line.

    Both numbers are needed: rows that are all alike have rank 1 and no spread, but rows
    at the two ends of a line have rank 1 and the full spread.

    Args:
        spread: ``Collapse.ratio``, the share of the spread of an even cover, 0 to 1.
        effective_rank: Of the same rows; None where only the spread is known.

    >>> is_collapsed(0.05), is_collapsed(0.9, 1.2), is_collapsed(0.9, 30.0)
    (True, True, False)
    """
    on_a_line = effective_rank is not None and effective_rank < COLLAPSED_RANK
    return spread < COLLAPSED_SPREAD or on_a_line


def uses_few_directions(used: int, width: int) -> bool:
    """Whether rows of this width differ, but only along a few directions."""
    return used < FEW_DIRECTIONS * width


def reachable_information(n: float | int, temperature: float | int) -> float:
    r"""The most that InfoNCE can read from cosines of n pairs at a temperature.

    $$\log n - \log\Big(1 + (n-1)\,e^{-n/((n-1)\tau)}\Big)$$

    Cosines end at 1 and -1, so a logit can only be so much above the others. The best
    that unit rows can do is u = v, a regular simplex, in which all cosines between
    samples are -1/(n - 1): by convexity the loss is least when all its differences are
    alike, and no rows have a mean difference beyond n/(n - 1). A simplex needs n <= d +
    1; in fewer dimensions the value is a limit that cannot quite be reached. Scores
    that are no cosines have the limit log n alone.

    Args:
        n: Candidates of an anchor, its partner included.
        temperature: What the cosines are divided by.

    >>> [round(reachable_information(128, t), 2) for t in (0.5, 0.2, 0.05)]
    [1.97, 4.25, 4.85]
    """
    if n <= 1:
        return 0.0  # a partner alone is always found
    return math.log(n) - math.log1p((n - 1) * math.exp(-n / ((n - 1) * temperature)))


def is_saturated(
    nats: float, ceiling: float | None, reachable: float | None = None
) -> bool:
    r"""Whether a bound is so near its ceiling that the information may be far larger.

    With information I and n candidates, a critic that finds every partner equally well
    leaves a gap of log(1 + (n - 1) e^-I) below the ceiling log n. The gap is log 2 when
    I reaches log(n - 1): with less than log 2 left, the information itself is at the
    ceiling, and only more candidates can show how far beyond. A fixed smaller gap (0.2
    nats, say) would call a bound free that hides most of the information. With two or
    three candidates log 2 is most of the ceiling, so half the ceiling must be reached
    as well. None as a ceiling means that there is no limit.

    Where a temperature allows less than the ceiling (``reachable_information``), the
    same share of what it allows must be reached.

    >>> is_saturated(5.0, math.log(256)), is_saturated(4.8, math.log(256))
    (True, False)
    >>> is_saturated(1.9, math.log(256), reachable=2.0)
    True
    """
    if ceiling is None or ceiling <= 0:  # a partner alone shows nothing
        return False
    share = 1 - min(math.log(2) / ceiling, 0.5)
    return nats > share * (ceiling if reachable is None else reachable)


def is_temperature_bound(ceiling: float, reachable: float) -> bool:
    """Whether the temperature hides more of the information than the candidates do."""
    return ceiling - reachable > math.log(2)
