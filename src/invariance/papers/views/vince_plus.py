"""A learned acceptance of negatives against a fixed one, and against none."""

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
    "learned (VINCE+)": {"method": "vince_plus", "options": {"n_proposals": 256}},
    "nearest (VINCE)": {"method": "vince", "options": {"n_proposals": 256}},
    "none": {"method": "ir_sampled", "options": {"n_draws": 63}},
}


measure = partial(train_arm, arms=ARMS)


def judge(rows: Rows) -> Verdict:
    """Learned is better than fixed."""
    gains = {
        arm: subtract(rows, "learned (VINCE+)", arm)
        for arm in dict.fromkeys(rows["arm"])
        if arm != "learned (VINCE+)"
    }
    shown = [f"against {arm} {show_difference(gain)}" for arm, gain in gains.items()]
    return judge_parts(
        f"The gain of a learned acceptance: {', '.join(shown)}.",
        expect_above("learned is better than fixed", gains["nearest (VINCE)"]),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A bar per acceptance."""
    draw_arms(figure.subplots(), rows, label="acceptance of negatives")


ABOUT = About(
    where="appendix C",
    says="An acceptance of negatives that is learned along with the encoder may serve "
    "learning better than a fixed one.",
    run=f"{SMALLER} Of 256 rows of the bank, an acceptance keeps the nearest quarter, "
    "or what a small network has learned to keep (hard negatives, since the paper's "
    "own objective gives it nothing to learn from: see acceptance_gradient); for "
    "comparison, 63 rows as they were drawn. The paper proposes this and does not try "
    "it.",
    refuted_if="The learned acceptance is worse than the fixed one, beyond chance.",
    sizes=plan_sizes(ARMS),
    toy=EVERY_SIZE,
    columns=COLUMNS,
)
