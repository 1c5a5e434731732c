"""The memory bank's momentum: a bank that keeps only the last view does as well."""

from functools import partial

from .._claim import EVERY_SIZE, About, Figure, Rows, Verdict
from .._parts import expect_above, judge_parts
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

ARMS: Arms = {
    str(m): {"method": "ir", "options": {"bank_momentum": m}} for m in (0.0, 0.5, 0.98)
}


measure = partial(train_arm, arms=ARMS)


def judge(rows: Rows) -> Verdict:
    """0 is as good as 0.5, and nearly 1 is worse than 0."""
    last = subtract(rows, "0.0", "0.5")
    text = f"Momentum 0 against 0.5: {show_difference(last)}."
    parts = [expect_above("0 is as good as 0.5", last, least=-ALIKE)]
    if "0.98" in rows["arm"]:
        slow = subtract(rows, "0.0", "0.98")
        text += f" Momentum 0 against 0.98: {show_difference(slow)}."
        parts.append(expect_above("0.98 is worse than 0", slow))
    return judge_parts(text, *parts)


def draw(rows: Rows, figure: Figure) -> None:
    """A bar per momentum."""
    draw_arms(figure.subplots(), rows, label="momentum of the bank")


ABOUT = About(
    where="section 5.3, figure 2c",
    says="A memory bank that keeps only the last view of each image (momentum 0) does "
    "as well as the usual one (0.5), and one that averages over many (near 1) does "
    "worse.",
    run=f"{SMALLER} Instance discrimination (ir) with three momenta of the bank.",
    refuted_if="Neither part is shown, and momentum 0 is worse than 0.5 by more than "
    f"{ALIKE:g} points, or 0.98 is better than 0, beyond chance.",
    sizes=plan_sizes(ARMS),
    toy=EVERY_SIZE,
    columns=COLUMNS,
)
