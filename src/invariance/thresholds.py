"""What counts as collapsed and as saturated, once for training, report and readings.

Plain numbers in, yes or no out; nothing here needs torch.
"""

import math

COLLAPSED_SPREAD = 0.1
"""Spread of unit rows, 1 when they cover the sphere evenly and 0 when all are one."""
COLLAPSED_RANK = 1.5
"""Effective rank of rows that lie on one line."""


def is_collapsed(spread: float, effective_rank: float) -> bool:
    """Whether all rows are nearly the same, or lie on one line.

    >>> is_collapsed(0.9, 20.0), is_collapsed(0.05, 20.0), is_collapsed(0.9, 1.2)
    (False, True, True)
    """
    return spread < COLLAPSED_SPREAD or effective_rank < COLLAPSED_RANK


def is_saturated(nats: float, ceiling: float) -> bool:
    """Whether a bound of the mutual information is too near its ceiling to say more.

    Less than log 2 is left (or less than half of a low ceiling): anchors then pick
    their partner with a probability above one half, and only more rows can show more.

    >>> is_saturated(4.0, 4.16), is_saturated(1.4, 4.85)
    (True, False)
    """
    return ceiling - nats < min(math.log(2), ceiling / 2)
