"""Every sample once and in order, with the broken ones left out rather than replaced.

Training keeps its batches full, so ``Streamed`` puts a neighbor in the place of a
sample that cannot be read. Whoever writes one row per sample must not: here a batch
holds the samples that could be read, their numbers, and why the others could not.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import torch
from jaxtyping import Int, Shaped
from torch import Tensor
from torch.utils.data import Dataset

from ._sources import Items
from ._workers import choose_workers, may_fork, piece_size, read_pieces

START_SECONDS = 0.25  # what starting processes may cost

Piece = tuple[int, int, Shaped[Tensor, "n ..."], list[int], dict[int, str]]


@dataclass(frozen=True, eq=False)
class Batch:
    """The readable ones of the samples from ``start`` up to ``stop``."""

    start: int
    stop: int
    rows: Int[Tensor, " b"]
    samples: Shaped[Tensor, "b ..."]
    labels: Int[Tensor, " b"]
    unreadable: dict[int, str] = field(default_factory=dict)


def one_pass(
    items: Items,
    *,
    start: int = 0,
    batch_size: int = 256,
    workers: int = 0,
    spans: Iterable[tuple[int, int]] | None = None,
) -> Iterator[Batch]:
    """The samples from ``start`` on, ``batch_size`` numbers at a time.

    ``spans`` says instead which numbers make up each batch, from one up to another.

    >>> from invariance.data import load
    >>> source = load("shapes", n=5, storage="streamed")
    >>> [(b.start, b.rows.tolist()) for b in one_pass(source.items, batch_size=3)]
    [(0, [0, 1, 2]), (3, [3, 4])]
    """
    if spans is None:
        spans = cut_spans(start, len(items), batch_size)
    for piece in read_pieces(Spans(items), spans, workers=workers):
        yield to_batch(*piece)


def share_out(items: Items) -> Iterator[Batch]:
    """Every sample once, by all cores as soon as one alone would take too long."""
    size = piece_size(items.n_bytes)
    began = time.perf_counter()
    for batch in one_pass(items, batch_size=size):
        yield batch
        spent = time.perf_counter() - began
        left = spent * (len(items) - batch.stop) / batch.stop
        if spent > START_SECONDS and left > 2 * START_SECONDS:
            break
    else:
        return
    workers, _ = choose_workers(None, items.n_bytes)
    how: Callable[..., Iterator[Batch]] = one_pass if may_fork() else in_threads
    yield from how(items, start=batch.stop, batch_size=size, workers=workers)


def in_threads(
    items: Items, *, start: int = 0, batch_size: int = 256, workers: int = 1
) -> Iterator[Batch]:
    """The same by threads, for where processes start slowly; all is held at once."""
    with ThreadPoolExecutor(workers) as pool:
        spans = cut_spans(start, len(items), batch_size)
        for piece in pool.map(Spans(items).__getitem__, spans):
            yield to_batch(*piece)


def cut_spans(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    """Spans of that size, the last perhaps shorter.

    >>> cut_spans(2, 7, 3)
    [(2, 5), (5, 7)]
    """
    return [(k, min(k + size, stop)) for k in range(start, stop, size)]


class Spans(Dataset):
    """What a worker does: read the samples from one number up to another."""

    def __init__(self, items: Items):
        self.items = items

    def __getitem__(self, span: tuple[int, int]) -> Piece:
        """The samples from the first number up to the second.

        Labels go as plain numbers: every tensor is a file that both processes open.
        """
        samples, labels, bad = self.items.read_many(range(*span))
        return *span, samples, labels.tolist(), bad


def to_batch(
    start: int,
    stop: int,
    samples: Shaped[Tensor, "n ..."],
    labels: list[int],
    bad: dict[int, str],
) -> Batch:
    """The readable ones of the samples from one number up to another."""
    rows, numbers = torch.arange(start, stop), torch.tensor(labels)
    if bad:
        good = torch.tensor([i not in bad for i in range(start, stop)])
        rows, samples, numbers = rows[good], samples[good], numbers[good]
    return Batch(start, stop, rows, samples, numbers, bad)
