"""Local Aggregation against the ring: what close neighbors as positives add."""

from functools import partial

from .._claim import EVERY_SIZE, About, Figure, Rows, Verdict
from .._parts import expect_above, judge_parts
from .._small_runs import SMALLER
from ._arms import (
    COLUMNS,
    Arms,
    draw_arms,
    plan_sizes,
    show_difference,
    subtract,
    train_arm,
)

ARMS: Arms = {
    "Local Aggregation": {"method": "la"},
    "ring": {"method": "annulus"},
}


measure = partial(train_arm, arms=ARMS)


def judge(rows: Rows) -> Verdict:
    """Local Aggregation is better."""
    gain = subtract(rows, "Local Aggregation", "ring")
    return judge_parts(
        f"Local Aggregation against the ring: {show_difference(gain)}.",
        expect_above("Local Aggregation is better", gain),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A bar for each."""
    draw_arms(figure.subplots(), rows)


ABOUT = About(
    where="section 5.3, figure 2a",
    says="Local Aggregation, which also takes close neighbors as positives, gives a "
    "better representation than a ring of negatives alone.",
    run=f"{SMALLER} The methods la (with clusters from halfway through training) and "
    "annulus.",
    refuted_if="Local Aggregation is worse than the ring, beyond chance.",
    sizes=plan_sizes(ARMS),
    toy=EVERY_SIZE,
    columns=COLUMNS,
)
