"""Some of the items: one part of a split, evenly spread ones, or several sets joined.

Labeled data without a test part of their own hold out a tenth: an image is held out
when the hash of its name (a file's path below the folder, an array's row number) falls
in the lowest tenth. So the parts never overlap, are the same on every machine, and an
image keeps its part when others are added. With two images or more, each part has at
least one. Without labels there is nothing to score, and all images are for training.
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
from ._sources import NO_LABEL, Items, Request

SPLITS = ("train", "test", "all")
HOLD_OUT = ("auto", "tenth", "nothing")
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

    @property
    def labeled(self) -> bool:
        """As the set they are chosen from."""
        return self.items.labeled

    def name(self, i: int) -> str:
        """As in the set they are chosen from."""
        return self.items.name(self.rows[i])

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """The i-th of the chosen items."""
        return self.items.read(self.rows[i])


class Unlabeled(Items):
    """The same items without their labels."""

    def __init__(self, items: Items):
        self.items, self.shape, self.paths = items, items.shape, items.paths

    def __len__(self) -> int:
        return len(self.items)

    def name(self, i: int) -> str:
        """As with labels."""
        return self.items.name(i)

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """The image alone."""
        return self.items.read(i)[0], NO_LABEL


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


def split_items(items: Items, request: Request, what: str) -> tuple[Items, int]:
    """One part of items, and how many are held out; numbers stand for their names."""
    names = [str(i) for i in range(len(items))]
    rows, n_held_out = split_names(names, request, what, labeled=items.labeled)
    return (Subset(items, rows) if len(rows) < len(items) else items), n_held_out


def split_names(
    names: list[str], request: Request, what: str, *, labeled: bool
) -> tuple[list[int], int]:
    """Positions of the names that belong to a part, and how many are held out in all.

    >>> names = [str(i) for i in range(1000)]
    >>> test, n = split_names(names, Request("test"), "an array", labeled=True)
    >>> train, _ = split_names(names, Request("train"), "an array", labeled=True)
    >>> len(test), n, sorted(test + train) == list(range(1000))
    (104, 104, True)
    >>> len(split_names(names, Request("train"), "an array", labeled=False)[0])
    1000
    """
    if request.split == "all":
        return list(range(len(names))), 0
    if len(names) < 2:
        raise DataError(
            f"{what} has {len(names) or 'no'} readable image, and contrasting images "
            "needs at least 2: add more, or read it with split='all'."
        )
    asked_for = {"tenth": True, "nothing": False}
    if not asked_for.get(request.hold_out, labeled and request.labels):
        if request.split == "train":
            return list(range(len(names))), 0
        why = "has no labels to score by" if request.labels else "goes without labels"
        why = why if request.hold_out == "auto" else "holds nothing out, as asked"
        raise DataError(
            f"{what} {why}, so all of it is for training and there is no test part: "
            "read it with split='train' or 'all', or with hold_out='tenth'."
        )
    places = [hash_name(name) for name in names]
    test = {i for i, place in enumerate(places) if place < HELD_OUT}
    order = sorted(range(len(names)), key=places.__getitem__)
    test = (test or {order[0]}) - ({order[-1]} if len(test) == len(names) else set())
    is_test = request.split == "test"
    return [i for i in range(len(names)) if (i in test) == is_test], len(test)


def hash_name(name: str) -> float:
    """A name as a number in [0, 1); composed and decomposed accents are one name."""
    raw = os.fsencode(unicodedata.normalize("NFC", name))
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big") / 2**64


def check_split(split: str, hold_out: str) -> None:
    """Refuse a part, or a way of holding images out, that nobody knows."""
    if split not in SPLITS:
        raise SettingError(unknown("split", split, SPLITS))
    if hold_out not in HOLD_OUT:
        raise SettingError(unknown("hold_out", hold_out, HOLD_OUT))


def spread(n: int, most: int) -> list[int]:
    """``most`` numbers below n, evenly spread.

    >>> spread(10, 3)
    [0, 3, 6]
    """
    return [k * n // most for k in range(most)] if most < n else list(range(n))
