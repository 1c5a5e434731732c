"""Some of the items: one part of a split, evenly spread ones, or several sets joined.

Data without a test part of their own hold out a tenth: an image is held out when the
hash of its name (a file's path below the folder, an array's row number) falls in the
lowest tenth. So the parts never overlap, are the same on every machine, and an image
keeps its part when others are added. With two images or more, each part has at least
one.
"""

import hashlib
import os
import unicodedata
from bisect import bisect
from itertools import accumulate

import torch
from jaxtyping import UInt8
from torch import Tensor

from ..errors import DataError, SettingError, unknown
from ._sources import Items

SPLITS = ("train", "test", "all")
HELD_OUT = 0.1


class Subset(Items):
    """The items with these numbers, in this order."""

    def __init__(self, items: Items, rows: list[int]):
        self.items, self.rows = items, rows
        self.shape, self.class_names = items.shape, items.class_names
        if items.labels is not None:
            self.labels = items.labels[torch.tensor(rows, dtype=torch.long)]
        if items.tags is not None:
            self.tags = items.tags[torch.tensor(rows, dtype=torch.long)]
        if items.paths is not None:
            self.paths = tuple(items.paths[i] for i in rows)

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """The i-th of the chosen items."""
        return self.items.read(self.rows[i])


class Joined(Items):
    """All items of the first set, then all of the second, and so on."""

    def __init__(self, sets: list[Items]):
        self.sets, self.ends = sets, list(accumulate(map(len, sets)))
        self.shape, self.class_names = sets[0].shape, sets[0].class_names
        labels = [items.labels for items in sets if items.labels is not None]
        tags = [items.tags for items in sets if items.tags is not None]
        paths = [items.paths for items in sets if items.paths is not None]
        if len(labels) == len(sets):
            self.labels = torch.cat(labels)
        if len(tags) == len(sets):
            self.tags = torch.cat(tags)
        if len(paths) == len(sets):
            self.paths = tuple(path for part in paths for path in part)

    def __len__(self) -> int:
        return self.ends[-1]

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Item i of the whole."""
        k = bisect(self.ends, i)
        return self.sets[k].read(i - (self.ends[k] - len(self.sets[k])))


def join(sets: list[Items]) -> Items:
    """One set as it is, several as one."""
    return sets[0] if len(sets) == 1 else Joined(sets)


def split_items(items: Items, split: str, what: str) -> Items:
    """One part of items that have no names: they are held out by their numbers."""
    if split == "all":
        return items
    return Subset(items, split_names([str(i) for i in range(len(items))], split, what))


def split_names(names: list[str], split: str, what: str) -> list[int]:
    """Positions of the names that belong to a part, in order.

    >>> test = split_names([str(i) for i in range(1000)], "test", "an array")
    >>> train = split_names([str(i) for i in range(1000)], "train", "an array")
    >>> len(test), sorted(test + train) == list(range(1000))
    (104, True)
    """
    if split == "all":
        return list(range(len(names)))
    if len(names) < 2:
        raise DataError(
            f"{what} has {len(names) or 'no'} readable image, and contrasting images "
            "needs at least 2: add more, or read it with split='all'."
        )
    places = [hash_name(name) for name in names]
    test = {i for i, place in enumerate(places) if place < HELD_OUT}
    order = sorted(range(len(names)), key=places.__getitem__)
    test = (test or {order[0]}) - ({order[-1]} if len(test) == len(names) else set())
    return [i for i in range(len(names)) if (i in test) == (split == "test")]


def hash_name(name: str) -> float:
    """A name as a number in [0, 1); composed and decomposed accents are one name."""
    raw = os.fsencode(unicodedata.normalize("NFC", name))
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big") / 2**64


def check_split(split: str) -> None:
    """Refuse a name that is not train, test or all."""
    if split not in SPLITS:
        raise SettingError(unknown("split", split, SPLITS))


def spread(n: int, most: int) -> list[int]:
    """``most`` numbers below n, evenly spread.

    >>> spread(10, 3)
    [0, 3, 6]
    """
    return [k * n // most for k in range(most)] if most < n else list(range(n))
