"""Nearby negatives, a ball or a ring of them, against all of the bank."""

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
    "all (IR)": {"method": "ir"},
    "ball": {"method": "ball"},
    "ring": {"method": "annulus"},
}


measure = partial(train_arm, arms=ARMS)


def judge(rows: Rows) -> Verdict:
    """The ball is better than all of the bank, and so is the ring."""
    gains = {
        arm: subtract(rows, arm, "all (IR)")
        for arm in dict.fromkeys(rows["arm"])
        if arm != "all (IR)"
    }
    shown = ", ".join(f"{arm} {show_difference(gain)}" for arm, gain in gains.items())
    return judge_parts(
        f"Against negatives from the whole bank: {shown}.",
        *(expect_above(f"the {arm} is better", gain) for arm, gain in gains.items()),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A bar per part of the bank."""
    draw_arms(figure.subplots(), rows, label="negatives from")


ABOUT = About(
    where="section 5.3, figure 2a",
    says="Negatives from a ball around the image give better representations than "
    "negatives from the whole memory bank, and so do negatives from a ring.",
    run=f"{SMALLER} Instance discrimination with all rows of the bank as negatives, "
    "with the nearest tenth, and with that tenth without the nearest hundredth; "
    "training starts from all rows and narrows to these.",
    refuted_if="Neither is shown to be better than all rows, and ball or ring is "
    "worse, beyond chance.",
    sizes=plan_sizes(ARMS),
    toy=EVERY_SIZE,
    columns=COLUMNS,
)
