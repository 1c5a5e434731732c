"""Small sets: decoded once, kept as one uint8 tensor on the training device."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import final

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ..errors import DataError
from ._source import NO_LABEL, Drawn, ImageSource, Items
from ._unreadable import ENOUGH, check_share, reason, sentence

AT_ONCE = 64


@final
class ResidentImages(ImageSource):
    """Pictures held in memory; a batch is one indexing operation on the device.

    >>> source = ResidentImages(torch.zeros(5, 3, 8, 8, dtype=torch.uint8))
    >>> [tuple(b.shape) for b in source.batches([torch.tensor([4, 0])])]
    [(2, 3, 8, 8)]
    """

    def __init__(
        self,
        images: UInt8[Tensor, "n c h w"],
        labels: Int[Tensor, " labelled"] | None = None,
        *,
        name: str = "images",
        class_names: tuple[str, ...] = (),
        paths: tuple[str, ...] | None = None,
        unreadable: dict[str, str] | None = None,
        notes: tuple[str, ...] = (),
    ):
        for what, rows in (("labels", labels), ("paths", paths)):
            if rows is not None and len(rows) != len(images):
                raise DataError(
                    f"{name} has {len(images)} images but {len(rows)} {what}: "
                    f"give one of the {what} for each image."
                )
        self.images, self.labels = images, labels
        self.name, self.class_names, self.paths = name, class_names, paths
        c, h, w = images.shape[1:]
        self.shape = (c, h, w)
        self.unreadable = dict(unreadable or {})
        self._notes = notes

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the log."""
        return (*self._notes, *sentence(self.unreadable, "left out"))

    def __len__(self) -> int:
        return len(self.images)

    def batches(
        self,
        index_batches: Iterable[Int[Tensor, " _"]],
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[UInt8[Tensor, "_ c h w"]]:
        """The batches asked for, in that order, on ``device``."""
        for index in index_batches:
            yield self.images[index.to(self.images.device)].to(device)


def read_all(
    items: Items,
    *,
    name: str,
    device: torch.device | str,
    unreadable: dict[str, str],
    max_bad_fraction: float,
    notes: tuple[str, ...],
    threads: int = 1,
) -> ResidentImages:
    """Decode every item into one tensor; those that cannot be decoded are left out."""
    n = len(items)
    images = torch.empty((n, *items.shape), dtype=torch.uint8)
    read_labels = torch.full((n,), NO_LABEL)
    bad: dict[int, str] = {}

    def place(i: int) -> None:
        try:
            images[i], read_labels[i] = items.read(i)
        except Exception as error:
            bad[i] = reason(error)

    def place_many(start: int) -> None:
        rows = np.arange(start, min(n, start + AT_ONCE))
        if isinstance(items, Drawn):
            images[start : start + AT_ONCE] = items.read_many(rows)
        else:
            for i in rows.tolist():
                place(i)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(place_many, range(0, n, AT_ONCE)))

    label_of = items.paths or tuple(f"image {i}" for i in range(n))
    broken = {label_of[i]: bad[i] for i in sorted(bad)}
    check_share(name, broken, n, max_bad_fraction, enough=ENOUGH)
    good = torch.tensor([i for i in range(n) if i not in bad], dtype=torch.long)
    labels = items.labels
    if labels is None and n and bool((read_labels[good] != NO_LABEL).all()):
        labels = read_labels
    return ResidentImages(
        (images[good] if bad else images).to(device),
        labels if labels is None else labels[good],
        name=name,
        class_names=items.class_names,
        paths=items.paths and tuple(items.paths[i] for i in good.tolist()),
        unreadable=unreadable | broken,
        notes=notes,
    )
