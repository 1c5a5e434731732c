"""Labels as numbers: a class per sample, or a row of 0 and 1 where it shows several.

Classes are numbers counted from 0, or words, which are numbered in their order.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Int8
from torch import Tensor

from ..errors import DataError
from ._decode import to_array
from ._sources import Items

MOST_CLASSES = 1_000_000


def as_array(values: Any) -> np.ndarray:
    """A tensor, an array or nested lists as an array."""
    return np.asarray(to_array(values))


def set_labels(items: Items, labels: Any, name: str) -> None:
    """Give items their labels, or their tags where there is a column per class."""
    n = len(items)
    given = as_array(labels)
    if given.ndim == 2 and len(given) == n and given.shape[1] > 1:
        items.tags = read_tags(given, name)
        items.class_names = tuple(str(k) for k in range(given.shape[1]))
    else:
        items.labels, items.class_names = number_labels(
            labels, n, name, items.kind.word
        )


def read_tags(given: np.ndarray, name: str) -> Int8[Tensor, "n c"]:
    """A 0 or 1 per image and class.

    >>> read_tags(np.array([[True, False], [True, True]]), "pets")
    tensor([[1, 0],
            [1, 1]], dtype=torch.int8)
    """
    if given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        raise DataError(
            f"{name} has labels of shape {given.shape}, a column per class, which hold "
            "1 where the image shows the class and 0 where not: got other values."
        )
    return torch.from_numpy(given.astype(np.int8))


def number_labels(
    labels: Any, n: int, name: str, word: str = "sample"
) -> tuple[Int[Tensor, " n"] | None, tuple[str, ...]]:
    """One class number per sample, and the classes' names; words are numbered in order.

    >>> number_labels(["dog", "cat", "dog"], 3, "pets")
    (tensor([1, 0, 1]), ('cat', 'dog'))
    """
    if labels is None:
        return None, ()
    given = as_array(labels)
    if given.size != n or max(given.shape, default=0) != n:
        raise DataError(
            f"{name} has {n} {word}s but labels of shape {given.shape}: "
            f"give one label for each {word}, or a row of 0 and 1 with a column per "
            "class."
        )
    given = given.reshape(n)
    if given.dtype.kind not in "biuf":
        if any(label is None or label != label for label in given.tolist()):
            raise DataError(
                f"{name} has {word}s whose label is None or NaN: give each of them a "
                "class, or leave these out."
            )
        words, numbers = np.unique(given.astype(str), return_inverse=True)
        return torch.from_numpy(numbers.astype(np.int64)), tuple(words.tolist())
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise DataError(
            f"{name} has labels that are NaN or infinite: classes are whole numbers "
            "counted from 0."
        )
    numbers = given.astype(np.int64)
    if (numbers != given).any() or numbers.min() < 0 or numbers.max() > MOST_CLASSES:
        raise DataError(
            f"{name} has labels from {given.min()} to {given.max()}: "
            "classes are whole numbers counted from 0."
        )
    names = tuple(str(k) for k in range(int(numbers.max()) + 1))
    return torch.from_numpy(numbers), names
