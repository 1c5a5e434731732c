"""The study by batch size on CIFAR-10, whose finished rows serve as full-size ones.

    lines = map(json.loads, open("benchmarks/results/small_batch.jsonl"))
    small_batch.from_study(lines)      # rows for the cells of the full size

The study trains a ResNet-18 on a GPU and chooses temperature and learning rate for each
objective and batch. What a claim runs itself for such a cell has the settings here.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .._cell_training import TrainedRun, train_in
from .._claim import Cell
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


def list_finished(
    lines: Iterable[Mapping[str, Any]], stage: str, control: str
) -> Iterator[Mapping[str, Any]]:
    """Lines of runs of that stage that came to an end."""
    for line in lines:
        job = line["job"]
        if (job["stage"], job["control"]) == (stage, control) and "held_out" in line:
            yield line
