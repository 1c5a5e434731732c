"""Alignment alone collapses; negatives, or a predictor and a target, prevent it."""

from typing import Any

from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import plot_bars
from .._small_runs import SMALLER, list_sizes, read_accuracy, read_last, train_small

ALONE = "alignment alone"
METHODS: dict[str, dict[str, Any]] = {
    ALONE: {"method": "align_uniform", "options": {"uniform_weight": 0.0}},
    "SimCLR": {"method": "simclr"},
    "BYOL": {"method": "byol"},
    "SimSiam": {"method": "simsiam"},
}
COLLAPSED = -0.25  # uniformity: 0 is one point, -4 an even sphere


def measure(cell: Cell) -> Values:
    """How even and how aligned the projections end, and accuracy of the features."""
    run = train_small(cell, **METHODS[cell["method"]])
    return {
        "uniformity": read_last(run, "uniformity"),
        "alignment": read_last(run, "alignment"),
        "accuracy": read_accuracy(cell, run),
    }


def judge(rows: Rows) -> Verdict:
    """Alignment alone must end at one point, and nothing else may."""
    spreads = rows.spreads("method", "uniformity")
    alone = spreads.pop(ALONE)
    fallen = [name for name, s in spreads.items() if s.mean > COLLAPSED]
    numbers = f"Uniformity, where 0 is one point: {ALONE} {alone}, "
    numbers += ", ".join(f"{name} {s}" for name, s in spreads.items())
    if alone.n < 2:
        return Verdict("not decided", f"{numbers}; one seed decides nothing.")
    if alone.high < COLLAPSED or "SimCLR" in fallen:
        return Verdict("does not hold", f"{numbers}.")
    if alone.low < COLLAPSED:
        return Verdict("not decided", f"{numbers}.")
    if fallen:
        return Verdict(
            "holds within limits",
            f"{numbers}. The limit: {' and '.join(fallen)} collapsed as well.",
        )
    accuracy = rows.spreads("method", "accuracy")
    return Verdict(
        "holds",
        f"{numbers}. Nearest neighbors classify {accuracy[ALONE]} % right after "
        f"alignment alone, {accuracy['SimCLR']} % after SimCLR.",
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Uniformity and accuracy of each method."""
    left, right = figure.subplots(1, 2)
    plot_bars(left, rows, x="method", y="uniformity")
    plot_bars(right, rows, x="method", y="accuracy")
    left.set(ylabel="uniformity of projections (0: one point)")
    right.set(ylabel="kNN accuracy of features, %")
    for axes in (left, right):
        for label in axes.get_xticklabels():
            label.set(rotation=40, ha="right")


ABOUT = About(
    where="alignment and uniformity decomposition",
    says="Alignment alone maps everything to one point; negatives prevent that, "
    "without the stopped gradients of BYOL and SimSiam.",
    run="Alignment alone, SimCLR, BYOL and SimSiam, trained in the same way. That the "
    f"last two need their stopped gradients is not tried. {SMALLER}",
    refuted_if="Alignment alone ends with spread projections, or SimCLR without.",
    sizes=list_sizes(method=METHODS, tiny={"method": (ALONE, "SimCLR")}),
    toy=EVERY_SIZE,
    columns={
        "trained with": "method",
        "uniformity": "uniformity",
        "alignment": "alignment",
        "kNN accuracy, %": "accuracy",
    },
)
