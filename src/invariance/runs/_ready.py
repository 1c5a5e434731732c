"""From a run, a file or a module to an encoder that is ready to be used."""

import copy
import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..encoders import Encoder
from ..errors import DataError, SettingError
from ..training._encoder_file import NAME, load


def ready(run_or_encoder: Any) -> tuple[Encoder, tuple[str, ...]]:
    """The encoder in evaluation mode, and what to tell about it.

    A run folder without a finished encoder gives that of its newest checkpoint.
    """
    if isinstance(run_or_encoder, Encoder):
        return copy.deepcopy(run_or_encoder).eval(), ()  # the caller's stays as it is
    if isinstance(run_or_encoder, nn.Module):
        raise SettingError(
            f"{type(run_or_encoder).__name__} does not say which images it takes: wrap "
            "it as invariance.encoders.Encoder(module, input_shape=(3, 32, 32))."
        )
    # a Run is known by its folder: importing the class would import all of training
    run_or_encoder = getattr(run_or_encoder, "folder", run_or_encoder)
    if not isinstance(run_or_encoder, str | Path):
        raise SettingError(
            "Expected a run folder, an encoder file or an encoder: got "
            f"{type(run_or_encoder).__name__}."
        )
    path = Path(run_or_encoder).expanduser()
    signs = ("config.yaml", "checkpoints", NAME)
    if path.is_dir() and not any((path / sign).exists() for sign in signs):
        raise DataError(
            f"{str(path)!r} is a folder but not of a run (it has no {NAME}): "
            "'invariance list runs' shows the runs there are."
        )
    encoder = load(path)
    width, shape = encoder.width, "x".join(map(str, encoder.input_shape))
    notes = [f"{path} is {encoder.name}: images of {shape} in, {width} features out."]
    if path.is_dir() and not (path / NAME).exists():
        notes.append(
            f"{path} is unfinished: its newest checkpoint is used. 'invariance train "
            f"--resume {path}' finishes it."
        )
    return encoder, tuple(notes)


def mark_of(encoder: Encoder) -> str:
    """A short mark of the weights: the same for the same encoder, wherever it lies."""
    mark = hashlib.blake2b(digest_size=16)
    for key, value in sorted(encoder.state_dict().items()):
        mark.update(f"{key} {tuple(value.shape)} {value.dtype}".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        mark.update(flat.view(torch.uint8).numpy().tobytes())
    return mark.hexdigest()


def place(device: str) -> torch.device:
    """The device meant; "auto" is a GPU if there is one."""
    if device != "auto":
        try:
            found = torch.device(device)
            torch.empty(0, device=found)
        except (RuntimeError, AssertionError) as cause:
            why = str(cause).splitlines()[0]
            raise SettingError(
                f"The device {device!r} cannot be used ({why}): use 'auto' or 'cpu'."
            ) from None
        return found
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
