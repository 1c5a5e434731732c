"""Checkpoints: all of a run's state, on disk whole or not at all.

A file is written under a temporary name, forced to disk and renamed, so a run killed at
any moment leaves the last good checkpoint. Loading one executes no code from it.
"""

import contextlib
import errno
import os
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import DataError, TrainingError
from ._run_folder import resume_command

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


def write_whole(path: Path, write: Any, *, advice: str = "") -> None:
    """Give ``write`` a file that appears under its name only when complete.

    ``advice`` is what to do when the disk fails; unless said, go on with the run.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException as cause:  # an interrupt, too, must leave no half file
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        failure = _disk_failure(cause)
        if failure is None:
            raise
        full = failure.errno == errno.ENOSPC or _is_full(path.parent)
        why = "the disk is full" if full else failure.strerror or str(failure)
        if advice:
            raise DataError(f"Could not write {path.name}: {why}. {advice}") from None
        inside = path.parent.name == "checkpoints"
        run = path.parent.parent if inside else path.parent
        raise TrainingError(
            f"Could not write {path.name}: {why}. What was saved before is intact; "
            "make room or mend the disk, then go on with: "
            f"{resume_command(run)}"
        ) from None


def checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(folder.glob("step-*.pt"))


def newest(folder: Path, *, map_location: Any = "cpu") -> dict[str, Any] | None:
    """The newest readable checkpoint's state, or None if there is none at all."""
    found = checkpoints(folder)
    for path in reversed(found):
        try:
            state = torch.load(path, map_location=map_location, weights_only=True)
        except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError):
            continue
        if isinstance(state, dict):
            return state
    if found:
        raise TrainingError(
            f"None of the {len(found)} checkpoints in {folder} can be read: they are "
            "damaged, or hold more than numbers. Nothing was changed."
        )
    return None


def check(state: dict[str, Any], folder: Path, n_samples: int) -> None:
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


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets one open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _disk_failure(cause: BaseException) -> OSError | None:
    """The disk's own error; torch.save hides it behind one of its own."""
    error: BaseException | None = cause
    while error is not None:
        if isinstance(error, OSError):
            return error
        error = error.__context__
    return None


def _is_full(folder: Path) -> bool:
    with contextlib.suppress(OSError, AttributeError):
        room = os.statvfs(folder)
        return room.f_bavail * room.f_frsize < 1 << 20
    return False
