"""The encoder of a run, wherever it is: in its folder, in a file or on the hub."""

from pathlib import Path
from typing import Any

from torch import nn

from ..encoders import Encoder, load_encoder, part_of, read_encoder, rebuild_encoder
from ..errors import DataError, SettingError, choose
from ..folder import (
    CHECKPOINTS,
    ENCODER,
    OTHER_ENCODER,
    check_format,
    is_on_hub,
    read_environment,
)
from ..sharing import download, split_name
from ._checkpoint import find_kept, newest_checkpoint, read_kept

SIDES = {"first": ("encoder", ENCODER), "other": ("other", OTHER_ENCODER)}
"""What each side's encoder is called in a learner, and its file in a run folder."""


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

    >>> import tempfile, torch
    >>> from invariance.encoders import build_encoder, write_encoder
    >>> with tempfile.TemporaryDirectory() as folder:  # or the folder of a run
    ...     write_encoder(build_encoder("tiny"), Path(folder, "encoder.safetensors"))
    ...     encoder = load(Path(folder, "encoder.safetensors"))
    >>> encoder(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 256])
    """
    choose(SIDES, side, "side")
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
    _, file = SIDES[side]
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
    name, _ = SIDES[side]
    if name not in state:
        raise DataError(
            f"{place} has one encoder: only methods with two, such as clip, have a "
            "second one (side='other')."
        )
    return rebuild_encoder(state[name], part_of(state["learner"], name), network)


def from_pretrained(
    name: str,
    *,
    network: nn.Module | None = None,
    side: str = "first",
    revision: str | None = None,
    token: str | None = None,
) -> Encoder:
    """The encoder that ``push_to_hub`` has shared, ready to use, as ``load`` gives it.

    Only its .safetensors file is downloaded, which holds numbers and text, never code.

    Args:
        name: As ``user/name``, or ``user/name@revision``.
        network: A module to fill, when the encoder was somebody's own module.
        side: "other" is the second encoder of a run that has two.
        revision: A branch, a tag or a commit.
        token: Who you are; by default who is logged in.
    """
    _, file = choose(SIDES, side, "side")
    name, asked = split_name(name)
    path = download(name, file, revision=revision or asked, token=token)
    return load_encoder(path, network=network)
