"""Arrays of pictures, from Python or from a file.

Layouts: n h w (grey), n h w c or n c h w with 1, 3 or 4 channels (4: alpha, put on
white). Where both would do, a torch tensor is n c h w and a numpy array n h w c.
Values: uint8 as they are; bool as 0 and 255; uint16 over their whole range; other
integers when within 0..255; floats within 0..1 times 255, within 0..255 rounded.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ..errors import DataError
from ._decode import as_picture, square
from ._rows import Chosen
from ._source import NO_LABEL, Items, Read
from ._split import held_out

CHANNELS = (1, 3, 4)
ROWS_AT_ONCE = 1024
MOST_CLASSES = 1_000_000


class Pixels:
    """Rows of one array, brought to one size and number of channels when read."""

    def __init__(
        self,
        images: Any,
        labels: Any = None,
        *,
        image_size: int | None = None,
        channels: int | None = None,
        class_names: tuple[str, ...] = (),
        name: str = "the array",
    ):
        self.images, self.channels_first = arranged(images, name)
        self.factor = factor(self.images, name)
        one = self._row(0)
        size = image_size or min(one.shape[:2])
        channels = channels or (1 if one.shape[2] == 1 else 3)
        self.shape = (channels, size, size)
        self.labels, found_names = checked_labels(labels, len(self.images), name)
        self.class_names = class_names or found_names
        self.paths: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.images)

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Row i and its label."""
        row, (c, h, w) = self._row(i), self.shape
        if row.shape == (h, w, c):
            image = torch.from_numpy(np.ascontiguousarray(row.transpose(2, 0, 1)))
        else:
            image = square(as_picture(row), h, c)
        return image, NO_LABEL if self.labels is None else int(self.labels[i])

    def _row(self, i: int) -> UInt8[np.ndarray, "h w c"]:
        row = np.array(self.images[i])
        if row.ndim == 2:
            row = row[:, :, None]
        elif self.channels_first:
            row = row.transpose(1, 2, 0)
        if row.dtype != np.uint8:
            row = np.rint(row.astype(np.float64) * self.factor).astype(np.uint8)
        return np.ascontiguousarray(row)

    def __getstate__(self) -> dict[str, Any]:
        """A mapped file travels to a worker as its name, not as its content."""
        x = self.images
        if not isinstance(x, np.memmap) or isinstance(x.base, np.memmap):
            return self.__dict__
        order = "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"
        where = (x.filename, x.dtype, "r", x.offset, x.shape, order)
        return self.__dict__ | {"images": where}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(state["images"], tuple):
            self.images = np.memmap(*state["images"])


def read_arrays(
    images: Any,
    labels: Any = None,
    *,
    name: str,
    split: str,
    image_size: int | None,
    channels: int | None,
) -> Read:
    """One split of an array that has none of its own."""
    items: Items = Pixels(
        images, labels, image_size=image_size, channels=channels, name=name
    )
    rows = held_out([str(i) for i in range(len(items))], split, name)
    return Read(name, items if split == "all" else Chosen(items, rows))


def arranged(images: Any, name: str) -> tuple[np.ndarray, bool]:
    """The array, and whether its channels come before height and width."""
    tensor = isinstance(images, Tensor)
    array = images.detach().cpu().numpy() if tensor else images
    shape = tuple(getattr(array, "shape", ()))
    if len(shape) == 3 or (len(shape) == 4 and {shape[1], shape[3]} & {*CHANNELS}):
        if 0 in shape:
            raise DataError(
                f"{name} is empty, of shape {shape}: give at least one image."
            )
        if len(shape) == 3:
            return array, False
        both = shape[1] in CHANNELS and shape[3] in CHANNELS
        return array, tensor if both else shape[1] in CHANNELS
    raise DataError(
        f"{name} has shape {shape}: images come as (n, height, width), "
        "(n, height, width, channels) or (n, channels, height, width), "
        "with 1, 3 or 4 channels."
    )


def factor(array: np.ndarray, name: str) -> float:
    """What stored values are multiplied by to become 0..255."""
    kind = array.dtype
    if kind in (np.uint8, np.bool_, np.uint16):
        return {"uint8": 1.0, "bool": 255.0, "uint16": 255 / 65535}[kind.name]
    if kind.kind not in "iuf":
        raise DataError(f"{name} holds {kind} values: expected uint8 or float images.")
    low, high = np.inf, -np.inf
    for start in range(0, len(array), ROWS_AT_ONCE):
        rows = array[start : start + ROWS_AT_ONCE]
        if kind.kind == "f" and not np.isfinite(rows).all():
            raise DataError(
                f"{name} holds NaN or infinite values: expected uint8, or floats from "
                "0 to 1."
            )
        low, high = np.minimum(low, rows.min()), np.maximum(high, rows.max())
    if not (low >= 0 and high <= 255):
        raise DataError(
            f"{name} holds {kind} values from {low:g} to {high:g}: expected uint8, or "
            "floats from 0 to 1 (undo any normalisation)."
        )
    return 255.0 if kind.kind == "f" and high <= 1 else 1.0


def checked_labels(
    labels: Any, n: int, name: str
) -> tuple[Int[Tensor, " n"] | None, tuple[str, ...]]:
    """Class numbers, one an image, and the classes' names; words are numbered in order.

    >>> checked_labels(["dog", "cat", "dog"], 3, "pets")
    (tensor([1, 0, 1]), ('cat', 'dog'))
    """
    if labels is None:
        return None, ()
    found = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if found.size != n or max(found.shape, default=0) != n:
        raise DataError(
            f"{name} has {n} images but labels of shape {found.shape}: "
            "give one label for each image."
        )
    found = found.reshape(n)
    if found.dtype.kind not in "biuf":
        words, found = np.unique(found.astype(str), return_inverse=True)
        return torch.from_numpy(found.astype(np.int64)), tuple(words.tolist())
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise DataError(
            f"{name} has labels that are NaN or infinite: classes are whole numbers "
            "counted from 0."
        )
    numbers = found.astype(np.int64)
    if (numbers != found).any() or numbers.min() < 0 or numbers.max() > MOST_CLASSES:
        raise DataError(
            f"{name} has labels from {found.min()} to {found.max()}: "
            "classes are whole numbers counted from 0."
        )
    names = tuple(str(k) for k in range(int(numbers.max()) + 1))
    return torch.from_numpy(numbers), names
