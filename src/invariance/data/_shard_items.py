"""Shards of images as data to train on, with their classes or their captions."""

from dataclasses import replace
from pathlib import Path

from ..errors import DataError
from ..words import count
from ._encoded import EncodedFiles, EncodedSet, read_encoded
from ._load_request import Note, Request
from ._names import name_shards
from ._shards import (
    Member,
    Shards,
    find_layout,
    read_captions,
    read_classes,
    read_shards,
)
from ._sources import Read


class ShardFiles(EncodedFiles):
    """Images inside shards, by number."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members

    def __len__(self) -> int:
        return len(self.members)

    def read(self, i: int) -> bytes:
        """The bytes of image i."""
        return self.members[i].read()

    def name(self, i: int) -> str:
        """Its shard and its name there."""
        return self.members[i].path


def read_shard_files(paths: list[Path], request: Request) -> Read:
    """The images of one part, with their captions where they are asked for."""
    shards, title = read_shards(paths), name_shards(paths)
    if not shards.images:
        why = next(iter(shards.unreadable.values()), "no image in them")
        raise DataError(
            f"{title} holds no images ({why}): a shard has files such as 17.jpg and "
            "17.cls or 17.txt."
        )
    part, folders, parts = find_layout(shards)
    labels: dict[str, int | str] = {}
    by = ""
    if request.labels:
        labels, by = read_classes(shards), "label"
        if not labels and request.captions is None:  # there folders are mere numbers
            labels, by = dict(folders), "folder"
    plain = {parts[0]: "train", parts[1]: "test"} if parts else {}
    encoded = EncodedSet(
        title,
        ShardFiles([*shards.images.values()]),
        shards.mark(),
        parent=paths[0].resolve().parent.name,
        parts=[plain.get(part[image], "") for image in shards.images] if parts else (),
        labels=[labels.get(image) for image in shards.images] if labels else (),
        classes_by=by if labels else "",
        captions=None if request.captions is None else read_captions(shards),
        are_files=True,
        notes=describe_rest(shards, part, parts),
    )
    return read_encoded(encoded, replace(request, channels=request.channels or 3))


def describe_rest(
    shards: Shards, part: dict[str, str], parts: list[str]
) -> tuple[Note, ...]:
    """What of the shards is not used."""
    notes = []
    if shards.unreadable:
        cut = ", ".join(f"{k} ({why})" for k, why in shards.unreadable.items())
        many = count(len(shards.unreadable), "shard ends", "shards end")
        were = "was" if len(shards.unreadable) == 1 else "were"
        text = f"{many} too early and {were} read so far: {cut}."
        notes.append(Note("unreadable", text))
    if shards.left_out:
        many = count(len(shards.left_out), "further image")
        text = f"{many} of samples left out, such as {shards.left_out[0]}."
        notes.append(Note("left out", text))
    if parts and (n_beside := sum(p not in parts for p in part.values())):
        text = f"{count(n_beside, 'image')} outside {' and '.join(parts)} left out."
        notes.append(Note("left out", text))
    return tuple(notes)
