"""Trainings of a few seconds on generated shapes, scored by a linear probe."""

from typing import Any

from .._cell_training import TrainedRun, train_in
from .._claim import Cell

WORDS = (
    "generated shapes of 16 pixels, the tiny encoder and a few epochs, scored by a "
    "linear probe on test images"
)


def train_shortly(cell: Cell, **settings: Any) -> TrainedRun:
    """With the cell's ``images`` and ``epochs``."""
    size = {"limit": cell["images"], "epochs": cell["epochs"], "image_size": 16}
    return train_in(cell, protocols=("linear",), **size, **settings)
