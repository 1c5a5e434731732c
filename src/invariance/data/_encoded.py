"""Images as encoded files inside of something else: shards, columns of data sets.

Whoever finds them says what they are called, which part each is in, its class and its
captions (``EncodedSet``); what becomes of that is decided here, for all of them alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ..errors import DataError
from ..words import count
from ._captions import (
    CaptionTable,
    add_captions,
    judge_captions,
    match_exactly,
    score_by_captions,
)
from ._decode import crop_pixels, is_gray, open_image, read_header
from ._folder import MOST_HEADERS, choose_size
from ._kind import Image
from ._label_numbers import number_labels
from ._load_request import Note, Origin, Request, check_unreadable, explain_unreadable
from ._marks import Mark
from ._sources import NO_LABEL, Items, Read
from ._split import split_names, spread


class EncodedFiles(ABC):
    """Files by number; reading may raise for a broken one."""

    @abstractmethod
    def __len__(self) -> int:
        """How many there are."""

    @abstractmethod
    def read(self, i: int) -> bytes | Path:
        """The content of file i, or where it lies."""

    @abstractmethod
    def name(self, i: int) -> str:
        """What file i is called."""


@dataclass(frozen=True)
class EncodedSet:
    """Encoded images as they were found, before any is chosen."""

    title: str
    files: EncodedFiles
    mark: Mark
    """The same for the same images, wherever they lie."""
    parent: str = ""
    parts: Sequence[str] = ()
    """Which of "train" and "test" each image is in, or neither; empty where the data
    have no test part of their own."""
    labels: Sequence[int | str | None] = ()
    """The class of each image; empty where there are none."""
    class_names: tuple[str, ...] = ()
    """What the numbers mean, where that is known."""
    classes_by: str = ""
    captions: CaptionTable | None = None
    """By the images' names, where they are asked for."""
    are_files: bool = False
    """Whether names are paths."""
    notes: tuple[Note, ...] = ()


class Encoded(Items):
    """Encoded images of some numbers, decoded when they are read."""

    def __init__(
        self, files: EncodedFiles, rows: list[int], shape: tuple[int, int, int]
    ):
        self.files, self.rows, self.kind = files, rows, Image(shape)

    def __len__(self) -> int:
        return len(self.rows)

    def name(self, i: int) -> str:
        """As the files have it."""
        return self.files.name(self.rows[i])

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Image i and its label."""
        channels, size, _ = self.kind.shape
        image = open_image(to_file(self.files.read(self.rows[i])), size)
        return torch.from_numpy(crop_pixels(image, size, channels)), self.label(i)


def to_file(content: bytes | Path) -> BytesIO | Path:
    """What Pillow opens."""
    return BytesIO(content) if isinstance(content, bytes) else content


def read_encoded(encoded: EncodedSet, request: Request) -> Read:
    """One part of the images, with classes and captions where there are any."""
    name, title = encoded.files.name, encoded.title
    shape, broken, notes = choose_encoded_shape(encoded.files, title, request)
    rows = [i for i in range(len(encoded.files)) if i not in broken]
    notes += encoded.notes
    captions: dict[str, tuple[str, ...]] = {}
    if encoded.captions is not None:
        table, names = encoded.captions, [name(i) for i in range(len(encoded.files))]
        captions, strangers = match_exactly(table, names)
        share = request.max_bad_fraction
        notes += judge_captions(table, captions, strangers, names, title, share)
        rows = [i for i in rows if name(i) in captions]
        request = score_by_captions(request)
    if encoded.labels and request.labels and request.split != "all":
        rows, more = leave_out_unlabeled(encoded, rows, request)
        notes += more
    names, parts = (
        [name(i) for i in rows],
        [encoded.parts[i] for i in rows if encoded.parts],
    )
    chosen, n_held_out = split_names(
        names, request, title, labeled=bool(encoded.labels), parts=parts
    )
    rows = [rows[k] for k in chosen]
    items = Encoded(encoded.files, rows, shape)
    if encoded.are_files:
        items.paths = tuple(name(i) for i in rows)
    if encoded.labels:
        numbers, items.class_names = number_classes(encoded)
        items.labels = numbers[torch.tensor(rows, dtype=torch.long)]
        encoded.mark.add_labels(numbers.numpy().tobytes())
    if encoded.captions is not None:
        notes += add_captions(items, [captions[name(i)] for i in rows], request)
    own_test, by = bool(encoded.parts), encoded.classes_by
    origin = Origin(
        str(encoded.mark), encoded.parent, n_held_out, own_test=own_test, classes_by=by
    )
    unreadable = {name(i): why for i, why in broken.items()}
    return Read(title, items, unreadable, notes, origin=origin)


def choose_encoded_shape(
    files: EncodedFiles, title: str, request: Request
) -> tuple[tuple[int, int, int], dict[int, str], tuple[Note, ...]]:
    """What is asked for, or what suits the images, by the headers of some of them.

    Also gives the numbers of those whose header is broken, with the reason.
    """
    sides, gray, broken = [], [], {}
    for i in spread(len(files), MOST_HEADERS):
        try:
            mode, side = read_header(to_file(files.read(i)))
        except Exception as error:
            broken[i] = explain_unreadable(error)
        else:
            sides.append(side)
            gray.append(is_gray(mode))
    n, most = len(sides) + len(broken), request.max_bad_fraction
    named = {files.name(i): why for i, why in broken.items()}
    check_unreadable(title, named, n, most, at_least=0)
    size, notes = choose_size(sides, request)
    channels = request.channels or (1 if gray and all(gray) else 3)
    return (channels, size, size), broken, notes


def leave_out_unlabeled(
    encoded: EncodedSet, rows: list[int], request: Request
) -> tuple[list[int], tuple[Note, ...]]:
    """The images that have a class, and a word on the others; too many are an error."""
    labeled = [i for i in rows if encoded.labels[i] is not None]
    n = len(rows) - len(labeled)
    if not n:
        return rows, ()
    first = next(i for i in rows if encoded.labels[i] is None)
    text = f"{count(n, 'image')} of {encoded.title} without a class"
    example = f"such as {encoded.files.name(first)}"
    if n > request.max_bad_fraction * len(rows):
        raise DataError(
            f"{text}, of {len(rows):,}, {example}: give each of them one, or use "
            "--no-labels, which trains on all."
        )
    note = f"{text} left out, {example}: --no-labels trains on all."
    return labeled, (Note("left out", note),)


def number_classes(encoded: EncodedSet) -> tuple[Int[Tensor, " n"], tuple[str, ...]]:
    """A number per image, NO_LABEL where it has no class, and what they mean."""
    known = [k for k, label in enumerate(encoded.labels) if label is not None]
    given: list[Any] = [encoded.labels[k] for k in known]
    if any(isinstance(label, str) for label in given):
        given = [str(label) for label in given]
    numbers, names = number_labels(given, len(given), encoded.title, "image")
    labels = torch.full((len(encoded.labels),), NO_LABEL)
    if numbers is not None:
        labels[torch.tensor(known, dtype=torch.long)] = numbers
    return labels, encoded.class_names or names
