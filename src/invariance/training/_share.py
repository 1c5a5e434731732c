"""A finished run to the hub, with a card that says what it is."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ..errors import SettingError
from ..sharing import split_name, upload, write_shared
from ._settings import usual_settings


@dataclass(frozen=True)
class SharedRun:
    """A run as others get it.

    Attributes:
        name: of the repository, as user/name.
        url: where it is on the hub; None of a dry run.
        folder: where the files are on this machine; None when they were uploaded.
        files: how many bytes each of them has, by its name.
        notes: what a reader should know, in sentences.
    """

    name: str
    url: str | None
    folder: Path | None
    files: dict[str, int]
    notes: tuple[str, ...] = ()


def push_to_hub(
    run: Any,
    name: str,
    *,
    private: bool = False,
    license: str | None = None,
    token: str | None = None,
    network: nn.Module | None = None,
    folder: str | Path | None = None,
) -> SharedRun:
    """Upload a finished run's encoder with a model card to the Hugging Face hub.

    The card is made of the run's files: scores beside baselines, data, settings that
    are not the usual ones, intended use and limits. Of a path only the last name is
    shared.

    Args:
        run: A run or its folder.
        name: Of the repository, as "user/name"; created if it does not exist.
        private: Whether only you can see it.
        license: As the hub spells it, such as "mit"; none is chosen for you.
        token: Who you are; by default who is logged in ('hf auth login').
        network: The module itself, when the run was trained on one of your own.
        folder: Upload nothing, and write into this folder what would be uploaded.
    """
    split_name(name)
    place = getattr(run, "folder", run)
    if not isinstance(place, str | Path):
        raise SettingError(f"A run or its folder is shared: got {run!r}.")
    place = Path(place).expanduser()
    how: dict[str, Any] = {"license": license, "network": network}
    how["defaults"] = usual_settings()
    if folder is not None:
        out = Path(folder).expanduser()
        notes = write_shared(place, out, name, **how)
        return SharedRun(name, None, out, list_files(out), notes)
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "shared"
        notes = write_shared(place, out, name, **how)
        url = upload(out, name, private=private, token=token)
        return SharedRun(name, url, None, list_files(out), notes)


def list_files(folder: Path) -> dict[str, int]:
    """How many bytes each file has."""
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
