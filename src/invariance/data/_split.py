"""Which images are trained on and which are held out. No torch is needed.

Labeled data without a test part of their own hold out a tenth: an image is held out
when the hash of its name (a file's path below the folder, an array's row number) falls
in the lowest tenth. So the parts never overlap, are the same on every machine, and an
image keeps its part when others are added. With two images or more, each part has at
least one. Without labels there is nothing to score, and all images are for training.
Generated sets have as many samples of either part as they are asked for.
"""

import hashlib
import os
from collections.abc import Sequence

from ..errors import DataError, SettingError, unknown
from ._load_request import Request, compose

SPLITS = ("train", "test", "all")
HOLD_OUT = ("auto", "tenth", "nothing")
HELD_OUT = 0.1


def split_names(
    names: list[str],
    request: Request,
    what: str,
    *,
    labeled: bool,
    word: str = "image",
    parts: Sequence[str] = (),
) -> tuple[list[int], int]:
    """Positions of the names that belong to a part, and how many are held out in all.

    Args:
        names: Of all samples.
        request: Which part is asked for.
        what: What the data are called.
        labeled: Whether they have labels to score by.
        word: What a sample is called.
        parts: "train", "test" or neither for each, where the data say so.

    >>> names = [str(i) for i in range(1000)]
    >>> test, n = split_names(names, Request("test"), "an array", labeled=True)
    >>> train, _ = split_names(names, Request("train"), "an array", labeled=True)
    >>> len(test), n, sorted(test + train) == list(range(1000))
    (104, 104, True)
    >>> len(split_names(names, Request("train"), "an array", labeled=False)[0])
    1000
    >>> parts = ["train", "test", ""]
    >>> split_names(names[:3], Request("test"), "an array", labeled=True, parts=parts)
    ([1], 1)
    """
    if parts:
        wanted = ("train", "test") if request.split == "all" else (request.split,)
        rows = [i for i, part in enumerate(parts) if part in wanted]
        return rows, sum(part == "test" for part in parts)
    if request.split == "all":
        return list(range(len(names))), 0
    if len(names) < 2:
        raise DataError(
            f"{what} has {len(names) or 'no'} readable {word}, and contrasting {word}s "
            "needs at least 2: add more."
        )
    asked_for = {"tenth": True, "nothing": False}
    if not asked_for.get(request.hold_out, labeled and request.labels):
        if request.split == "train":
            return list(range(len(names))), 0
        why = "has no labels to score by" if request.labels else "goes without labels"
        why = why if request.hold_out == "auto" else "holds nothing out, as asked"
        raise DataError(
            f"{what} {why}, so all of it is for training and there is no test part: "
            "give labels with it, read the part train or all, or hold out a tenth."
        )
    places = [hash_name(name) for name in names]
    test = {i for i, place in enumerate(places) if place < HELD_OUT}
    order = sorted(range(len(names)), key=places.__getitem__)
    test = (test or {order[0]}) - ({order[-1]} if len(test) == len(names) else set())
    is_test = request.split == "test"
    return [i for i in range(len(names)) if (i in test) == is_test], len(test)


def own_parts(n_train: int | None, n: int) -> list[str]:
    """The part of each of n samples, the first of which are for training.

    >>> own_parts(2, 3), own_parts(None, 3)
    (['train', 'train', 'test'], [])
    """
    return [] if n_train is None else ["train"] * n_train + ["test"] * (n - n_train)


def count_parts(
    request: Request, train: int, test: int, *, one_in: int
) -> tuple[int, int]:
    """How many samples are of the training part, and how many of the test part.

    Args:
        request: Which part, and how many samples, if that is said.
        train: Samples of the training part otherwise.
        test: Samples of the test part.
        one_in: Of the samples of both, one in so many is of the test part.

    >>> count_parts(Request("all", n=10), 6000, 1000, one_in=5)
    (8, 2)
    """
    n = request.n or {"train": train, "test": test, "all": train + test}[request.split]
    n_test = {"train": 0, "test": n, "all": n // one_in}[request.split]
    return n - n_test, n_test


def draw_parts(
    request: Request, train: int, test: int, *, one_in: int
) -> list[tuple[int, int]]:
    """The same with a seed each, where the test part has draws of its own.

    >>> draw_parts(Request("all", n=10, seed=3), 6000, 1000, one_in=5)
    [(8, 6), (2, 7)]
    """
    counts = count_parts(request, train, test, one_in=one_in)
    return [(n, 2 * request.seed + part) for part, n in enumerate(counts) if n]


def hash_name(name: str) -> float:
    """A name as a number in [0, 1); composed and decomposed accents are one name."""
    raw = os.fsencode(compose(name))
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
