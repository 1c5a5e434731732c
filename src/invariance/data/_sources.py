"""What a trainer reads from: images of one size, asked for by number.

``Items`` are what a kind of data provides (a number in, one image out); an
``ImageSource`` is what the trainer holds: the same images in batches, on a device.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Int, Int8, UInt8
from torch import Tensor

from ._load_request import Note, Origin, explain_unreadable

NO_LABEL = -1


class Items(ABC):
    """Images that can be read one at a time; reading may raise for a broken one.

    The attributes are those of ``ImageSource``.
    """

    shape: tuple[int, int, int]
    labels: Int[Tensor, " n"] | None = None
    tags: Int8[Tensor, "n c"] | None = None
    class_names: tuple[str, ...] = ()
    paths: tuple[str, ...] | None = None
    ready: tuple[UInt8[Tensor, "n c h w"], dict[int, str]] | None = None
    """All images, and by number why some cannot be read, where that is known."""

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
class Read:
    """What a reader returns: items, and what to know about them."""

    name: str
    items: Items
    unreadable: dict[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    parallel: bool = True  # other people's code is read in this process alone
    origin: Origin = field(default_factory=Origin)


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


def name_image(items: Items, i: int) -> str:
    """Image i as a person can find it: its path, or its number in the whole data."""
    return items.name(i) if items.paths else f"image {items.name(i)}"
