"""A queue of past keys against a large batch, with equally many negatives."""

from typing import Any

from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import plot_bars
from .._small_runs import SMALLER, list_sizes, read_accuracy, train_small
from .._spread import Spread, compare

SMALL, LARGE = 32, 128
QUEUE, BATCH, LITTLE = "small batch, queue", "large batch", "small batch"
CLOSE = 5.0  # points of accuracy
SOURCES: dict[str, dict[str, Any]] = {
    LITTLE: {"method": "info_nce", "batch_size": SMALL},
    BATCH: {"method": "info_nce", "batch_size": LARGE},
    QUEUE: {"method": "moco", "batch_size": SMALL, "options": {"size": LARGE}},
}


def measure(cell: Cell) -> Values:
    """Accuracy after equally many epochs."""
    run = train_small(cell, temperature=0.2, **SOURCES[cell["negatives"]])
    return {"accuracy": read_accuracy(cell, run)}


def judge(rows: Rows) -> Verdict:
    """With the queue, accuracy must be as high as with the large batch."""
    accuracy = rows.by("negatives", "accuracy")
    ahead = compare(accuracy[QUEUE], accuracy[BATCH])
    helped = compare(accuracy[QUEUE], accuracy[LITTLE])
    numbers = (
        f"Batches of {SMALL} with a queue of {LARGE}, against batches of {LARGE}: "
        f"{_show_points(ahead)}; against batches of {SMALL} without a queue: "
        f"{_show_points(helped)}."
    )
    if ahead.is_below_zero and ahead.mean < -1:
        return Verdict("does not hold", numbers)
    if ahead.low > -CLOSE:
        if helped.is_above_zero:
            return Verdict("holds", numbers)
        return Verdict(
            "holds within limits",
            f"{numbers} The limit: the small batch alone does no worse here beyond "
            "chance, so there may be nothing for a queue to make up for.",
        )
    return Verdict("not decided", numbers)


def _show_points(gain: Spread) -> str:
    return f"{gain} points (95 % interval {gain.low:.1f} to {gain.high:.1f})"


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by where the negatives come from."""
    axes = figure.subplots()
    plot_bars(axes, rows, x="negatives", y="accuracy")
    counts = {LITTLE: SMALL - 1, BATCH: LARGE - 1, QUEUE: LARGE}
    words = [f"{name}\n{n} negatives" for name, n in counts.items()]
    axes.set_xticks(range(len(words)), words)
    axes.set(ylabel="kNN accuracy, %", ylim=(min(rows["accuracy"]) - 5, None))


ABOUT = About(
    where="key architectures, MoCo",
    says="A queue of past keys can replace a large batch: it gives many negatives with "
    "normal batch sizes.",
    run=f"InfoNCE with batches of {SMALL} and {LARGE}, and MoCo with batches of "
    f"{SMALL} and a queue of {LARGE}, at temperature 0.2 and for the same number of "
    "epochs (so the large batch takes fewer steps). The queue counts as good as the "
    f"large batch if a loss of {CLOSE:g} points or more is excluded. {SMALLER}",
    refuted_if="Accuracy more than a point below that of the large batch, beyond "
    "chance.",
    sizes=list_sizes(negatives=SOURCES, seeds=4),
    toy=EVERY_SIZE,
    columns={"negatives from": "negatives", "kNN accuracy, %": "accuracy"},
)
