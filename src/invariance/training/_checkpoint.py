"""Checkpoints: all of a run's state, on disk whole or not at all.

A file appears under its name only when it is complete, so a run killed at any moment
leaves the last good checkpoint. Loading one executes no code from it.
"""

import contextlib
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import TrainingError
from ..folder import write_whole

PARTS = ("learner", "optimizer", "encoder", "random", "step", "metrics")
KEPT = 2  # the newest, and one before it in case a disk lies about the newest


def save(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Write a checkpoint, then drop all but the newest few."""
    for left in folder.glob("*.part"):  # by a run killed while it saved
        left.unlink(missing_ok=True)
    path = folder / f"step-{step:08}.pt"
    write_whole(path, lambda file: torch.save(state, file))
    for old in checkpoints(folder)[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(folder.glob("step-*.pt"))


def newest_checkpoint(
    folder: Path, *, map_location: Any = "cpu"
) -> dict[str, Any] | None:
    """The newest readable checkpoint's state, or None if there is none at all."""
    paths = checkpoints(folder)
    for path in reversed(paths):
        try:
            state = torch.load(path, map_location=map_location, weights_only=True)
        except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError):
            continue
        if isinstance(state, dict):
            return state
    if paths:
        raise TrainingError(
            f"None of the {len(paths)} checkpoints in {folder} can be read: they are "
            "damaged, or hold more than numbers. Nothing was changed."
        )
    return None


def check_checkpoint(state: dict[str, Any], folder: Path, n_samples: int) -> None:
    """Raise if a run cannot go on exactly from this state with so many samples."""
    lacking = [name for name in PARTS if name not in state]
    if lacking:
        raise TrainingError(
            f"The checkpoint of {folder} has no {', '.join(lacking)}: it is damaged or "
            "of another version. Nothing was changed."
        )
    before = state.get("samples", n_samples)  # the first checkpoints did not say
    if before != n_samples:
        raise TrainingError(
            f"{folder} was training on {before:,} images, and now there are "
            f"{n_samples:,}: it goes on exactly, or not at all. Put the images back as "
            "they were, or start a new run from its weights: invariance train "
            f"--start-from {folder}"
        )


def random_states() -> dict[str, Any]:
    """Where every random generator stands."""
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    version, numbers, gauss = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [kind, torch.from_numpy(np.array(keys)), position, has_gauss, cached],
        "python": [version, list(numbers), gauss],
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Put every random generator back."""
    torch.set_rng_state(states["torch"].cpu())
    if states["cuda"] and len(states["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([s.cpu() for s in states["cuda"]])
    kind, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((kind, keys.cpu().numpy(), position, has_gauss, cached))
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))


@contextlib.contextmanager
def keep_random_states() -> Iterator[None]:
    """Leave every random generator as it was."""
    states = random_states()
    try:
        yield
    finally:
        set_random_states(states)
