"""A finished run as a folder that others may have; nothing in it is found by a path."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ..encoders import load_encoder
from ..errors import DataError, InvarianceError, SettingError
from ..folder import (
    CONFIG,
    ENCODER,
    OTHER_ENCODER,
    PAIR_HEADS,
    read_record,
    require_run,
    resume_command,
    write_whole,
)
from ._hub import split_name
from ._model_card import Card
from ._private_paths import cut_paths, refuse_paths
from ._timm_files import write_timm_files

ADVICE = "Free some space or fix the disk, and share again."
README = "README.md"


def write_shared(
    run: Path,
    folder: Path,
    name: str,
    *,
    defaults: Mapping[str, Any],
    license: str | None = None,
    network: Any = None,
) -> tuple[str, ...]:
    """Write what would be uploaded; returns what a reader should know.

    Args:
        run: Folder of a finished run.
        folder: Where to; made here, and it must be empty.
        name: Of the repository, as user/name.
        defaults: Settings when nobody sets them, nested as in config.yaml.
        license: As the hub spells it, such as "mit".
        network: The module itself, when the run was trained on one of your own.
    """
    name, _ = split_name(name)
    require_run(run)
    if not (run / ENCODER).is_file():
        raise DataError(
            f"{run} has no encoder yet: a run is shared when it is finished. "
            f"Continue it with: {resume_command(run)}"
        )
    record, encoder = read_record(run), load_encoder(run, network=network)
    make_empty(folder)
    for file in (ENCODER, OTHER_ENCODER, PAIR_HEADS):
        if (run / file).is_file():
            shutil.copyfile(run / file, folder / file)
    text = yaml.safe_dump(cut_paths(record.config), sort_keys=False, allow_unicode=True)
    write_whole(folder / CONFIG, text.encode(), advice=ADVICE)
    notes = []
    try:
        write_timm_files(encoder, folder, advice=ADVICE)
    except InvarianceError as why:
        notes.append(f"There are no weights for timm: {why}")
    card = Card(name, record, encoder, defaults, license, timm=not notes)
    write_whole(folder / README, str(card).encode("utf-8", "replace"), advice=ADVICE)
    images = record.images.get("path")
    try:
        refuse_paths(folder, [Path.home(), run.resolve(), images, Path.cwd()])
    except InvarianceError:
        shutil.rmtree(folder)
        raise
    if license is None:
        notes.append("No license was chosen, and the card says so: --license mit, ...")
    return tuple(notes)


def make_empty(folder: Path) -> None:
    """Make a folder, or take one that is empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as cause:
        raise DataError(
            f"Cannot write into {str(folder)!r}: {cause.strerror or cause}."
        ) from None
    if taken:
        raise SettingError(
            f"{str(folder)!r} is not empty: name a new folder, so that nothing is "
            "shared by accident."
        )
