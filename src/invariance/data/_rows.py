"""Some of the items, or several lots of items one after another."""

from itertools import accumulate

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ._source import Items


class Chosen:
    """The items with these numbers, in this order."""

    def __init__(self, items: Items, rows: list[int]):
        self.items, self.rows = items, rows
        self.shape, self.class_names = items.shape, items.class_names
        self.labels: Int[Tensor, " n"] | None = None
        if items.labels is not None:
            self.labels = items.labels[torch.tensor(rows, dtype=torch.long)]
        self.paths: tuple[str, ...] | None = None
        if items.paths is not None:
            self.paths = tuple(items.paths[i] for i in rows)

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """The i-th chosen item."""
        return self.items.read(self.rows[i])


class Joined:
    """All items of the first lot, then all of the second, and so on."""

    def __init__(self, lots: list[Items]):
        self.lots, self.ends = lots, list(accumulate(len(lot) for lot in lots))
        self.shape, self.class_names = lots[0].shape, lots[0].class_names
        labels = [lot.labels for lot in lots if lot.labels is not None]
        paths = [lot.paths for lot in lots if lot.paths is not None]
        self.labels: Int[Tensor, " n"] | None = None
        if len(labels) == len(lots):
            self.labels = torch.cat(labels)
        self.paths: tuple[str, ...] | None = None
        if len(paths) == len(lots):
            self.paths = tuple(path for lot in paths for path in lot)

    def __len__(self) -> int:
        return self.ends[-1]

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Item i of the whole."""
        k = next(k for k, end in enumerate(self.ends) if i < end)
        return self.lots[k].read(i - (self.ends[k] - len(self.lots[k])))


def spread(n: int, most: int) -> list[int]:
    """``most`` numbers below n, evenly spread.

    >>> spread(10, 3)
    [0, 3, 6]
    """
    return [k * n // most for k in range(most)] if most < n else list(range(n))
