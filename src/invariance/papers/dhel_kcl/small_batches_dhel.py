"""DHEL and KCL against InfoNCE with batches of 32 to 256."""

from typing import Any

from .._claim import EVERY_SIZE, About, Cell, Figure, Rows, Values, Verdict
from .._figures import mark_sizes, plot_lines
from .._parts import expect_above, judge_parts
from .._small_runs import SMALLER, list_sizes, read_accuracy, train_small
from .._spread import Spread, compare

METHODS = {"InfoNCE": "info_nce", "DHEL": "dhel", "KCL": "kcl"}
BATCHES = (32, 256)


def measure(cell: Cell) -> Values:
    """Accuracy after equally many epochs."""
    method = METHODS[cell["objective"]]
    temperature: dict[str, Any] = {} if method == "kcl" else {"temperature": 0.3}
    run = train_small(cell, method=method, batch_size=cell["batch"], **temperature)
    return {"accuracy": read_accuracy(cell, run)}


def find_gains(rows: Rows, name: str) -> dict[int, Spread]:
    """Accuracy above that of InfoNCE by batch size, in points."""
    mine = rows.where(objective=name).by("batch", "accuracy")
    usual = rows.where(objective="InfoNCE").by("batch", "accuracy")
    return {batch: compare(mine[batch], usual[batch]) for batch in mine}


def judge(rows: Rows) -> Verdict:
    """Both must beat InfoNCE, above all with small batches."""
    gains = {name: find_gains(rows, name) for name in ("DHEL", "KCL")}
    numbers = "; ".join(
        f"{name} " + ", ".join(f"{gain} at {batch}" for batch, gain in by_batch.items())
        for name, by_batch in gains.items()
    )
    numbers = f"Points above InfoNCE by batch size: {numbers}."
    parts = [
        expect_above(f"{name} is better at {batch}", gain)
        for name, by_batch in gains.items()
        for batch, gain in by_batch.items()
    ]
    return judge_parts(numbers, *parts)


def draw(rows: Rows, figure: Figure) -> None:
    """Accuracy by batch size."""
    axes = figure.subplots()
    plot_lines(axes, rows, x="batch", y="accuracy", by="objective")
    mark_sizes(axes, BATCHES, "batch size")
    axes.set(ylabel="kNN accuracy, %")


ABOUT = About(
    where="key results",
    says="DHEL and KCL give better representations than InfoNCE, especially with small "
    "batches of 32 to 256.",
    run="InfoNCE and DHEL at temperature 0.3 and KCL at gamma 4, trained for the same "
    f"number of epochs with batches of 32 and of 256. {SMALLER}",
    refuted_if="Neither is shown to be better at any batch size, and DHEL or KCL is "
    "worse at one, beyond chance.",
    sizes=list_sizes(objective=METHODS, batch=BATCHES, tiny={"batch": (32,)}),
    toy=EVERY_SIZE,
    columns={
        "objective": "objective",
        "batch size": "batch",
        "kNN accuracy, %": "accuracy",
    },
)
