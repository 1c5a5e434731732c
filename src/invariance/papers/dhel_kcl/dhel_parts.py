"""DHEL with parts taken away, or with parts of NT-Xent put back."""

from typing import Any

from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import plot_bars
from .._parts import expect_above, judge_parts
from .._small_runs import SMALLER, list_sizes, read_accuracy, read_last, train_small
from .._spread import Spread, compare

# method and options: who repels whom
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "DHEL": ("dhel", {"views": "mean"}),
    "twice the spreading": ("dhel", {"views": "sum"}),
    "one view spreads": ("dhel", {"views": "first"}),
    "across views instead": ("dcl", {"negatives": "cross"}),
    "across views, too": ("dcl", {"negatives": "all"}),
    "and the positive (NT-Xent)": ("simclr", {}),
}

COUPLED = ("across views, too", "and the positive (NT-Xent)")


def measure(cell: Cell) -> Values:
    """Accuracy and the geometry of the projections."""
    method, options = PARTS[cell["parts"]]
    run = train_small(cell, method=method, temperature=0.3, options=options)
    return {
        "accuracy": read_accuracy(cell, run),
        "alignment": read_last(run, "alignment"),
        "uniformity": read_last(run, "uniformity"),
        "rank": read_last(run, "effective_rank"),
    }


def judge(rows: Rows) -> Verdict:
    """Putting cross-view terms and the positive back must cost accuracy."""
    by_parts = rows.by("parts", "accuracy")
    whole = by_parts.pop("DHEL")
    gains = {parts: compare(whole, each) for parts, each in by_parts.items()}
    numbers = f"DHEL reaches {Spread.of(whole)} %. Its lead in points over the others: "
    numbers += ", ".join(f"{gain} ('{parts}')" for parts, gain in gains.items())
    return judge_parts(
        f"{numbers}.",
        *(expect_above(f"'{parts}' costs accuracy", gains[parts]) for parts in COUPLED),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy and rank of each variant."""
    left, right = figure.subplots(1, 2)
    plot_bars(left, rows, x="parts", y="accuracy")
    plot_bars(right, rows, x="parts", y="rank")
    left.set(ylabel="kNN accuracy, %", ylim=(min(rows["accuracy"]) - 5, None))
    right.set(ylabel="effective rank of a batch's projections")
    for axes in (left, right):
        for label in axes.get_xticklabels():
            label.set(rotation=40, ha="right")


ABOUT = About(
    where="section 5 (mechanism 2; next check 3)",
    says="DHEL is better because its spreading depends neither on the other view nor "
    "on the positive.",
    run="DHEL as it is, with twice the spreading (the released code), with one view "
    "spreading, with negatives from the other view instead or as well, and with the "
    f"positive back in the denominator; temperature 0.3. {SMALLER}",
    refuted_if="Neither is shown to cost accuracy, and it is higher, beyond chance, "
    "once cross-view negatives or the positive are put back.",
    sizes=list_sizes(parts=PARTS, tiny={"parts": ("DHEL", *list(PARTS)[-2:])}),
    toy=EVERY_SIZE,
    columns={
        "variant": "parts",
        "kNN accuracy, %": "accuracy",
        "alignment": "alignment",
        "uniformity": "uniformity",
        "rank of z": "rank",
    },
)
