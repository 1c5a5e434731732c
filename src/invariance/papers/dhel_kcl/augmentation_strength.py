"""Stronger augmentations help, up to a point."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from .._claim import Cell, Claim, Figure, Rows, Verdict
from .._figures import plot_lines
from .._small_runs import SMALLER, list_sizes, read_accuracy, read_last, train_small
from .._spread import compare

METHODS = {"InfoNCE": "info_nce", "DHEL": "dhel"}
STRENGTHS = (0.1, 0.5, 1.0)
OPERATIONS = ("rotation", "crop", "color")


def measure(cell: Cell) -> Mapping[str, Any]:
    """Accuracy, and how far apart the views of a sample end up."""
    method = METHODS[cell["objective"]]
    weakened = () if cell["strength"] == 1 else OPERATIONS
    strengths = dict.fromkeys(weakened, cell["strength"])
    run = train_small(cell, method=method, views_strength=strengths, temperature=0.3)
    return {
        "accuracy": read_accuracy(run),
        "alignment": read_last(run, "alignment"),
    }


def judge(rows: Rows) -> Verdict:
    """Full strength must beat hardly any; and there may be too much."""
    weak, middle, full = (
        [fmean(each) for each in rows.where(strength=s).by("seed", "accuracy").values()]
        for s in STRENGTHS
    )
    gain, excess = compare(full, weak), compare(middle, full)
    early = compare(middle, weak)
    by_name = {
        name: compare(
            rows.where(objective=name, strength=STRENGTHS[-1])["accuracy"],
            rows.where(objective=name, strength=STRENGTHS[0])["accuracy"],
        )
        for name in METHODS
    }
    each = ", ".join(f"{name} {spread.mean:+.1f}" for name, spread in by_name.items())
    numbers = (
        f"From a tenth of the strength to all of it, accuracy changes by {gain} points "
        f"({each}); from half of it to all, by {-excess.mean:+.1f}."
    )
    if excess.is_above_zero and early.is_above_zero:
        return Verdict("holds", f"{numbers} Half the strength is best.")
    if gain.is_above_zero:
        return Verdict(
            "holds within limits",
            f"{numbers} The limit: no strength up to the usual one was too much.",
        )
    if gain.is_below_zero and not early.is_above_zero:
        return Verdict("does not hold", numbers)
    return Verdict("not decided", numbers)


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by strength."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="strength", y="accuracy", by="objective")
    axes.set(
        xlabel="strength of rotation, crop and color (1: as usual)",
        ylabel="linear accuracy, %",
    )


CLAIM = Claim(
    name="augmentation_strength",
    paper="dhel_kcl",
    where="design trade-offs",
    says="Stronger augmentations improve what is learned, until they are mere noise.",
    run="InfoNCE and DHEL with rotation, crop and color at a tenth, a half and "
    f"all of their strength. {SMALLER}",
    refuted_if="An accuracy that falls from the weakest augmentations on.",
    sizes=list_sizes(objective=METHODS, strength=STRENGTHS),
    measure=measure,
    judge=judge,
    draw=draw,
    columns={
        "objective": "objective",
        "strength": "strength",
        "linear accuracy, %": "accuracy",
        "alignment": "alignment",
    },
)
