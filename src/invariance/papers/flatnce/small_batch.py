"""Does FlatNCE at batch 32 do what InfoNCE does at 256?"""

from collections.abc import Iterable

from .._claim import (
    BELOW_FULL,
    About,
    Cell,
    Figure,
    Row,
    Rows,
    Values,
    Verdict,
    plan,
)
from .._figures import mark_batches, plot_lines
from .._small_runs import SMALLER
from .._spread import Spread, compare
from ._cifar_study import METHODS, take_rows, train_either

SMALL, LARGE, MARGIN = 32, 256, 1.0  # accuracies within a point count as the same


def measure(cell: Cell) -> Values:
    """Accuracy on the test part, in percent."""
    method = METHODS[cell["objective"]]
    _, accuracy = train_either(cell, method=method, batch_size=cell["batch"])
    return {"accuracy": accuracy}


def from_study(lines: Iterable[Values]) -> list[Row]:
    """Final runs of the study on CIFAR-10, as full-size rows."""

    def take(line: Values) -> Values:
        return {"accuracy": line["test"]["linear"]}

    cells = ABOUT.sizes["full"]
    return take_rows(lines, "final", "fixed", cells, take, objective="objective")


def judge(rows: Rows) -> Verdict:
    """FlatNCE at 32 against InfoNCE at both batch sizes."""
    scores = {
        (name, batch): rows.where(objective=name, batch=batch)["accuracy"]
        for name in METHODS
        for batch in (SMALL, LARGE)
    }
    flat = scores["FlatNCE", SMALL]
    matches = compare(flat, scores["InfoNCE", LARGE])
    better = compare(flat, scores["InfoNCE", SMALL])
    suffers = compare(scores["InfoNCE", LARGE], scores["InfoNCE", SMALL])
    because = (
        f"FlatNCE reaches {Spread.of(flat)} % at batch {SMALL} and "
        f"{Spread.of(scores['FlatNCE', LARGE])} % at {LARGE}; InfoNCE "
        f"{Spread.of(scores['InfoNCE', SMALL])} % and "
        f"{Spread.of(scores['InfoNCE', LARGE])} %."
    )
    if matches.high < -MARGIN:
        return Verdict("does not hold", because)
    if matches.low < -MARGIN:
        return Verdict("not decided", because)
    if better.is_above_zero and suffers.is_above_zero:
        return Verdict("holds", because)
    return Verdict(
        "holds within limits",
        f"{because} FlatNCE at {SMALL} less InfoNCE at {LARGE} is {matches} points "
        f"(95 % interval {matches.low:.1f} to {matches.high:.1f}), "
        + (
            f"but at {SMALL} FlatNCE is behind InfoNCE, by {better} points."
            if better.is_below_zero
            else "but this is not shown to be due to FlatNCE: its lead over InfoNCE "
            f"at {SMALL}, {better} points, is within chance."
            if not better.is_above_zero
            else f"but InfoNCE is not shown to suffer from the small batch: it gains "
            f"{suffers} points from the large one, at the same number of epochs."
        ),
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by batch size."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="batch", y="accuracy", by="objective")
    level = Spread.of(rows.where(objective="FlatNCE", batch=SMALL)["accuracy"]).mean
    axes.axhline(level, color="C1", linewidth=1, linestyle=":")
    mark_batches(axes, rows, "batch")
    axes.set(ylabel="test accuracy, %")


ABOUT = About(
    where="section 5, figure 3",
    says="FlatNCE at batch 32 matches InfoNCE at batch 256, and at 32 it is better "
    "than InfoNCE.",
    run=f"Each for the same number of epochs. {SMALLER} The full size is for a GPU: "
    "CIFAR-10, ResNet-18, 100 epochs and a linear probe, or the finished rows of the "
    "study by batch size, in which temperature and learning rate were chosen for each "
    "objective and batch. The paper has a ResNet-50.",
    refuted_if=f"FlatNCE at 32 is more than {MARGIN:g} point below InfoNCE at 256, "
    "beyond chance.",
    sizes=plan(
        objective=METHODS,
        batch=(SMALL, LARGE),
        tiny={"data": "codes", "samples": 2 * LARGE, "epochs": 1, "seeds": 1},
        quick={"data": "codes", "samples": 2048, "epochs": 10, "seeds": 6},
        full={"data": "cifar10", "samples": 50_000, "epochs": 100, "seeds": 3},
    ),
    toy=BELOW_FULL,
    columns={
        "data": "data",
        "objective": "objective",
        "batch size": "batch",
        "epochs": "epochs",
        "test accuracy, %": "accuracy",
    },
)
