"""Readings handed on to TensorBoard or Weights & Biases, where those are installed.

``metrics.jsonl`` stays the record; these only show it. Both write below the run folder,
Weights & Biases offline unless its own environment variables say otherwise.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import SettingError

Tracker = Callable[[Mapping[str, Any]], None]


def tensorboard(folder: Path, config: dict[str, Any], done: int) -> Tracker:
    """Curves by group; what a killed run wrote after its checkpoint is hidden."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise explain_missing("tensorboard") from None
    writer = SummaryWriter(
        str(folder / "tensorboard"), purge_step=done + 1 if done else None
    )

    def track(reading: Mapping[str, Any]) -> None:
        for name, value in reading.items():
            if name != "step":
                tag = name if "/" in name else f"train/{name}"
                writer.add_scalar(tag, value, reading["step"])
        writer.flush()

    return track


def wandb(folder: Path, config: dict[str, Any], done: int) -> Tracker:
    """A run named after its folder, the same one when it is resumed."""
    os.environ.setdefault("WANDB_MODE", "offline")
    try:
        import wandb as client
    except ImportError:
        raise explain_missing("wandb") from None
    run = client.init(
        project="invariance",
        name=folder.name,
        id=folder.name,
        dir=str(folder),
        config=config,
        resume="allow",
    )
    return lambda reading: run.log(dict(reading), step=reading["step"])


TRACKERS: dict[str, Callable[[Path, dict[str, Any], int], Tracker]] = {
    "tensorboard": tensorboard,
    "wandb": wandb,
}


def check_installed(names: Iterable[str]) -> None:
    """Raise before anything is written if one of them is not there."""
    for name in names:
        if find_spec(name) is None:
            raise explain_missing(name)


def explain_missing(name: str) -> SettingError:
    """The sentence for an extra that is not installed."""
    return SettingError(
        f"{name} is not installed: pip install 'invariance[{name}]', or leave it out "
        "of --trackers."
    )
