"""Local Deep InfoMax against global."""

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
    tell_of_nothing_learned,
    train_arm_on_shapes,
)

ARMS: Arms = {
    which: {"method": "dim", "options": {"which": which}}
    for which in ("local", "global")
}


measure = partial(train_arm_on_shapes, arms=ARMS)


def judge(rows: Rows) -> Verdict:
    """Local is better."""
    gain = subtract(rows, "local", "global")
    if nothing := tell_of_nothing_learned(rows, "local", "global"):
        return nothing
    return judge_parts(
        f"Places against the whole map: {show_difference(gain)}.",
        expect_above("places are better", gain),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A bar for each."""
    axes = figure.subplots()
    draw_arms(axes, rows)
    axes.set_xlabel("compared with the summary of an image")
    names = {"local": "every place (local)", "global": "the whole map (global)"}
    shown = list(dict.fromkeys(rows["arm"]))
    axes.set_xticks(range(len(shown)), [names[arm] for arm in shown])


ABOUT = About(
    where="section 5.2",
    says="Comparing every place of an image with its summary (local) avoids what "
    "comparing the whole image might encourage (global): memorizing details that do "
    "not matter.",
    run=f"{ON_SHAPES} The method dim in both forms, between two views of an image, "
    "because that does better here than within one view.",
    refuted_if="The local form is worse than the global one, beyond chance.",
    sizes=plan_on_shapes(ARMS),
    toy=EVERY_SIZE,
    columns=COLUMNS,
)
