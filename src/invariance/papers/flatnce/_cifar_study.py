"""The study by batch size on CIFAR-10, whose finished rows serve as full-size ones.

    lines = map(json.loads, open("benchmarks/results/small_batch.jsonl"))
    small_batch.from_study(lines)      # rows for the cells of the full size

The study trains a ResNet-18 on a GPU and chooses temperature and learning rate for each
objective and batch. What a claim runs itself for such a cell has the settings here.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

METHODS = {"InfoNCE": "info_nce", "FlatNCE": "flatclr"}
CIFAR = {"data": "cifar10", "images": 50_000}  # of the cells
TRAINING = {"data": "cifar10", "encoder": "resnet18", "temperature": 0.2}


def training_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What ``train_in`` takes for the data of a cell: small shapes, or CIFAR-10."""
    if settings["data"] == "cifar10":
        return dict(TRAINING)
    return {"data": "shapes", "image_size": 16, "limit": settings["images"]}


def list_finished(
    lines: Iterable[Mapping[str, Any]], stage: str, control: str
) -> Iterator[Mapping[str, Any]]:
    """Lines of runs of that stage that came to an end."""
    for line in lines:
        job = line["job"]
        if (job["stage"], job["control"]) == (stage, control) and "held_out" in line:
            yield line
