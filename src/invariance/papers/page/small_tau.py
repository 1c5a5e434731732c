"""A small temperature puts the weight on a few hard negatives."""

import torch

from ... import effective_sample_size
from ...words import count
from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import mark_sizes, plot_lines
from .._small_runs import SMALLER, list_sizes, read_accuracy, read_last, train_small
from .._spread import compare
from ._drawn_views import draw_views

TEMPERATURES = (0.05, 0.2, 0.8)
N, HARD = 256, 0.1


def measure(cell: Cell) -> Values:
    """Weights on drawn embeddings; evenness and accuracy of a training."""
    temperature = cell["temperature"]
    u, v = draw_views(N, "uneven", cell.generator())
    scores = (u @ v.mT).fill_diagonal_(-torch.inf) / temperature
    weights = scores.softmax(1).sort(1, descending=True).values
    run = train_small(cell, method="info_nce", temperature=temperature)
    return {
        "hard_share": weights[:, : int(HARD * N)].sum(1).mean().item(),
        "ess": effective_sample_size(u, v, temperature=temperature),
        "uniformity": read_last(run, "uniformity"),
        "accuracy": read_accuracy(cell, run),
    }


def judge(rows: Rows) -> Verdict:
    """Hard negatives must gain weight, and projections lose evenness."""
    small, middle, large = TEMPERATURES
    share, even = (rows.by("temperature", k) for k in ("hard_share", "uniformity"))
    gained = compare(share[small], share[large])
    lost = compare(even[small], even[middle])
    ess = rows.spreads("temperature", "ess")
    shares = rows.spreads("temperature", "hard_share")
    numbers = (
        f"From temperature {large:g} to {small:g}, the hardest tenth of the negatives "
        f"goes from {100 * shares[large].mean:.0f} to {100 * shares[small].mean:.0f} % "
        f"of the weight in the gradient, and the effective sample size goes from "
        f"{ess[large].mean:.2f} to {ess[small].mean:.2f}. After "
        f"{count(rows[0]['epochs'], 'epoch')} of training, uniformity at {small:g} is "
        f"{lost} higher, that is less even, than at {middle:g}."
    )
    if gained.is_below_zero:
        return Verdict("does not hold", numbers)
    if not gained.is_above_zero:
        return Verdict("not decided", numbers)
    if lost.is_above_zero:
        return Verdict("holds", numbers)
    return Verdict(
        "holds within limits",
        f"{numbers} The limit: no loss of evenness is seen beyond chance.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Weight of hard negatives, and evenness after training, by temperature."""
    left, right = figure.subplots(1, 2)
    plot_lines(left, rows, x="temperature", y="hard_share")
    left.axhline(HARD, color="black", linewidth=1, label="equal weights")
    left.legend(frameon=False)
    left.set(ylabel="weight of the hardest tenth of the negatives", ylim=(0, 1.05))
    plot_lines(right, rows, x="temperature", y="uniformity")
    right.set(ylabel="uniformity after training (lower: more even)")
    for axes in (left, right):
        mark_sizes(axes, TEMPERATURES, "temperature")


ABOUT = About(
    where="alignment and uniformity decomposition, failure mode",
    says="A very small temperature gives hard negatives too much weight, at the "
    "expense of uniformity.",
    run=f"The weights of {N - 1} negatives in the gradient, on drawn embeddings, at "
    f"temperatures 0.05, 0.2 and 0.8; and InfoNCE trained at each of them. {SMALLER}",
    refuted_if="Hard negatives weigh less at the small temperature.",
    sizes=list_sizes(temperature=TEMPERATURES, seeds=3),
    toy=EVERY_SIZE,
    columns={
        "temperature": "temperature",
        "weight of the hardest tenth": "hard_share",
        "effective sample size": "ess",
        "uniformity": "uniformity",
        "kNN accuracy, %": "accuracy",
    },
)
