"""Small trainings on generated shapes, for claims about what training gives.

Networks, images and data are far smaller than the papers': what is compared is settings
with one another, never accuracies with published ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from ._cell_training import TrainedRun, train_in
from ._claim import Cell, Size, grid

SAMPLES: dict[Size, int] = {"tiny": 64, "quick": 800, "full": 6000}
EPOCHS: dict[Size, int] = {"tiny": 1, "quick": 8, "full": 20}
SMALLER = (
    "Generated shapes of 16 pixels and a tiny convolutional network stand for the "
    "papers' images and ResNets."
)


def list_sizes(
    *, seeds: int = 3, **varied: Iterable[Any]
) -> Mapping[Size, Sequence[Mapping[str, Any]]]:
    """Cells that vary these settings, at every size of data."""
    values = {name: tuple(each) for name, each in varied.items()}
    return {
        size: grid(
            **values,
            samples=(SAMPLES[size],),
            epochs=(EPOCHS[size],),
            seed=range({"tiny": 1, "quick": seeds, "full": 5}[size]),
        )
        for size in SAMPLES
    }


def train_small(cell: Cell, **settings: Any) -> TrainedRun:
    """As many samples and epochs as the cell says, scored by a linear probe."""
    given = {"batch_size": 64, "protocols": ("linear",), **settings}
    given["batch_size"] = min(given["batch_size"], cell["samples"] // 2)
    return train_in(
        cell, limit=cell["samples"], epochs=cell["epochs"], image_size=16, **given
    )


def read_last(run: TrainedRun, name: str) -> float:
    """The mean of a reading over the last epoch."""
    last = run.readings[-1]["epoch"] - 1
    return fmean(r[name] for r in run.readings if name in r and r["epoch"] > last)
