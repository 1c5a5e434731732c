"""Temperature 0.07 or 1: does it really make no difference?"""

from functools import partial

from .._claim import EVERY_SIZE, About, Figure, Rows, Verdict
from .._parts import expect_alike, judge_parts
from .._small_runs import SMALLER
from ._arms import (
    ALIKE,
    COLUMNS,
    Arms,
    draw_arms,
    plan_sizes,
    show_difference,
    subtract,
    train_arm,
)

ARMS: Arms = {str(tau): {"method": "ir", "temperature": tau} for tau in (0.07, 1.0)}


measure = partial(train_arm, arms=ARMS)


def judge(rows: Rows) -> Verdict:
    """Alike if the whole interval of the difference is small."""
    difference = subtract(rows, "0.07", "1.0")
    return judge_parts(
        f"Temperature 0.07 against 1: {show_difference(difference)}.",
        expect_alike("they are alike", difference, ALIKE),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A bar per temperature."""
    draw_arms(figure.subplots(), rows, label="temperature")


ABOUT = About(
    where="section 5.3, on simplifying Instance Discrimination",
    says="The temperature hardly matters: 0.07 and 1 give equally good "
    "representations.",
    run=f"{SMALLER} Instance discrimination (ir), projections of length 1, at "
    "temperatures 0.07 and 1.",
    refuted_if=f"A difference of more than {ALIKE:g} points, beyond chance.",
    sizes=plan_sizes(ARMS),
    toy=EVERY_SIZE,
    columns=COLUMNS,
)
