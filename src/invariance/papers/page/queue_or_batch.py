"""A queue of past keys against a large batch, with equally many negatives."""

from collections.abc import Mapping
from typing import Any

from .._claim import EVERY_SIZE, Cell, Claim, Figure, Rows, Verdict
from .._figures import plot_bars
from .._small_runs import SMALLER, list_sizes, read_accuracy, train_small
from .._spread import compare

SMALL, LARGE = 32, 128
QUEUE, BATCH, LITTLE = "small batch, queue", "large batch", "small batch"
CLOSE = 5.0  # points of accuracy
SOURCES: dict[str, dict[str, Any]] = {
    LITTLE: {"method": "info_nce", "batch_size": SMALL},
    BATCH: {"method": "info_nce", "batch_size": LARGE},
    QUEUE: {"method": "moco", "batch_size": SMALL, "options": {"size": LARGE}},
}


def measure(cell: Cell) -> Mapping[str, Any]:
    """Accuracy after equally many epochs."""
    run = train_small(cell, temperature=0.2, **SOURCES[cell["negatives"]])
    return {"accuracy": read_accuracy(cell, run)}


def judge(rows: Rows) -> Verdict:
    """With the queue, accuracy must be as high as with the large batch."""
    accuracy = rows.by("negatives", "accuracy")
    ahead = compare(accuracy[QUEUE], accuracy[BATCH])
    helped = compare(accuracy[QUEUE], accuracy[LITTLE])
    numbers = (
        f"With {LARGE} negatives, batches of {SMALL} and a queue are {ahead} points "
        f"ahead of batches of {LARGE} (95 % interval {ahead.low:.1f} to "
        f"{ahead.high:.1f}), and {helped} ahead of batches of {SMALL} without one."
    )
    if ahead.is_below_zero and ahead.mean < -1:
        return Verdict("does not hold", numbers)
    if ahead.low > -CLOSE:
        if helped.is_above_zero:
            return Verdict("holds", numbers)
        return Verdict(
            "holds within limits",
            f"{numbers} The limit: the small batch alone is not seen to do worse here, "
            "so there may be nothing for a queue to make up for.",
        )
    return Verdict("not decided", numbers)


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by where the negatives come from."""
    axes = figure.subplots()
    plot_bars(axes, rows, x="negatives", y="accuracy")
    counts = {LITTLE: SMALL - 1, BATCH: LARGE - 1, QUEUE: LARGE}
    words = [f"{name}\n{n} negatives" for name, n in counts.items()]
    axes.set_xticks(range(len(words)), words)
    axes.set(ylabel="kNN accuracy, %", ylim=(min(rows["accuracy"]) - 5, None))


CLAIM = Claim(
    name="queue_or_batch",
    paper="page",
    where="key architectures, MoCo",
    says="A queue of past keys stands for a large batch: many negatives with normal "
    "batch sizes.",
    run=f"InfoNCE with batches of {SMALL} and {LARGE}, and MoCo with batches of "
    f"{SMALL} and a queue of {LARGE}, at temperature 0.2, for equally many epochs (so "
    f"the large batch takes fewer steps). {SMALLER}",
    refuted_if="An accuracy below that of the large batch, beyond chance.",
    sizes=list_sizes(negatives=SOURCES, seeds=4),
    toy=EVERY_SIZE,
    measure=measure,
    judge=judge,
    draw=draw,
    columns={"negatives from": "negatives", "kNN accuracy, %": "accuracy"},
)
