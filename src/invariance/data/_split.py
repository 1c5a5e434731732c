"""Held-out pictures for data that bring no test part of their own.

A picture is held out when the hash of its name (a file's path below the folder, an
array's row number) falls in the lowest tenth. So the parts never overlap, are the same
on every machine, and a picture keeps its part when others are added. With two pictures
or more both parts have at least one.
"""

import hashlib
import os
import unicodedata

from ..errors import DataError, SettingError, unknown

SPLITS = ("train", "test", "all")
HELD_OUT = 0.1


def check_split(split: str) -> None:
    """Refuse a name that is not train, test or all."""
    if split not in SPLITS:
        raise SettingError(unknown("split", split, SPLITS))


def held_out(names: list[str], split: str, what: str) -> list[int]:
    """Positions of the names that belong to a split, in order.

    >>> test = held_out([str(i) for i in range(1000)], "test", "an array")
    >>> train = held_out([str(i) for i in range(1000)], "train", "an array")
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
    places = [place(name) for name in names]
    test = {i for i, p in enumerate(places) if p < HELD_OUT}
    order = sorted(range(len(names)), key=places.__getitem__)
    test = (test or {order[0]}) - ({order[-1]} if len(test) == len(names) else set())
    return [i for i in range(len(names)) if (i in test) == (split == "test")]


def place(name: str) -> float:
    """Where a name falls in [0, 1); composed and decomposed accents are one name."""
    raw = os.fsencode(unicodedata.normalize("NFC", name))
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big") / 2**64
