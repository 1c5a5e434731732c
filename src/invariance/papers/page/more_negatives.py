"""More negatives help less and less."""

import math

import torch

from ...estimators import correlated_gaussian
from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import mark_sizes, plot_lines
from .._small_runs import SMALLER, list_sizes, read_accuracy, train_small
from .._spread import compare

NATS, WIDTH = 3.0, 4
PAIRS = correlated_gaussian(WIDTH, nats=NATS)
COUNTS = (32, 128, 512)


def read_bound(n: int, generator: torch.Generator) -> float:
    """Information that the exact critic certifies with n negatives."""
    losses = []
    for _ in range(8192 // n):
        x, y = PAIRS.sample(n + 1, generator=generator)
        pairs = x.repeat_interleave(n + 1, 0), y.repeat(n + 1, 1)
        scores = PAIRS.log_ratio(*pairs).view(n + 1, n + 1)
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(n + 1))
        losses.append(loss.item())
    return math.log(n + 1) - sum(losses) / len(losses)


def measure(cell: Cell) -> Values:
    """What is certified, and accuracy of a MoCo whose queue holds so many."""
    n = cell["negatives"]
    run = train_small(
        cell, method="moco", batch_size=32, temperature=0.2, options={"size": n}
    )
    bound = read_bound(n, cell.generator())
    return {"nats": bound, "accuracy": read_accuracy(cell, run)}


def judge(rows: Rows) -> Verdict:
    """Each factor of 4 must bring less than the one before."""
    few, some, many = COUNTS
    nats, accuracy = rows.by("negatives", "nats"), rows.by("negatives", "accuracy")
    gains = [
        compare(x[b], x[a])
        for x in (nats, accuracy)
        for a, b in ((few, some), (some, many))
    ]
    shrink, less = (
        compare(
            [b - a for a, b in zip(x[few], x[some], strict=True)],
            [b - a for a, b in zip(x[some], x[many], strict=True)],
        )
        for x in (nats, accuracy)
    )
    numbers = (
        f"From {few} to {some} negatives the bound gains {gains[0].mean:.2f} nats and "
        f"accuracy {gains[2]} points; from {some} to {many}, {gains[1].mean:.2f} nats "
        f"and {gains[3]} points."
    )
    if shrink.is_below_zero or (gains[2].is_below_zero and gains[3].is_above_zero):
        return Verdict("does not hold", numbers)
    if not shrink.is_above_zero:
        return Verdict("not decided", numbers)
    if gains[2].is_above_zero and less.is_above_zero:
        return Verdict("holds", numbers)
    why = (
        "the difference between the gains is within chance"
        if gains[2].is_above_zero
        else "not even the first gain is beyond chance, so there is none to diminish"
    )
    return Verdict(
        "holds within limits",
        f"{numbers} The limit: this is shown for the bound only; in accuracy {why}.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Bound and accuracy by the number of negatives."""
    left, right = figure.subplots(1, 2)
    plot_lines(left, rows, x="negatives", y="nats")
    left.axhline(NATS, color="black", linewidth=1)
    left.annotate("the mutual information", (COUNTS[0], NATS), va="bottom")
    left.set(ylabel="certified information, nats")
    plot_lines(right, rows, x="negatives", y="accuracy")
    right.set(ylabel="kNN accuracy of MoCo, %")
    for axes in (left, right):
        mark_sizes(axes, COUNTS, "negatives")


ABOUT = About(
    where="common confusions",
    says="More negatives raise the ceiling, but beyond some number the practical gains "
    "diminish.",
    run=f"For 32, 128 and 512 negatives: how much of the {NATS:g} nats between "
    f"{WIDTH}-dimensional Gaussians the exact critic certifies, and the accuracy of "
    f"MoCo with batches of 32. {SMALLER}",
    refuted_if="A later factor of 4 brings more than an earlier one.",
    sizes=list_sizes(negatives=COUNTS, seeds=4),
    toy=EVERY_SIZE,
    columns={
        "negatives": "negatives",
        "certified, nats": "nats",
        "kNN accuracy, %": "accuracy",
    },
)
