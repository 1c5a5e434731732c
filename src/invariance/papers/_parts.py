"""The verdict on a claim that says several things, each of which the rows may bear out.

| of the parts | the claim |
|---|---|
| all are shown | holds |
| some are shown | holds within limits: true of these, not of the others |
| none is shown, some are refuted | does not hold |
| nothing is decided | not decided |

A part is shown or refuted by an interval of 95 % of its own (see ``_spread``).
"""

from dataclasses import dataclass

from ._claim import Outcome, Verdict
from ._spread import Spread


@dataclass(frozen=True)
class Part:
    """One thing that a claim says."""

    says: str
    shown: bool
    refuted: bool


def expect_above(says: str, difference: Spread, least: float = 0.0) -> Part:
    """That a difference is above zero, or above what counts as none."""
    return Part(says, difference.low > least, difference.high < least)


def expect_alike(says: str, difference: Spread, margin: float) -> Part:
    """That a difference is nearer to zero than a margin."""
    low, high = difference.low, difference.high
    return Part(says, -margin < low and high < margin, low > margin or high < -margin)


def judge_parts(numbers: str, *parts: Part) -> Verdict:
    """By all parts; where there are several that differ, which is which.

    >>> judge_parts("7 nats.", Part("a", True, False), Part("b", False, True))
    Verdict(outcome='holds within limits', because='7 nats. Shown: a. Refuted: b.')
    """
    kinds = {
        "Shown": [part.says for part in parts if part.shown],
        "Refuted": [part.says for part in parts if part.refuted],
        "Not decided": [p.says for p in parts if not (p.shown or p.refuted)],
    }
    shown, refuted, undecided = kinds.values()
    outcome: Outcome = "not decided"
    if shown:
        outcome = "holds within limits" if refuted or undecided else "holds"
    elif refuted:
        outcome = "does not hold"
    if len(parts) > 1 and outcome != "holds":
        listed = (f"{kind}: {', '.join(says)}." for kind, says in kinds.items() if says)
        numbers = f"{numbers} {' '.join(listed)}"
    return Verdict(outcome, numbers)
