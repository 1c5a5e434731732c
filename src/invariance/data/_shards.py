"""Shards of images: .tar files as WebDataset has them, or as tar makes of a folder.

    shard-000.tar       000017.jpg  000017.cls          an image and its class,
                        000018.jpg  000018.txt          or its caption,
                        000019.png  000019.json         or an object with either
                        cat/000020.jpg                  or class folders

What a sample is called, up to the first dot, ties its files together. Its image is the
one without a further name (17.jpg beside 17.mask.png); where all have one (17.left.jpg,
17.right.jpg), each is an image. A caption in a .txt file goes before one in an object,
and so does a class in a .cls file.

Plain .tar files need not be unpacked: the headers are read once, and a file is then
read from where it lies, in any order.
"""

import functools
import json
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..words import count
from ._captions import TEXTS, CaptionTable
from ._encoded import EncodedFiles, EncodedSet, read_encoded
from ._folder import (
    SUFFIXES,
    TEST_NAMES,
    below,
    find_classes,
    find_parts,
    name_part,
    note_beside,
)
from ._load_request import Note, Request, explain_unreadable
from ._marks import Mark
from ._names import name_shards
from ._sources import Read

CAPTION_ENDINGS = ("txt", "json")
CLASS_ENDINGS = ("cls", "cls.txt", "json")
CLASS_FIELDS = ("label", "labels", "cls", "class", "target", "class_name", "label_name")
MOST_TEXT = 1 << 20  # bytes; longer texts are neither captions nor classes
NOT_SAMPLES = re.compile(r"(^|/)(__[^/]*__($|/)|\.)")  # WebDataset's notes, macOS's


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside a shard: what it is called, and where it lies."""

    name: str
    title: str
    """What the shard is called."""
    shard: Path
    start: int
    size: int

    @property
    def path(self) -> str:
        """With its shard."""
        return f"{self.title}/{self.name}"

    def read(self) -> bytes:
        """Its bytes."""
        with self.shard.open("rb") as file:
            file.seek(self.start)
            content = file.read(self.size)
        if len(content) < self.size:
            raise OSError("cut off")
        return content

    def read_text(self) -> str:
        """What it says, where it is a short text."""
        if self.size > MOST_TEXT:
            raise DataError("too long a text")
        try:
            return self.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise DataError("not UTF-8 text") from None


@dataclass
class Shards:
    """What lies in some shards, in their order."""

    images: dict[str, Member] = field(default_factory=dict)
    """By shard and name."""
    beside: dict[str, tuple[Member, ...]] = field(default_factory=dict)
    """The files that are about an image, or about one that is not there."""
    left_out: list[str] = field(default_factory=list)
    """Further images of samples that have a plain one, such as masks."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Shards that end too early, with the reason."""

    def find(self, image: str, endings: tuple[str, ...]) -> Member | None:
        """The first of the files about an image that ends so."""
        files = {split_name(member.name)[1]: member for member in self.beside[image]}
        return next((files[ending] for ending in endings if ending in files), None)

    def mark(self) -> Mark:
        """The same for the same images, wherever the shards lie."""
        mark = Mark()
        for name, member in self.images.items():
            mark.add(os.fsencode(f"{name} {member.size}\n"))
        return mark


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


def read_shards(paths: list[Path]) -> Shards:
    """What lies in shards; a shard that is cut off gives what comes before the cut.

    Of the same files it is read once only: treat it as something that cannot change.
    """
    files = [path.stat() for path in paths]
    stamps = tuple((file.st_size, file.st_mtime_ns) for file in files)
    return read_headers(tuple(paths), stamps)


@functools.lru_cache(maxsize=2)
def read_headers(paths: tuple[Path, ...], stamps: Any) -> Shards:
    """The same, where the stamps say whether it is known already."""
    shards = Shards()
    for path, title in zip(paths, name_each(paths), strict=True):
        samples: dict[str, dict[str, Member]] = {}
        try:
            for member in list_members(path, title):
                key, ending = split_name(member.name)
                samples.setdefault(key, {})[ending] = member
        except (tarfile.TarError, OSError, EOFError) as cause:
            shards.unreadable[title] = explain_unreadable(cause)
        for key, files in samples.items():
            add_sample(shards, f"{title}/{key}", files)
    return shards


def add_sample(shards: Shards, key: str, files: dict[str, Member]) -> None:
    """The images of a sample, each with all that is said about it."""
    images = [ending for ending in files if is_image(ending)]
    plain = [ending for ending in images if "." not in ending]
    for ending in [ending for ending in images if plain and ending not in plain]:
        shards.left_out.append(files[ending].path)
    about = tuple(files[ending] for ending in files if ending not in images)
    for ending in plain or images:
        name = files[ending].path
        shards.images[name], shards.beside[name] = files[ending], about
    if not images:
        shards.beside[key] = about


def list_members(path: Path, title: str) -> Iterator[Member]:
    """The files of a shard and where they lie; nothing but headers is read."""
    try:
        shard = tarfile.open(path, "r:")  # noqa: SIM115, it is closed below
    except tarfile.ReadError:
        raise DataError(
            f"{str(path)!r} is not a plain .tar file, whose images could be read in "
            "any order: unpack it, and pack it again without compression."
        ) from None
    with shard:
        for member in shard:
            name = member.name.removeprefix("./")
            if member.isfile() and not NOT_SAMPLES.search(name):
                yield Member(name, title, path, member.offset_data, member.size)


def split_name(name: str) -> tuple[str, str]:
    """What ties the files of a sample together, and what each of them is.

    >>> split_name("cat/17.left.JPG")
    ('cat/17', 'left.jpg')
    """
    folder, slash, base = name.rpartition("/")
    stem, _, ending = base.partition(".")
    return f"{folder}{slash}{stem}", ending.lower()


def is_image(ending: str) -> bool:
    """Whether a file with this ending, or the last part of it, is an image.

    >>> is_image("jpg"), is_image("left.png"), is_image("cls.txt")
    (True, True, False)
    """
    return f".{ending.rpartition('.')[2]}" in SUFFIXES


def name_each(paths: tuple[Path, ...]) -> list[str]:
    """Shards as seen from the folder that all of them are in.

    >>> name_each((Path("a/train/0.tar"), Path("a/val/0.tar")))
    ['train/0.tar', 'val/0.tar']
    """
    top = Path(os.path.commonpath([path.parent for path in paths]))
    return [path.relative_to(top).as_posix() for path in paths]


def read_shard_files(paths: list[Path], request: Request) -> Read:
    """The images of one part, with their captions where they are asked for."""
    shards, title = read_shards(paths), name_shards(paths)
    if not shards.images:
        why = next(iter(shards.unreadable.values()), "no image in them")
        raise DataError(
            f"{title} holds no images ({why}): a shard has files such as 17.jpg and "
            "17.cls or 17.txt."
        )
    part, folders, parts = find_parts_and_classes(shards)
    labels: dict[str, int | str] = {}
    by = ""
    if request.labels:
        labels, by = read_classes(shards), "label"
        if not labels and request.captions is None:  # there folders are mere numbers
            labels, by = dict(folders), "folder"
    captions = None
    if request.captions is not None:
        captions = read_captions(shards, shards.beside)
    part_of = [name_part(part[image], parts) for image in shards.images if parts]
    encoded = EncodedSet(
        title,
        ShardFiles([*shards.images.values()]),
        shards.mark(),
        parent=paths[0].resolve().parent.name,
        parts=part_of,
        labels=[labels.get(image) for image in shards.images] if labels else (),
        classes_by=by if labels else "",
        captions=captions,
        are_files=True,
        notes=(*describe_rest(shards), *note_beside(part_of, parts)),
    )
    return read_encoded(encoded, replace(request, channels=request.channels or 3))


def describe_rest(shards: Shards) -> tuple[Note, ...]:
    """What of the shards is not used."""
    notes = []
    if shards.unreadable:
        cut = ", ".join(f"{k} ({why})" for k, why in shards.unreadable.items())
        one, many = "shard ends too early and was", "shards end too early and were"
        text = f"{count(len(shards.unreadable), one, many)} read so far: {cut}."
        notes.append(Note("unreadable", text))
    if shards.left_out:
        many = count(len(shards.left_out), "further image")
        text = f"{many} of samples left out, such as {shards.left_out[0]}."
        notes.append(Note("left out", text))
    return tuple(notes)


# ---------------------------------------------------------------------- what is said


def read_captions(shards: Shards, images: Iterable[str]) -> CaptionTable:
    """The captions of these images, of which some may not be there."""
    captions = CaptionTable()
    for image in images:
        member = shards.find(image, CAPTION_ENDINGS)
        if member is None:
            continue
        try:
            text = member.read_text()
            if split_name(member.name)[1] == "json":
                text = find_field(text, TEXTS)
            captions.add(image, text, member.path)
        except (DataError, OSError) as cause:
            captions.refuse(member.path, explain_unreadable(cause))
    return captions


def have_captions(paths: list[Path]) -> bool:
    """Whether the first sample of some shards comes with a caption."""
    shards = read_shards(paths) if paths else Shards()
    return bool(read_captions(shards, [*shards.beside][:1]).of)


def read_classes(shards: Shards) -> dict[str, int | str]:
    """The class of each image as its files say it; none where they say nothing."""
    labels: dict[str, int | str] = {}
    for image in shards.images:
        member = shards.find(image, CLASS_ENDINGS)
        label = None if member is None else read_class(member)
        if label is not None:
            labels[image] = label
    return labels


def read_class(member: Member) -> int | str | None:
    """A class as a number or a word; None where there is none to be read.

    A negative number says that there is none, as in many sets.
    """
    try:
        value: Any = member.read_text().strip()
        if split_name(member.name)[1] == "json":
            value = find_field(value, CLASS_FIELDS)
    except (DataError, OSError):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | str) or not str(value).strip():
        return None
    number = to_whole(value)
    if number is None:
        return str(value).strip()
    return number if number >= 0 else None


def to_whole(value: int | str) -> int | None:
    """A whole number, also one that is spelled out; None for anything else.

    >>> to_whole("17"), to_whole("cat")
    (17, None)
    """
    try:
        return int(value)
    except ValueError:
        return None


def find_field(text: str, names: tuple[str, ...]) -> Any:
    """The first of these fields of an object in JSON."""
    try:
        about = json.loads(text)
        fields = {str(k).lower(): v for k, v in about.items()}
    except (ValueError, AttributeError):
        raise DataError("not a JSON object") from None
    present = [fields[name] for name in names if name in fields]
    if not present:
        raise DataError(f"no field such as {', '.join(names[:3])}")
    return present[0]


# ---------------------------------------------------------------- parts and folders


def find_parts_and_classes(
    shards: Shards,
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """The part of each image, its class by folders, and what the two parts are called.

    Shards with train in their names, or in those of their folders, beside others with
    test (or val, valid, validation) are the parts; else folders in the shards may be.
    """
    names = [member.name for member in shards.images.values()]
    base, inner = find_parts(names)
    part = {image: part_of(member.title) for image, member in shards.images.items()}
    tests = [name for name in TEST_NAMES if name in part.values()]
    parts = ["train", tests[0]] if "train" in part.values() and tests else [*inner]
    if parts and inner:
        part = {image: below(m.name, base) for image, m in shards.images.items()}
        parts = [*inner]
    classes, number = find_classes(names, base, inner)
    folders = {
        image: classes[number[member.name]]
        for image, member in shards.images.items()
        if member.name in number
    }
    return part, folders, parts


def part_of(title: str) -> str:
    """The part that a shard's name, or that of its folder, speaks of.

    >>> part_of("cifar10-train-000.tar"), part_of("val/000.tar"), part_of("a.tar")
    ('train', 'val', '')
    """
    words = re.split(r"[^a-z]+", title.lower())
    return next((word for word in words if word in ("train", *TEST_NAMES)), "")
