"""Shards of captioned images: .tar files as WebDataset has them.

    shard-000.tar       000017.jpg  000017.txt          the caption is a text,
                        000018.png  000018.json         or a field of an object

What a sample is called, up to the first dot, ties its files together; an image with
both has the captions of the .txt file. Plain .tar files need not be unpacked: the
headers are read once, and an image is then read from where it lies, in any order.
"""

import hashlib
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from jaxtyping import UInt8
from numpy import ndarray

from ..errors import DataError
from ._captions import TEXTS, CaptionTable
from ._decode import crop_pixels, open_image
from ._folder import SUFFIXES
from ._load_request import explain_unreadable

CAPTION_SUFFIXES = (".txt", ".json")
MOST_TEXT = 1 << 20  # bytes; longer texts are no captions


@dataclass(frozen=True)
class Place:
    """Where a file lies inside a shard."""

    shard: Path
    start: int
    size: int

    def read(self) -> bytes:
        """Its bytes."""
        with self.shard.open("rb") as file:
            file.seek(self.start)
            content = file.read(self.size)
        if len(content) < self.size:
            raise OSError("cut off")
        return content


@dataclass
class Shards:
    """The images of some shards, in their order, and their captions."""

    images: dict[str, Place] = field(default_factory=dict)
    captions: CaptionTable = field(default_factory=CaptionTable)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Shards that end too early, with the reason."""

    def read(self, name: str, size: int, channels: int) -> UInt8[ndarray, "c h w"]:
        """An image of a size."""
        image = open_image(BytesIO(self.images[name].read()), size)
        return crop_pixels(image, size, channels)

    def mark(self) -> str:
        """The same for the same images, wherever the shards lie."""
        mark = hashlib.blake2b(digest_size=8)
        for name, place in self.images.items():
            mark.update(os.fsencode(f"{name} {place.size}\n"))
        return mark.hexdigest()


def read_shards(paths: list[Path]) -> Shards:
    """What lies in shards; a shard that is cut off gives what comes before the cut."""
    shards = Shards()
    for path in paths:
        members: dict[str, dict[str, tuple[str, Place]]] = {}
        try:
            for name, place in list_members(path):
                folder, slash, base = name.rpartition("/")
                stem, _, ending = base.partition(".")
                key, suffix = f"{folder}{slash}{stem}", f".{ending}".lower()
                kind = "image" if suffix in SUFFIXES else suffix
                members.setdefault(key, {})[kind] = name, place
        except (tarfile.TarError, OSError, EOFError) as cause:
            shards.unreadable[path.name] = explain_unreadable(cause)
        for key, files in members.items():
            image = f"{path.name}/{key}"
            if "image" in files:
                name, place = files["image"]
                image = f"{path.name}/{name}"
                shards.images[image] = place
            for suffix in CAPTION_SUFFIXES:
                if suffix in files:
                    name, place = files[suffix]
                    add_text(shards.captions, image, f"{path.name}/{name}", place)
                    break
    return shards


def list_members(path: Path) -> Iterator[tuple[str, Place]]:
    """The files of a shard and where they lie; nothing but headers is read."""
    try:
        shard = tarfile.open(path, "r:")  # noqa: SIM115, it is closed below
    except tarfile.ReadError:
        raise DataError(
            f"{str(path)!r} is no plain .tar file, whose images can be read in any "
            "order: unpack it, and pack it without compression."
        ) from None
    with shard:
        for member in shard:
            if member.isfile():
                place = Place(path, member.offset_data, member.size)
                yield member.name.removeprefix("./"), place


def add_text(captions: CaptionTable, image: str, name: str, place: Place) -> None:
    """The caption in a .txt file, or those in a field of a .json file."""
    try:
        if place.size > MOST_TEXT:
            raise DataError("too long for a caption")
        text = place.read().decode("utf-8-sig")
        if name.endswith(".txt"):
            captions.add(image, text, name)
            return
        about = json.loads(text)
        fields = {str(k).lower(): v for k, v in about.items()}
        found = [fields[k] for k in TEXTS if k in fields]
        if not found:
            raise DataError(f"no field such as {', '.join(TEXTS[:3])}")
        captions.add(image, found[0], name)
    except UnicodeDecodeError:
        captions.refuse(name, "not UTF-8 text")
    except (DataError, OSError, AttributeError, ValueError) as cause:
        captions.refuse(name, explain_unreadable(cause))
