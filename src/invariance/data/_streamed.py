"""Large sets: decoded by worker processes while the device is busy.

Each batch is shared out to all workers in pieces, which arrive in pinned memory where
there is a GPU and are copied there without waiting. Two batches are decoded ahead.

A batch keeps its size whatever is on the disk. A sample that cannot be read is replaced
by the next readable one of the same class (of any class where there are no labels), the
same one every time, both sides of a pair together; it is counted and named in the log
once, and too many of them end the run.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import final

import torch
from jaxtyping import Int
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
from ._sources import Items, Source, collate, name_sample
from ._workers import (
    choose_workers,
    free_shared_bytes,
    piece_bytes,
    piece_size,
    place,
    read_pieces,
)

log = logging.getLogger("invariance.data")

TRIES = 64
Fetched = tuple[list[Tensor], dict[int, str], str]


@final
class Streamed(Source):
    """Samples read when they are requested, in that order."""

    def __init__(
        self,
        items: Items,
        *,
        name: str = "samples",
        workers: int | None = None,
        unreadable: dict[str, str] | None = None,
        max_bad_fraction: float = 0.2,
        notes: tuple[Note, ...] = (),
    ):
        self.items, self.name = items, name
        self.copy_facts(items)
        if workers is None:
            workers, _ = choose_workers(None, items.n_bytes)
        self.workers = workers
        self.max_bad_fraction = max_bad_fraction
        self.unreadable = dict(unreadable or {})
        self._replaced: dict[str, str] = {}
        self._seen = torch.zeros(len(items), dtype=torch.bool)
        self._notes = notes
        if items.other is not None:
            self.other = Streamed(items.other, name=name, workers=self.workers)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was left out or replaced; grows when reading meets a broken sample."""
        left_out = {k: v for k, v in self.unreadable.items() if k not in self._replaced}
        return (
            *self._notes,
            *note_unreadable(left_out, "left out", self.kind),
            *note_unreadable(self._replaced, "replaced by a neighbor", self.kind),
        )

    def __len__(self) -> int:
        return len(self.items)

    def read_sides(
        self,
        n_sides: int,
        index_batches: Iterable[Int[Tensor, " _"]],
        device: torch.device,
    ) -> Iterator[list[Tensor]]:
        """The requested batches, of one side or both."""
        sides = [self.items]
        if n_sides == 2:
            assert self.items.other is not None
            sides.append(self.items.other)
        on_cuda = device.type == "cuda"
        requests: deque[tuple[list[int], int]] = deque()

        def request() -> Iterator[list[int]]:
            for index in index_batches:  # decided as training goes
                for piece in index.split(piece_size(self.items.n_bytes)):
                    requests.append((piece.tolist(), len(index)))
                    yield requests[-1][0]

        asked = request()
        first = list(islice(asked, 1))
        if not first:
            return
        pieces = read_pieces(
            Fetch(sides),
            chain(first, asked),
            workers=self.workers,
            ahead=self._pieces_ahead(batch_size=requests[0][1]),
            pin_memory=on_cuda,
        )
        done = 0
        batch: list[Tensor] = []
        for samples, bad, failure in pieces:
            if failure:
                raise DataError(f"{self.name}: {failure}")
            index, n = requests.popleft()
            self._count(index, bad)
            if not done:
                batch = [torch.empty_like(x[:1], device=device) for x in samples]
                batch = [x.new_empty((n, *x.shape[1:])) for x in batch]
            rows = slice(done, done + len(index))
            for whole, part in zip(batch, samples, strict=True):
                if whole.is_cpu:
                    place(part, whole, rows)
                else:
                    whole[rows].copy_(part, non_blocking=on_cuda)
            done = rows.stop
            if done == n:
                yield batch
                done = 0

    def _pieces_ahead(self, batch_size: int) -> int:
        """Pieces that a worker may hold: of two batches, if shared memory suffices."""
        each = max(self.workers, 1) * piece_bytes(self.items.n_bytes)
        of_two_batches = 2 * batch_size * self.items.n_bytes // each + 1
        return max(2, min(of_two_batches, free_shared_bytes() // each))

    def _count(self, index: list[int], bad: dict[int, str]) -> None:
        """Log samples that cannot be read, once each; too many of them are an error."""
        self._seen[[*index, *bad]] = True
        for i, why in bad.items():
            path = name_sample(self.items, i)
            if path not in self._replaced:
                shown = show_path(path)
                log.warning("%s: %s cannot be read (%s)", self.name, shown, why)
                self._replaced[path] = self.unreadable[path] = why
        if bad:
            n_seen = int(self._seen.sum())
            most, word = self.max_bad_fraction, self.kind.word
            check_unreadable(self.name, self._replaced, n_seen, most, word=word)


class Fetch(Dataset):
    """What a worker does: read a batch, with neighbors for the broken.

    Args:
        sides: the items, or those of both sides of pairs.
    """

    def __init__(self, sides: list[Items]):
        self.sides, self.items = sides, sides[0]

    def __getitem__(self, index: list[int]) -> Fetched:
        """Samples of each side, why some could not be read, why to give up if so.

        A failure goes back in words: raised here it would arrive as a traceback.
        """
        bad: dict[int, str] = {}
        rows: list[list[Tensor]] = []
        for i in index:
            row = self.read(i, bad)
            if row is None:
                failure = (
                    f"{show_path(name_sample(self.items, i))} and the {len(bad) - 1} "
                    f"tried in its place cannot be read ({bad[i]}): check the disk and "
                    "the files."
                )
                return [], bad, failure
            rows.append(row)
        try:
            batch = [
                collate(items.kind, dict(enumerate(samples)), len(index))
                for items, *samples in zip(self.sides, *rows, strict=True)
            ]
        except Exception as error:
            return [], bad, f"{explain_unreadable(error)}."
        return batch, bad, ""

    def read(self, i: int, bad: dict[int, str]) -> list[Tensor] | None:
        """Sample i, of each side, or the first of its stand-ins that can be read."""
        for j in chain([i], self.stand_ins(i)):
            if j in bad:
                continue
            try:
                return [items.read(j)[0] for items in self.sides]
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
