"""Some of the items: one part of a split, evenly spread ones, or sets joined."""

from bisect import bisect
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from ._load_request import Origin, Request
from ._sources import NO_LABEL, PER_SAMPLE, Items, Read
from ._split import split_names


class Subset(Items):
    """The items with these numbers, in this order."""

    def __init__(self, items: Items, rows: list[int]):
        self.items, self.rows = items, rows
        self.copy_facts(items, torch.tensor(rows, dtype=torch.long))
        if items.other is not None:
            self.other = Subset(items.other, rows)

    def __len__(self) -> int:
        return len(self.rows)

    def name(self, i: int) -> str:
        """As in the set they are chosen from."""
        return self.items.name(self.rows[i])

    def read(self, i: int) -> tuple[Shaped[Tensor, "..."], int]:
        """The i-th of the chosen items."""
        return self.items.read(self.rows[i])


class Unlabeled(Items):
    """The same items without their labels."""

    def __init__(self, items: Items):
        self.items, self.kind, self.paths = items, items.kind, items.paths
        self.ready, self.other, self.scores = items.ready, items.other, items.scores

    def __len__(self) -> int:
        return len(self.items)

    def name(self, i: int) -> str:
        """As with labels."""
        return self.items.name(i)

    def read(self, i: int) -> tuple[Shaped[Tensor, "..."], int]:
        """The sample alone."""
        return self.items.read(i)[0], NO_LABEL


class Joined(Items):
    """All items of the first set, then all of the second, and so on."""

    def __init__(self, sets: list[Items]):
        self.sets, self.ends = sets, list(accumulate(map(len, sets)))
        self.kind, self.class_names = sets[0].kind, sets[0].class_names
        others = [items.other for items in sets if items.other is not None]
        self.other = Joined(others) if len(others) == len(sets) else None
        for what in PER_SAMPLE:
            known = [getattr(items, what) for items in sets]
            if all(part is not None for part in known):
                setattr(self, what, torch.cat(known))
        paths = [items.paths for items in sets if items.paths is not None]
        if len(paths) == len(sets):
            self.paths = tuple(path for part in paths for path in part)

    def __len__(self) -> int:
        return self.ends[-1]

    def read(self, i: int) -> tuple[Shaped[Tensor, "..."], int]:
        """Item i of the whole."""
        k = bisect(self.ends, i)
        return self.sets[k].read(i - (self.ends[k] - len(self.sets[k])))


def join(sets: list[Items]) -> Items:
    """One set as it is, several as one."""
    return sets[0] if len(sets) == 1 else Joined(sets)


def read_part(
    name: str, items: Items, request: Request, mark: str, parent: str = "", **about: Any
) -> Read:
    """One part of items without a test part of their own; their numbers decide."""
    rows, n_held_out = split_names(
        [str(i) for i in range(len(items))],
        request,
        name,
        labeled=items.labeled or items.other is not None,
        word=items.kind.word,
    )
    part = Subset(items, rows) if len(rows) < len(items) else items
    origin = Origin(mark, parent, n_held_out, own_test=False)
    return Read(name, part, origin=origin, **about)
