"""Checkpoints: all of a run's state, on disk whole or not at all.

A file appears under its name only when it is complete, so a run killed at any moment
leaves the last good checkpoint. Loading one executes no code from it.
"""

import pickle
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..encoders import Encoder, load_encoder, rebuild_encoder
from ..errors import DataError, TrainingError
from ..folder import CHECKPOINTS, ENCODER, write_whole

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


def load(run_or_file: Any, *, network: nn.Module | None = None) -> Encoder:
    """The encoder of a run folder or file: images in [0, 1] in, features out.

    Args:
        run_or_file: What ``train`` returned, a run folder, finished or not, or an
            ``encoder.safetensors``.
        network: The module itself, when the run was trained on one of your own.
    """
    place = getattr(run_or_file, "folder", run_or_file)  # what train returns
    folder = Path(place).expanduser() if isinstance(place, str | Path) else None
    if folder is None or not folder.is_dir() or (folder / ENCODER).exists():
        return load_encoder(place, network=network)
    state = newest_checkpoint(folder / CHECKPOINTS)
    if state is None:
        raise DataError(f"{folder} holds no encoder and no checkpoint.")
    prefix = "encoder."
    weights = {
        key.removeprefix(prefix): value
        for key, value in state["learner"].items()
        if key.startswith(prefix)
    }
    return rebuild_encoder(state["encoder"], weights, network)
