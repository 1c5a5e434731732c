"""Large sets: decoded by worker processes while the device is busy.

Each batch is shared out to all workers in pieces, which arrive in pinned memory where
there is a GPU and are copied there without waiting. Two batches are decoded ahead.

A batch keeps its size whatever is on the disk. An image that cannot be read is replaced
by the next readable one of the same class (of any class where there are no labels), the
same one every time; it is counted and named in the log once, and too many of them end
the run.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from math import prod
from typing import final

import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.utils.data import Dataset

from ..errors import DataError
from ._load_request import (
    Note,
    check_unreadable,
    explain_unreadable,
    note_unreadable,
    show_path,
)
from ._sources import ImageSource, Items, name_image
from ._workers import (
    choose_workers,
    free_shared_bytes,
    piece_bytes,
    piece_size,
    read_pieces,
)

log = logging.getLogger("invariance.data")

TRIES = 64
Fetched = tuple[UInt8[Tensor, "_ c h w"], dict[int, str], str]


@final
class StreamedImages(ImageSource):
    """Images decoded when they are requested, in that order."""

    def __init__(
        self,
        items: Items,
        *,
        name: str = "images",
        workers: int | None = None,
        unreadable: dict[str, str] | None = None,
        max_bad_fraction: float = 0.2,
        notes: tuple[Note, ...] = (),
    ):
        self.items, self.name, self.shape = items, name, items.shape
        self.labels, self.class_names = items.labels, items.class_names
        self.tags, self.paths = items.tags, items.paths
        if workers is None:
            workers, _ = choose_workers(None, items.shape)
        self.workers = workers
        self.max_bad_fraction = max_bad_fraction
        self.unreadable = dict(unreadable or {})
        self._replaced: dict[str, str] = {}
        self._seen = torch.zeros(len(items), dtype=torch.bool)
        self._notes = notes

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was left out or replaced; grows when reading meets a broken image."""
        left_out = {k: v for k, v in self.unreadable.items() if k not in self._replaced}
        return (
            *self._notes,
            *note_unreadable(left_out, "left out"),
            *note_unreadable(self._replaced, "replaced by a neighbor"),
        )

    def __len__(self) -> int:
        return len(self.items)

    def batches(
        self,
        index_batches: Iterable[Int[Tensor, " _"]],
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[UInt8[Tensor, "_ c h w"]]:
        """The requested batches, in that order, on ``device``."""
        on_cuda = torch.device(device).type == "cuda"
        requests: deque[tuple[list[int], int]] = deque()

        def request() -> Iterator[list[int]]:
            for index in index_batches:  # decided as training goes
                for piece in index.split(piece_size(self.shape)):
                    requests.append((piece.tolist(), len(index)))
                    yield requests[-1][0]

        asked = request()
        first = list(islice(asked, 1))
        if not first:
            return
        pieces = read_pieces(
            Fetch(self.items),
            chain(first, asked),
            workers=self.workers,
            ahead=self._pieces_ahead(batch_size=requests[0][1]),
            pin_memory=on_cuda,
        )
        done = 0
        for images, bad, failure in pieces:
            if failure:
                raise DataError(f"{self.name}: {failure}")
            index, n = requests.popleft()
            self._count(index, bad)
            if not done:
                batch = torch.empty((n, *self.shape), dtype=torch.uint8, device=device)
            batch[done : done + len(index)].copy_(images, non_blocking=on_cuda)
            done += len(index)
            if done == n:
                yield batch
                done = 0

    def _pieces_ahead(self, batch_size: int) -> int:
        """Pieces that a worker may hold: of two batches, if shared memory suffices."""
        each = max(self.workers, 1) * piece_bytes(self.shape)
        of_two_batches = 2 * batch_size * prod(self.shape) // each + 1
        return max(2, min(of_two_batches, free_shared_bytes() // each))

    def _count(self, index: list[int], bad: dict[int, str]) -> None:
        self._seen[[*index, *bad]] = True
        for i, why in bad.items():
            path = name_image(self.items, i)
            if path not in self._replaced:
                shown = show_path(path)
                log.warning("%s: %s cannot be read (%s)", self.name, shown, why)
                self._replaced[path] = self.unreadable[path] = why
        if bad:
            n_seen = int(self._seen.sum())
            check_unreadable(self.name, self._replaced, n_seen, self.max_bad_fraction)


class Fetch(Dataset):
    """What a worker does: read a batch, with neighbors for the broken."""

    def __init__(self, items: Items):
        self.items = items

    def __getitem__(self, index: list[int]) -> Fetched:
        """The images, why some could not be read, and why to give up if so.

        A failure goes back in words: raised here it would arrive as a traceback.
        """
        bad: dict[int, str] = {}
        images = torch.zeros((len(index), *self.items.shape), dtype=torch.uint8)
        for k, i in enumerate(index):
            image = self.read(i, bad)
            if image is None:
                failure = (
                    f"{show_path(name_image(self.items, i))} and the {len(bad) - 1} "
                    f"tried in its place cannot be read ({bad[i]}): check the disk and "
                    "the files."
                )
                return images, bad, failure
            images[k] = image
        return images, bad, ""

    def read(self, i: int, bad: dict[int, str]) -> UInt8[Tensor, "c h w"] | None:
        """Image i or the first of its stand-ins that can be read."""
        for j in chain([i], self.stand_ins(i)):
            if j in bad:
                continue
            try:
                return self.items.read(j)[0]
            except Exception as error:
                bad[j] = explain_unreadable(error)
        return None

    def stand_ins(self, i: int) -> Iterator[int]:
        """The numbers after i, those of the same class first."""
        n, labels = len(self.items), self.items.labels
        after = (torch.arange(i + 1, i + n) % n)[: 64 * TRIES]
        if labels is not None:
            after = after[
                (labels[after] != labels[i]).to(torch.uint8).argsort(stable=True)
            ]
        yield from after[:TRIES].tolist()
