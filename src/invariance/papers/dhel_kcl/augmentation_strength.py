"""Stronger augmentations help, up to a point."""

from statistics import fmean

from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import mark_sizes, plot_lines
from .._small_runs import SMALLER, list_sizes, read_accuracy, read_last, train_small
from .._spread import compare

METHODS = {"InfoNCE": "info_nce", "DHEL": "dhel"}
STRENGTHS = (0.1, 0.5, 1.0, 4.0)
WEAK, USUAL, STRONG = 0.1, 1.0, 4.0


def measure(cell: Cell) -> Values:
    """Accuracy, and how far apart the views of a sample end up."""
    run = train_small(
        cell,
        method=METHODS[cell["objective"]],
        strength=cell["strength"],
        temperature=0.3,
    )
    return {
        "accuracy": read_accuracy(cell, run),
        "alignment": read_last(run, "alignment"),
    }


def judge(rows: Rows) -> Verdict:
    """The usual strength must beat hardly any, and far too much."""
    by_seed = {
        strength: [
            fmean(each)
            for each in rows.where(strength=strength).by("seed", "accuracy").values()
        ]
        for strength in (WEAK, USUAL, STRONG)
    }
    gain = compare(by_seed[USUAL], by_seed[WEAK])
    excess = compare(by_seed[USUAL], by_seed[STRONG])
    numbers = (
        f"From {WEAK:g} of the usual strength to all of it, accuracy rises by {gain} "
        f"points; from there to {STRONG:g} times it falls by {excess}."
    )
    if gain.is_below_zero:
        return Verdict("does not hold", numbers)
    if gain.is_above_zero and excess.is_above_zero:
        return Verdict("holds", numbers)
    if gain.is_above_zero:
        return Verdict(
            "holds within limits",
            f"{numbers} The limit: no strength tried is too much.",
        )
    return Verdict("not decided", numbers)


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by strength."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="strength", y="accuracy", by="objective")
    mark_sizes(axes, STRENGTHS, "strength of the views (1: as usual)")
    axes.set(ylabel="kNN accuracy, %")


ABOUT = About(
    where="design trade-offs",
    says="Stronger augmentations improve what is learned, until they are mere noise.",
    run="InfoNCE and DHEL with views of several strengths: below 1, part of what does "
    "not matter is the same in both views; above 1, the content itself drowns in "
    f"noise. {SMALLER}",
    refuted_if="Accuracy that falls from the weakest augmentations on.",
    sizes=list_sizes(
        objective=METHODS, strength=STRENGTHS, tiny={"objective": ("DHEL",)}
    ),
    toy=EVERY_SIZE,
    columns={
        "objective": "objective",
        "strength": "strength",
        "kNN accuracy, %": "accuracy",
        "alignment": "alignment",
    },
)
