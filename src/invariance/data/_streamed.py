"""Large sets: decoded by worker processes while the device is busy.

A batch keeps its size whatever is on the disk. A picture that cannot be read is
replaced by the next readable one of the same class (of any class where there are none),
the same one every time; it is counted, named in the log once, and too many of them end
the run.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, final

import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..errors import DataError
from ._source import ImageSource, Items
from ._unreadable import ENOUGH, check_share, reason, sentence, shown

log = logging.getLogger("invariance.data")

TRIES = 64
Fetched = tuple[UInt8[Tensor, "_ c h w"], dict[int, str], str]


@final
class StreamedImages(ImageSource):
    """Pictures decoded when they are asked for, in the order they are asked for."""

    def __init__(
        self,
        items: Items,
        *,
        name: str = "images",
        workers: int | None = None,
        unreadable: dict[str, str] | None = None,
        max_bad_fraction: float = 0.2,
        notes: tuple[str, ...] = (),
    ):
        self.items, self.name, self.shape = items, name, items.shape
        self.labels, self.class_names = items.labels, items.class_names
        self.paths = items.paths
        self.workers = min(8, usable_cores()) if workers is None else workers
        self.max_bad_fraction = max_bad_fraction
        self.unreadable = dict(unreadable or {})
        self._replaced: dict[str, str] = {}
        self._seen = torch.zeros(len(items), dtype=torch.bool)
        self._notes = notes

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the log; grows when reading meets a broken picture."""
        found = {k: v for k, v in self.unreadable.items() if k not in self._replaced}
        return (
            *self._notes,
            *sentence(found, "left out"),
            *sentence(self._replaced, "replaced by a neighbour"),
        )

    def __len__(self) -> int:
        return len(self.items)

    def batches(
        self,
        index_batches: Iterable[Int[Tensor, " _"]],
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[UInt8[Tensor, "_ c h w"]]:
        """The batches asked for, in that order, on ``device``."""
        on_cuda = torch.device(device).type == "cuda"
        asked: list[list[int]] = []

        def ask() -> Iterator[list[int]]:
            for index in index_batches:
                asked.append(index.tolist())
                yield asked[-1]

        loader = DataLoader(
            Fetch(self.items),
            batch_sampler=Ask(ask()),
            num_workers=self.workers,
            collate_fn=as_is,
            pin_memory=on_cuda,
            prefetch_factor=4 if self.workers else None,
            generator=torch.Generator(),  # or it would draw from the training's own
        )
        for images, bad, failure in loader:
            if failure:
                raise DataError(f"{self.name}: {failure}")
            self._count(asked.pop(0), bad)
            yield images.to(device, non_blocking=on_cuda)

    def _count(self, index: list[int], bad: dict[int, str]) -> None:
        self._seen[[*index, *bad]] = True
        for i, why in bad.items():
            path = self.paths[i] if self.paths else f"image {i}"
            if path not in self._replaced:
                log.warning("%s: %s cannot be read (%s)", self.name, shown(path), why)
                self._replaced[path] = self.unreadable[path] = why
        if bad:
            check_share(
                self.name,
                self._replaced,
                int(self._seen.sum()),
                self.max_bad_fraction,
                enough=ENOUGH,
            )


class Ask:
    """A one-pass batch sampler; what is asked for is decided as training goes."""

    def __init__(self, batches: Iterator[list[int]]):
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return self.batches


class Fetch(Dataset):
    """What a worker does: read a batch, with neighbours for the broken."""

    def __init__(self, items: Items):
        self.items = items

    def __getitems__(self, index: list[int]) -> Fetched:
        """The pictures, why some could not be read, and why to give up if so.

        A failure goes back in words: raised here it would arrive as a traceback.
        """
        bad: dict[int, str] = {}
        images = torch.zeros((len(index), *self.items.shape), dtype=torch.uint8)
        for k, i in enumerate(index):
            image = self.read(i, bad)
            if image is None:
                failure = (
                    f"image {i} and the {len(bad) - 1} tried in its place cannot be "
                    f"read ({bad[i]}): check the disk and the files."
                )
                return images, bad, failure
            images[k] = image
        return images, bad, ""

    def read(self, i: int, bad: dict[int, str]) -> UInt8[Tensor, "c h w"] | None:
        """Picture i or the first of its stand-ins that can be read."""
        for j in chain([i], self.stand_ins(i)):
            if j in bad:
                continue
            try:
                return self.items.read(j)[0]
            except Exception as error:
                bad[j] = reason(error)
        return None

    def stand_ins(self, i: int) -> Iterator[int]:
        """The numbers after i, those of its own class first."""
        n, labels = len(self.items), self.items.labels
        after = (torch.arange(i + 1, i + n) % n)[: 64 * TRIES]
        if labels is not None:
            after = after[
                (labels[after] != labels[i]).to(torch.uint8).argsort(stable=True)
            ]
        yield from after[:TRIES].tolist()


def as_is(batch: Any) -> Any:
    return batch


def usable_cores() -> int:
    """Cores this process may use, which in a container are fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
