"""Nearby negatives, a ball or a ring of them, against all of the bank."""

from collections.abc import Mapping
from typing import Any

from .._claim import EVERY_SIZE, Cell, Claim, Figure, Rows, Verdict
from .._small_runs import SMALLER
from ._arms import (
    COLUMNS,
    draw_arms,
    judge_better,
    plan_sizes,
    show_difference,
    subtract,
    train_arm,
)

ARMS: dict[str, dict[str, Any]] = {
    "all (IR)": {"method": "ir"},
    "ball": {"method": "ball"},
    "ring": {"method": "annulus"},
}


def measure(cell: Cell) -> Mapping[str, Any]:
    """Accuracy with negatives from a part of the bank."""
    return train_arm(cell, ARMS)


def judge(rows: Rows) -> Verdict:
    """Both are better than all of the bank."""
    gains = {
        arm: subtract(rows, arm, "all (IR)")
        for arm in dict.fromkeys(rows["arm"])
        if arm != "all (IR)"
    }
    parts = [f"{arm}: {show_difference(gain)}" for arm, gain in gains.items()]
    return Verdict(
        judge_better(*gains.values()),
        f"Against negatives from the whole bank: {', '.join(parts)}.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A bar per part of the bank."""
    axes = figure.subplots()
    draw_arms(axes, rows)
    axes.set_xlabel("negatives from")


CLAIM = Claim(
    name="ball_ring_ir",
    paper="views",
    where="section 5.3, figure 2a",
    says="Negatives from a ball or a ring around the image give better representations "
    "than negatives from the whole memory bank.",
    run=f"{SMALLER} Instance discrimination with all rows of the bank as negatives, "
    "with the nearest tenth, and with that tenth without the nearest hundredth; "
    "training starts from all rows and narrows to these.",
    refuted_if="Ball or ring is worse than all rows, beyond chance.",
    sizes=plan_sizes(ARMS),
    toy=EVERY_SIZE,
    measure=measure,
    judge=judge,
    draw=draw,
    columns=COLUMNS,
)
