"""The study by batch size on CIFAR-10, whose finished rows serve as full-size ones.

    lines = map(json.loads, open("benchmarks/results/small_batch.jsonl"))
    small_batch.from_study(lines)      # rows for the cells of the full size

The study trains a ResNet-18 on a GPU and chooses temperature and learning rate for each
objective and batch. What a claim runs itself for such a cell has the settings here.
"""

from collections.abc import Callable, Iterable
from typing import Any

from .._cell_training import TrainedRun, train_in
from .._claim import Cell, Cells, Row, Values
from .._small_runs import read_accuracy, train_small

METHODS = {"InfoNCE": "info_nce", "FlatNCE": "flatclr"}
CIFAR = {"data": "cifar10", "samples": 50_000}  # of the cells
CIFAR_TRAINING: dict[str, Any] = {
    "data": "cifar10",
    "encoder": "resnet18",
    "temperature": 0.2,
}


def train_either(cell: Cell, **settings: Any) -> tuple[TrainedRun, float]:
    """A run on generated codes, or on CIFAR-10 as the study does, and its accuracy."""
    if cell["data"] == "codes":
        run = train_small(cell, **settings)
        return run, read_accuracy(cell, run)
    run = train_in(
        cell,
        protocols=("linear",),
        epochs=cell["epochs"],
        **{**CIFAR_TRAINING, **settings},
    )
    return run, run.accuracy("linear")


def take_rows(
    lines: Iterable[Values],
    stage: str,
    control: str,
    cells: Cells,
    values: Callable[[Values], Values],
    *,
    data: Values = CIFAR,
    **named: str,
) -> list[Row]:
    """Rows of cells that the study has finished.

    Args:
        lines: Of benchmarks/results/small_batch.jsonl, each read as JSON.
        stage: Of the study.
        control: Whether the temperature was fixed ("fixed") or the ESS ("ess").
        cells: Of a claim; other runs of the study are left out.
        values: Those of a row, from its line.
        data: Settings of the cells that all runs of the study share.
        named: What the study calls other settings of the cells.
    """
    rows = []
    for line in lines:
        job = line["job"]
        if (job["stage"], job["control"]) != (stage, control) or "held_out" not in line:
            continue
        settings = {
            **data,
            "batch": job["batch_size"],
            "epochs": job["epochs"],
            "seed": job["seed"],
            **{setting: job[name] for setting, name in named.items()},
        }
        if settings in cells:
            rows.append(Row(settings, values(line)))
    return rows
