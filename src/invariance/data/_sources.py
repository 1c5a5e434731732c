"""What a trainer reads from: images of one size, asked for by number.

``Items`` are what a kind of data provides (a number in, one image out); an
``ImageSource`` is what the trainer holds: the same images in batches, on a device.
Images that cannot be read are counted and named, and too many of them are an error.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Int, Int8, UInt8
from PIL import UnidentifiedImageError
from torch import Tensor

from ..errors import DataError

NO_LABEL = -1
MOST_NAMED = 20


class Items(ABC):
    """Images that can be read one at a time; reading may raise for a broken one.

    The attributes are those of ``ImageSource``.
    """

    shape: tuple[int, int, int]
    labels: Int[Tensor, " n"] | None = None
    tags: Int8[Tensor, "n c"] | None = None
    class_names: tuple[str, ...] = ()
    paths: tuple[str, ...] | None = None

    @abstractmethod
    def __len__(self) -> int:
        """How many images there are."""

    @abstractmethod
    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Image i and its label, or NO_LABEL."""

    def read_many(
        self, rows: Sequence[int]
    ) -> tuple[UInt8[Tensor, "b c h w"], Int[Tensor, " b"], dict[int, str]]:
        """Images and labels of these numbers, and why some could not be read."""
        images = torch.zeros((len(rows), *self.shape), dtype=torch.uint8)
        labels, unreadable = [NO_LABEL] * len(rows), {}
        pixels = images.numpy()  # a small image is copied with less ado by numpy
        for k, i in enumerate(rows):
            try:
                image, labels[k] = self.read(i)
                pixels[k] = image.numpy()
            except Exception as error:
                unreadable[i] = explain_unreadable(error)
        return images, torch.tensor(labels, dtype=torch.long), unreadable

    @property
    def labeled(self) -> bool:
        """Whether the images have labels or tags, known now or when they are read."""
        return self.targets is not None

    @property
    def targets(self) -> Int[Tensor, " n"] | Int8[Tensor, "n c"] | None:
        """What scores compare with: labels or tags; None where there are neither."""
        return self.labels if self.tags is None else self.tags

    def name(self, i: int) -> str:
        """What image i is called: its path, or its number in the data it came from."""
        return str(i) if self.paths is None else self.paths[i]

    def label(self, i: int) -> int:
        """The label of image i, or NO_LABEL."""
        return NO_LABEL if self.labels is None else int(self.labels[i])


@dataclass(frozen=True)
class Note:
    """Something to know about the data; ``str(note)`` is the sentence for a log.

    >>> note = Note("size", "image_size=32 was chosen.")
    >>> note.kind, str(note)
    ('size', 'image_size=32 was chosen.')
    """

    kind: Literal["left out", "unreadable", "size", "storage"]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Origin:
    """Which data some images are a part of."""

    fingerprint: str = ""
    """The same for the same data wherever they lie, a plus sign before what depends on
    the labels alone; empty where nobody knows."""
    parent: str = ""
    """What the folder around them is called."""
    n_held_out: int | None = None
    """Images left out of the training part to score on; None where the data have a test
    part of their own that nobody has counted."""
    own_test: bool = True
    """Whether the data come with a test part."""


@dataclass(frozen=True)
class Request:
    """What ``load`` is asked for, for the reader of each kind of data."""

    split: str = "train"
    image_size: int | None = None
    channels: int | None = None
    n: int | None = None
    data_root: str | Path | None = None
    seed: int = 0
    max_bad_fraction: float = 0.2
    labels: bool = True
    hold_out: str = "auto"


@dataclass(frozen=True)
class Read:
    """What a reader returns: items, and what to know about them."""

    name: str
    items: Items
    unreadable: dict[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    parallel: bool = True  # other people's code is read in this process alone
    origin: Origin = Origin()


class ImageSource(ABC):
    """Images (uint8, one shape) by number; ``ResidentImages`` or ``StreamedImages``.

    Attributes:
        name: what the data are called in logs.
        shape: channels, height and width of every image handed out.
        labels: one class number per image, or None; for evaluation only.
        tags: where an image may show several classes: 1 where it shows the class, 0
            where not, -1 where that is not known. There are no ``labels`` then.
        class_names: what the numbers, or the columns of ``tags``, mean; empty when
            there are neither.
        paths: each image's file, relative to the folder read, or None.
        unreadable: the files (or numbers) left out or replaced, with the reason.
        origin: which data the images are a part of.
    """

    name: str
    origin: Origin = Origin()
    shape: tuple[int, int, int]
    labels: Int[Tensor, " n"] | None
    tags: Int8[Tensor, "n c"] | None = None
    class_names: tuple[str, ...]
    paths: tuple[str, ...] | None
    unreadable: dict[str, str]

    @property
    def targets(self) -> Int[Tensor, " n"] | Int8[Tensor, "n c"] | None:
        """What scores compare with: labels or tags; None where there are neither."""
        return self.labels if self.tags is None else self.tags

    @property
    @abstractmethod
    def notes(self) -> tuple[Note, ...]:
        """What was left out and why, what was chosen, where the images are kept."""

    @abstractmethod
    def __len__(self) -> int:
        """How many images there are."""

    @abstractmethod
    def batches(
        self,
        index_batches: Iterable[Int[Tensor, " _"]],
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[UInt8[Tensor, "_ c h w"]]:
        """The requested batches, in that order, on ``device``.

        Streamed images read ``index_batches`` ahead: count the batches that came back,
        not those requested.
        """


def find_data_root(asked: str | Path | None = None) -> Path:
    """Where named sets and packed copies are kept."""
    root = asked or os.environ.get("INVARIANCE_DATA", "~/.cache/invariance")
    return Path(root).expanduser()


def explain_unreadable(error: BaseException) -> str:
    """One line for why an image could not be read."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    text = error.strerror if isinstance(error, OSError) else None
    text = " ".join(str(text or error).split()) or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."


def name_image(items: Items, i: int) -> str:
    """Image i as a person can find it: its path, or its number in the whole data."""
    return items.name(i) if items.paths else f"image {items.name(i)}"


def show_path(path: str) -> str:
    """A path that any terminal can print, whatever bytes the file system holds."""
    return os.fsencode(path).decode("utf-8", "replace")


def describe_unreadable(unreadable: dict[str, str], fate: str) -> tuple[str, ...]:
    """Nothing, or one sentence that counts and names the images.

    >>> describe_unreadable({"a.png": "empty file"}, "left out")
    ('1 unreadable image was left out: a.png (empty file).',)
    """
    if not unreadable:
        return ()
    n = len(unreadable)
    first = list(unreadable.items())[:MOST_NAMED]
    names = ", ".join(f"{show_path(path)} ({why})" for path, why in first)
    more = f" and {n - MOST_NAMED} more" if n > MOST_NAMED else ""
    were = "image was" if n == 1 else "images were"
    return (f"{n} unreadable {were} {fate}: {names}{more}.",)


def note_unreadable(unreadable: dict[str, str], fate: str) -> tuple[Note, ...]:
    """The same as a note."""
    return tuple(Note("unreadable", s) for s in describe_unreadable(unreadable, fate))


def check_unreadable(
    name: str,
    unreadable: dict[str, str],
    n: int,
    max_bad_fraction: float,
    *,
    at_least: int = 20,
) -> None:
    """Raise when too many of n images cannot be read.

    Of fewer than ``at_least`` images a share says little: then only a set without any
    readable image is an error.
    """
    n_bad = len(unreadable)
    tolerable = n_bad <= max_bad_fraction * n or (n_bad < n < at_least)
    if not n_bad or tolerable:
        return
    path, why = next(iter(unreadable.items()))
    first = f"the first is {show_path(path)} ({why})"
    if n_bad >= n:
        raise DataError(
            f"None of the {n} images of {name} can be read; {first}: "
            "check that the files were copied whole."
        )
    raise DataError(
        f"{n_bad} of the {n} images of {name} cannot be read, more than "
        f"max_bad_fraction={max_bad_fraction:g} allows; {first}: "
        "mend or remove them, or allow more."
    )
