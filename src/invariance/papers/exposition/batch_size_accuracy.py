"""Accuracy by batch size, at the same number of epochs."""

from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import mark_batches, mark_untrained, plot_lines
from .._small_runs import (
    SMALLER,
    list_sizes,
    read_accuracy,
    read_untrained,
    train_small,
)
from .._spread import Spread, compare


def measure(cell: Cell) -> Values:
    """The accuracy after a short training of SimCLR."""
    run = train_small(cell, batch_size=cell["batch_size"])
    return {
        "accuracy": read_accuracy(cell, run),
        "untrained": read_untrained(cell),
    }


def judge(rows: Rows) -> Verdict:
    """Whether the largest batch is better than the smallest."""
    accuracy = rows.by("batch_size", "accuracy")
    few, many = min(accuracy), max(accuracy)
    gain = compare(accuracy[many], accuracy[few])
    shown = ", ".join(f"{Spread.of(a)} % at {n}" for n, a in accuracy.items())
    because = (
        f"After the same number of epochs accuracy is {shown}, and "
        f"{Spread.of(rows['untrained'])} % before training. From {few} to {many} that "
        f"is {gain} points (95 % interval {gain.low:.1f} to {gain.high:.1f})."
    )
    if gain.is_above_zero:
        return Verdict("holds", because)
    if gain.is_below_zero:
        return Verdict(
            "does not hold",
            f"{because} In the same number of epochs a larger batch takes fewer steps.",
        )
    return Verdict("not decided", because)


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by batch size."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="batch_size", y="accuracy")
    mark_untrained(axes, rows, x="batch_size")
    mark_batches(axes, rows, "batch_size")
    axes.set(ylabel="nearest neighbors, % right")


ABOUT = About(
    where="sections 6.7 and 14",
    says="SimCLR's accuracy rises with the batch size.",
    run="SimCLR with batches of several sizes, for the same number of epochs. "
    f"{SMALLER} The printed numbers are for ImageNet, batches of 256 to 8,192 and "
    "hundreds of epochs.",
    refuted_if="Accuracy that falls from the smallest batch to the largest, beyond "
    "chance.",
    sizes=list_sizes(batch_size=(16, 64, 256), tiny={"batch_size": 256}),
    toy=EVERY_SIZE,
    columns={"batch size": "batch_size", "%": "accuracy", "untrained, %": "untrained"},
)
