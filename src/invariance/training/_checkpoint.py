"""Checkpoints: all of a run's state, on disk whole or not at all.

A file appears under its name only when it is complete, so a run killed at any moment
leaves the last good checkpoint. Loading one executes no code from it.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data import Source, same_images
from ..encoders import Encoder, load_encoder, read_encoder, rebuild_encoder
from ..errors import DataError, SettingError, TrainingError, unknown
from ..folder import (
    CHECKPOINTS,
    CONFIG,
    ENCODER,
    KEPT,
    METRICS,
    OTHER_ENCODER,
    check_format,
    is_on_hub,
    list_kept,
    read_environment,
    read_images,
    read_metrics,
    write_whole,
)
from ._share import from_pretrained

PARTS = ("learner", "optimizer", "encoder", "random", "step", "metrics")
SIDES = {"first": ("encoder", ENCODER), "other": ("other", OTHER_ENCODER)}
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
    """Whole checkpoints, oldest first."""
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


def load(
    run_or_file: Any,
    *,
    network: nn.Module | None = None,
    side: str = "first",
    epoch: int | None = None,
) -> Encoder:
    """The encoder of a run folder or file: images in [0, 1] in, features out.

    Samples of other kinds go in as ``encoder.kind.prepare`` leaves them.

    Args:
        run_or_file: What ``train`` returned, a run folder, finished or not, an
            ``encoder.safetensors``, a kept epoch's ``kept/epoch-00005.pt``, or
            ``"hf://user/name"``, what ``push_to_hub`` has shared.
        network: The module itself, when the run was trained on one of your own.
        side: "other" is the second encoder of a run that has two, one for each side of
            its pairs.
        epoch: The encoder as it was after an epoch that the run kept (--keep-every); 0
            is before the first.

    >>> import tempfile
    >>> from invariance.encoders import build_encoder, write_encoder
    >>> with tempfile.TemporaryDirectory() as folder:  # or the folder of a run
    ...     write_encoder(build_encoder("tiny"), Path(folder, "encoder.safetensors"))
    ...     encoder = load(Path(folder, "encoder.safetensors"))
    >>> encoder(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 256])
    """
    if side not in SIDES:
        raise SettingError(unknown("side", side, SIDES))
    place = getattr(run_or_file, "folder", run_or_file)  # what train returns
    folder = Path(place).expanduser() if isinstance(place, str | Path) else None
    if epoch is not None and (folder is None or not folder.is_dir()):
        raise SettingError(
            f"epoch = {epoch} names one of the epochs that a run folder has kept: "
            f"got {place!r}, which is not a run folder."
        )
    if is_on_hub(place):
        return from_pretrained(place, network=network, side=side)
    if folder is not None and folder.suffix == ".pt" and folder.is_file():
        return rebuild_from_state(read_kept(folder), folder, network, side)
    if folder is None or not folder.is_dir():
        return load_encoder(place, network=network)
    check_format(folder, read_environment(folder))
    if epoch is not None:
        path = find_kept(folder, epoch)
        return rebuild_from_state(read_kept(path), path, network, side)
    return load_trained(folder, network, side=side)[0]


def load_trained(
    folder: Path, network: nn.Module | None = None, *, side: str = "first"
) -> tuple[Encoder, int | None]:
    """An encoder of a run and after how many steps; older runs do not say."""
    file = SIDES[side][1]
    if (folder / file).exists():
        about, weights = read_encoder(folder / file)
        return rebuild_encoder(about, weights, network), about.get("step")
    finished = (folder / ENCODER).exists()
    state = None if finished else newest_checkpoint(folder / CHECKPOINTS)
    if state is None and not finished:
        raise DataError(f"{folder} holds no encoder and no checkpoint.")
    encoder = rebuild_from_state(state or {}, folder, network, side)
    return encoder, (state or {}).get("step")


def rebuild_from_state(
    state: dict[str, Any], place: Path, network: nn.Module | None, side: str
) -> Encoder:
    """An encoder of a learner's state; ``place`` is where it comes from."""
    name = SIDES[side][0]
    if name not in state:
        raise DataError(
            f"{place} has one encoder: only methods with two, such as clip, have a "
            "second one (side='other')."
        )
    prefix = f"{name}."
    weights = {
        key.removeprefix(prefix): value
        for key, value in state["learner"].items()
        if key.startswith(prefix)
    }
    return rebuild_encoder(state[name], weights, network)
