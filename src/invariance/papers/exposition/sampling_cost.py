"""What more negatives cost, and what they bring."""

import time

from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import mark_untrained, plot_lines
from .._small_runs import (
    EPOCHS,
    SMALLER,
    list_sizes,
    read_accuracy,
    read_untrained,
    train_small,
)
from .._spread import Spread, compare


def measure(cell: Cell) -> Values:
    """Accuracy and processor time with so many negatives drawn from a bank."""
    began = time.process_time()
    # no more than the bank of the tiny size has
    n_draws = min(cell["negatives"], cell["samples"] // 2)
    run = train_small(cell, method="ir_sampled", options={"n_draws": n_draws})
    seconds = time.process_time() - began
    return {
        "accuracy": read_accuracy(cell, run),
        "untrained": read_untrained(cell),
        "seconds": seconds,
    }


def judge(rows: Rows) -> Verdict:
    """Where more negatives stop to help, and what they cost there."""
    accuracy, seconds = (rows.by("negatives", v) for v in ("accuracy", "seconds"))
    few, many = min(accuracy), max(accuracy)
    gain, cost = (compare(v[many], v[few]) for v in (accuracy, seconds))
    enough = next(
        n for n in accuracy if not compare(accuracy[many], accuracy[n]).is_above_zero
    )
    shown = ", ".join(f"{Spread.of(a)} % with {n}" for n, a in accuracy.items())
    because = (
        f"Accuracy is {shown} negatives. From {few} to {many} it gains {gain} points, "
        f"for {cost} more seconds on top of {Spread.of(seconds[few])}."
    )
    if gain.is_above_zero and not cost.is_above_zero:
        return Verdict(
            "holds within limits", f"{because} The extra cost is within chance."
        )
    if gain.is_above_zero and enough < many:
        return Verdict(
            "holds within limits",
            f"{because} With {enough} it is already as good as with {many}, as far as "
            "these seeds can show.",
        )
    if gain.is_above_zero:
        return Verdict("holds", because)
    return Verdict("does not hold" if gain.is_below_zero else "not decided", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy and time by the number of negatives."""
    left, right = figure.subplots(1, 2)
    plot_lines(left, rows, x="negatives", y="accuracy")
    mark_untrained(left, rows, x="negatives")
    left.set(ylabel="nearest neighbors, % right")
    plot_lines(right, rows, x="negatives", y="seconds")
    right.set(ylabel="processor time of training, s", ylim=(0, None))
    for axes in (left, right):
        axes.set(xscale="log", xlabel="negatives of each anchor")


ABOUT = About(
    where="sections 8.6, 11 and 12",
    says="More negatives approximate the partition better and so help, at a cost that "
    "grows with their number.",
    run="Instance discrimination with negatives drawn from a memory bank, so that "
    f"their number does not depend on the batch. {SMALLER}",
    refuted_if="Accuracy that falls from the fewest negatives to the most, beyond "
    "chance.",
    # a row of the bank is renewed once an epoch, so this learns more slowly than others
    sizes=list_sizes(
        negatives=(1, 16, 256),
        tiny={"negatives": 256},
        epochs={size: 2 * n for size, n in EPOCHS.items()},
    ),
    toy=EVERY_SIZE,
    columns={
        "negatives": "negatives",
        "%": "accuracy",
        "untrained, %": "untrained",
        "seconds": "seconds",
    },
)
