"""Every image once and in order, with the broken ones left out rather than replaced.

Training keeps its batches full, so ``StreamedImages`` puts a neighbor in the place of
an image that cannot be read. Whoever writes one row per image must not: here a batch
holds the images that could be read, their numbers, and why the others could not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ._sources import Items


@dataclass(frozen=True, eq=False)
class Batch:
    """The readable ones of the images from ``start`` up to ``stop``."""

    start: int
    stop: int
    rows: Int[Tensor, " b"]
    images: UInt8[Tensor, "b c h w"]
    labels: Int[Tensor, " b"]
    unreadable: dict[int, str] = field(default_factory=dict)


def one_pass(
    items: Items, *, start: int = 0, batch_size: int = 256, workers: int = 0
) -> Iterator[Batch]:
    """The images from ``start`` on, ``batch_size`` numbers at a time.

    >>> from invariance.data import load
    >>> source = load("shapes", n=5, storage="streamed")
    >>> [(b.start, b.rows.tolist()) for b in one_pass(source.items, batch_size=3)]
    [(0, [0, 1, 2]), (3, [3, 4])]
    """
    spans = [
        (k, min(k + batch_size, len(items)))
        for k in range(start, len(items), batch_size)
    ]
    yield from DataLoader(
        Spans(items, spans),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=2 if workers else None,
        generator=torch.Generator(),  # or it would draw from the global one
    )


class Spans(Dataset):
    """What a worker does: read the images from one number up to another."""

    def __init__(self, items: Items, spans: list[tuple[int, int]]):
        self.items, self.spans = items, spans

    def __len__(self) -> int:
        return len(self.spans)

    def __getitem__(self, k: int) -> Batch:
        """The images of span k."""
        start, stop = self.spans[k]
        rows = torch.arange(start, stop)
        images, labels, bad = self.items.read_many(range(start, stop))
        if bad:
            good = torch.tensor([i not in bad for i in range(start, stop)])
            rows, images, labels = rows[good], images[good], labels[good]
        return Batch(start, stop, rows, images, labels, bad)


def row_names(items: Items) -> Sequence[str]:
    """What to call each image: its path, or its number in the data it came from."""
    return items.paths or [items.name(i) for i in range(len(items))]
