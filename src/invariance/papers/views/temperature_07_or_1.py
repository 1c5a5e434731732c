"""Temperature 0.07 or 1: does it really make no difference?"""

from collections.abc import Mapping
from typing import Any

from .._claim import EVERY_SIZE, Cell, Claim, Figure, Rows, Verdict
from .._parts import expect_alike, judge_parts
from .._small_runs import SMALLER
from ._arms import (
    ALIKE,
    COLUMNS,
    draw_arms,
    plan_sizes,
    show_difference,
    subtract,
    train_arm,
)

ARMS: dict[str, dict[str, Any]] = {
    str(tau): {"method": "ir", "temperature": tau} for tau in (0.07, 1.0)
}


def measure(cell: Cell) -> Mapping[str, Any]:
    """Accuracy at a temperature."""
    return train_arm(cell, ARMS)


def judge(rows: Rows) -> Verdict:
    """Alike if the whole interval of the difference is small."""
    difference = subtract(rows, "0.07", "1.0")
    return judge_parts(
        f"Temperature 0.07 against 1: {show_difference(difference)}.",
        expect_alike("they are alike", difference, ALIKE),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A bar per temperature."""
    axes = figure.subplots()
    draw_arms(axes, rows)
    axes.set_xlabel("temperature")


CLAIM = Claim(
    name="temperature_07_or_1",
    paper="views",
    where="section 5.3, on simplifying Instance Discrimination",
    says="The temperature hardly matters: 0.07 and 1 give equally good "
    "representations.",
    run=f"{SMALLER} Instance discrimination (ir), projections of length 1, at "
    "temperatures 0.07 and 1.",
    refuted_if=f"A difference of more than {ALIKE:g} points, beyond chance.",
    sizes=plan_sizes(ARMS),
    toy=EVERY_SIZE,
    measure=measure,
    judge=judge,
    draw=draw,
    columns=COLUMNS,
)
