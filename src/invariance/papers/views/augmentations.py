"""Each augmentation taken away: which of them matter, and do any not matter?"""

from collections.abc import Mapping
from typing import Any

from .._claim import EVERY_SIZE, Cell, Claim, Figure, Rows, Verdict
from ._arms import (
    COLUMNS,
    ON_SHAPES,
    draw_arms,
    judge_better,
    plan_on_shapes,
    show_difference,
    subtract,
    train_arm_on_shapes,
)

ALL, NOTHING = "all", "none at all"
LEFT_OUT = ("crop", "color", "gray", "rotation", "flip")
ARMS: dict[str, dict[str, Any]] = {
    ALL: {},
    NOTHING: {"views": "identity"},
    **{f"no {name}": {"views_drop": (name,)} for name in LEFT_OUT},
}


def measure(cell: Cell) -> Mapping[str, Any]:
    """Accuracy with a set of views."""
    return train_arm_on_shapes(cell, ARMS)


def judge(rows: Rows) -> Verdict:
    """Views matter at all, and a crop more than a flip."""
    losses = {
        arm: subtract(rows, ALL, arm)
        for arm in dict.fromkeys(rows["arm"])
        if arm != ALL
    }
    if len(losses) == 1:
        (gain,) = losses.values()
        sentence = f"All augmentations against none: {show_difference(gain)}."
        return Verdict(judge_better(gain), sentence)
    crop = subtract(rows, "no flip", "no crop")
    worst = max((a for a in losses if a != NOTHING), key=lambda a: losses[a].mean)
    return Verdict(
        judge_better(losses[NOTHING], crop),
        f"All augmentations against none: {show_difference(losses[NOTHING])}. Without "
        f"flips against without crops: {show_difference(crop)}. The one missed most is "
        f"{worst.removeprefix('no ')}: {show_difference(losses[worst])}.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A bar per set of views."""
    draw_arms(figure.subplots(), rows)


CLAIM = Claim(
    name="augmentations",
    paper="views",
    where="section 5.3, figure 2b",
    says="The choice of augmentations decides how good a representation is: without "
    "any, almost nothing is learned; crops matter a lot, and flips do not.",
    run=f"{ON_SHAPES} SimCLR, which learns faster than the paper's instance "
    "discrimination, with the usual views of shapes, with each of their operations "
    "left out in turn, and with the image itself as every view.",
    refuted_if="Leaving out all augmentations costs nothing, or crops are missed less "
    "than flips.",
    sizes=plan_on_shapes(ARMS),
    toy=EVERY_SIZE,
    measure=measure,
    judge=judge,
    draw=draw,
    columns=COLUMNS,
)
