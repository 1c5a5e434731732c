"""Checkpoints: all of a run's state, on disk whole or not at all.

A file appears under its name only when it is complete, so a run killed at any moment
leaves the last good checkpoint. Loading one executes no code from it.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..data import Source, same_images
from ..errors import DataError, TrainingError
from ..folder import (
    CHECKPOINTS,
    CONFIG,
    KEPT,
    METRICS,
    list_kept,
    read_images,
    read_metrics,
    write_whole,
)

PARTS = ("learner", "optimizer", "encoder", "random", "step", "metrics")
NEWEST = 2  # are left: one before the newest in case a disk lies about that one
OF_KEPT = ("learner", "encoder", "other", "controller")  # parts that readings need


def save(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Write a checkpoint, then drop all but the newest few."""
    for left in folder.glob("*.part"):  # by a run killed while it saved
        left.unlink(missing_ok=True)
    path = folder / f"step-{step:08}.pt"
    write_whole(path, lambda file: torch.save(state, file))
    for old in checkpoints(folder)[:-NEWEST]:
        old.unlink(missing_ok=True)
    return path


def keep(folder: Path, epoch: int, step: int, state: dict[str, Any]) -> None:
    """Keep a run's learner for good, as it is after an epoch; 0 is before the first."""
    kept = {name: state[name] for name in OF_KEPT if name in state}
    path = folder / KEPT / f"epoch-{epoch:05}.pt"
    path.parent.mkdir(exist_ok=True)
    kept |= {"epoch": epoch, "step": step}
    write_whole(path, lambda file: torch.save(kept, file))


def read_state(path: Path, *, map_location: Any = "cpu") -> dict[str, Any] | None:
    """What a file of ours holds; None if it is damaged, or holds more than numbers."""
    try:
        state = torch.load(path, map_location=map_location, weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError):
        return None
    return state if isinstance(state, dict) else None


def read_kept(path: Path, *, map_location: Any = "cpu") -> dict[str, Any]:
    """The learner as it was after a kept epoch, with its "epoch" and "step"."""
    state = read_state(path, map_location=map_location)
    if state is None or not {"learner", "encoder", "step"} <= state.keys():
        raise DataError(
            f"{path} is damaged, or no state of a learner that a run has kept "
            "(--keep-every)."
        )
    return state


def find_kept(folder: Path, epoch: int) -> Path:
    """The file of a kept epoch, or a sentence with those that there are."""
    paths = list_kept(folder)
    if epoch in paths:
        return paths[epoch]
    listing = f"it has {', '.join(map(str, paths))}"
    if not paths:
        listing = "it has none (invariance train --keep-every N keeps them)"
    raise DataError(f"{folder} has not kept epoch {epoch}: {listing}.")


def checkpoints(folder: Path) -> list[Path]:
    """The paths of all checkpoints that were written whole, oldest first."""
    return sorted(folder.glob("step-*.pt"))


def newest_checkpoint(
    folder: Path,
    *,
    map_location: Any = "cpu",
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any] | None:
    """The newest readable checkpoint's state, or None if there is none at all.

    Args:
        folder: Of checkpoints.
        map_location: The device its tensors go to.
        say: Called with a sentence about each damaged one that is passed over.
    """
    paths = checkpoints(folder)
    for k, path in reversed([*enumerate(paths)]):
        state = read_state(path, map_location=map_location)
        if state is not None:
            return state
        if k:
            say(f"{path.name} is damaged: continuing from {paths[k - 1].name}.")
    if paths:
        raise TrainingError(
            f"None of the {len(paths)} checkpoints in {folder} can be read: they are "
            "damaged, or hold more than numbers. Nothing was changed."
        )
    return None


def find_state(
    folder: Path, source: Source, say: Callable[[str], None]
) -> dict[str, Any] | None:
    """Where a run goes on from: None is the beginning. Raises if it cannot go on.

    It stays on the host, as an optimizer's counts of steps must: on a GPU, every step
    would wait to read them.

    Args:
        folder: Of the run.
        source: The images to train on.
        say: Called with a sentence about each damaged checkpoint.
    """
    check_images(folder, source)
    state = newest_checkpoint(folder / CHECKPOINTS, say=say)
    if state is None:
        check_lost(folder)
        return None
    lacking = [name for name in PARTS if name not in state]
    if lacking:
        raise TrainingError(
            f"The checkpoint of {folder} has no {', '.join(lacking)}: it is damaged or "
            "of another version. Nothing was changed."
        )
    before = state.get("samples", len(source))  # the first checkpoints did not say
    if before != len(source):
        raise other_images(folder, source, before)
    return state


def check_images(folder: Path, source: Source) -> None:
    """Raise if these are not the images that a run was training on."""
    known = read_images(folder)
    mark = known.get("fingerprint")
    if mark and not same_images(mark, source.origin.fingerprint):
        raise other_images(folder, source, known.get("n_train", len(source)))


def other_images(folder: Path, source: Source, before: int) -> TrainingError:
    """The sentence about images that have changed since the run began."""
    n = len(source)
    now = f"now there are {n:,}" if n != before else "these are different ones"
    return TrainingError(
        f"{folder} was training on {before:,} {source.kind.word}s, and {now}: a run "
        f"resumes exactly, or not at all. Put the {source.kind.word}s back as they "
        "were, or start a new run from its weights: invariance train --start-from "
        f"{folder}"
    )


def check_lost(folder: Path) -> None:
    """Raise if a run without checkpoints once had some: its readings would be lost.

    The first step is saved, so no more than its own reading can be without any.
    """
    readings = read_metrics(folder / METRICS)
    last = readings[-1].get("step", 0) if readings else 0
    if last > 1:
        raise TrainingError(
            f"The checkpoints of {folder} are gone, and it had reached step "
            f"{last:,}: it cannot continue. Put them back, or start over in a new "
            f"folder: invariance train --config {folder / CONFIG}. Nothing was "
            "changed."
        )
