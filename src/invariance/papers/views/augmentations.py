"""Each augmentation taken away: which of them matter, and do any not matter?"""

from functools import partial

from .._claim import EVERY_SIZE, About, Figure, Rows, Verdict
from .._parts import expect_above, judge_parts
from ._arms import (
    COLUMNS,
    ON_SHAPES,
    Arms,
    draw_arms,
    plan_on_shapes,
    show_difference,
    subtract,
    train_arm_on_shapes,
)

ALL, NOTHING = "all", "none at all"
LEFT_OUT = ("crop", "color", "gray", "rotation", "flip")
ARMS: Arms = {
    ALL: {},
    NOTHING: {"views": "identity"},
    **{f"no {name}": {"views_drop": (name,)} for name in LEFT_OUT},
}


measure = partial(train_arm_on_shapes, arms=ARMS)


def judge(rows: Rows) -> Verdict:
    """Views matter at all, and crops more than flips."""
    losses = {
        arm: subtract(rows, ALL, arm)
        for arm in dict.fromkeys(rows["arm"])
        if arm != ALL
    }
    text = f"All augmentations against none: {show_difference(losses[NOTHING])}."
    parts = [expect_above("views matter", losses[NOTHING])]
    if len(losses) == 1:
        return judge_parts(text, *parts)
    crop = subtract(rows, "no flip", "no crop")
    worst = max((a for a in losses if a != NOTHING), key=lambda a: losses[a].mean)
    return judge_parts(
        f"{text} Without flips against without crops: {show_difference(crop)}. The one "
        f"missed most is {worst.removeprefix('no ')}: "
        f"{show_difference(losses[worst])}.",
        *parts,
        expect_above("crops matter more than flips", crop),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A bar per set of views."""
    draw_arms(figure.subplots(), rows)


ABOUT = About(
    where="section 5.3, figure 2b",
    says="The choice of augmentations decides how good a representation is: without "
    "any, almost nothing is learned, and crops matter more than flips.",
    run=f"{ON_SHAPES} SimCLR, which learns faster than the paper's instance "
    "discrimination, with the usual views of shapes, with each of their operations "
    "left out in turn, and with the image itself as every view.",
    refuted_if="Neither part is shown, and all augmentations are worse than none, or "
    "crops are missed less than flips, beyond chance.",
    sizes=plan_on_shapes(ARMS),
    toy=EVERY_SIZE,
    columns=COLUMNS,
)
