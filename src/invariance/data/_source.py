"""What a trainer reads from: pictures of one size, asked for by number.

``Items`` are what a kind of data provides (a number in, one picture out); an
``ImageSource`` is what the trainer holds: the same pictures by the batch, on a device.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

NO_LABEL = -1


@runtime_checkable
class Items(Protocol):
    """Pictures that can be read one at a time; reading may raise for a broken one."""

    shape: tuple[int, int, int]
    labels: Int[Tensor, " n"] | None
    class_names: tuple[str, ...]
    paths: tuple[str, ...] | None

    def __len__(self) -> int: ...

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Picture i and its label, or NO_LABEL."""
        ...


@runtime_checkable
class Drawn(Items, Protocol):
    """Items that are made rather than stored, far faster together than one by one."""

    def read_many(self, rows: Int[np.ndarray, " b"]) -> UInt8[Tensor, "b c h w"]:
        """The pictures of several items; none of them can be broken."""
        ...


@dataclass(frozen=True)
class Read:
    """What a reader found: items, and what to tell about the rest."""

    name: str
    items: Items
    unreadable: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    threads: int = 8  # that may read at once; code of others gets one


class ImageSource(ABC):
    """Pictures (uint8, one shape) by number; ``ResidentImages`` or ``StreamedImages``.

    Attributes:
        name: what the data are called in logs.
        shape: channels, height and width of every picture handed out.
        labels: one class number a picture, or None; for evaluation only.
        class_names: what the numbers mean; empty when there are no labels.
        paths: each picture's file, relative to the folder read, or None.
        unreadable: the files (or numbers) left out or replaced, with the reason.
        reader_notes: the part of ``notes`` about files that are no images or not asked
            for.
    """

    name: str
    shape: tuple[int, int, int]
    labels: Int[Tensor, " n"] | None
    class_names: tuple[str, ...]
    paths: tuple[str, ...] | None
    unreadable: dict[str, str]
    reader_notes: tuple[str, ...] = ()

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Sentences for the log: what was left out and why, where the pictures live."""

    @abstractmethod
    def __len__(self) -> int:
        """How many pictures there are."""

    @abstractmethod
    def batches(
        self,
        index_batches: Iterable[Int[Tensor, " _"]],
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[UInt8[Tensor, "_ c h w"]]:
        """The batches asked for, in that order, on ``device``.

        ``index_batches`` is read ahead when pictures are streamed, so keep count of the
        batches received, not of those asked for.
        """
