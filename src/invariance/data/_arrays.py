"""Arrays of images or of vectors, from Python, an ``.npy`` file or an ``.npz`` archive.

Rows of numbers (n d) are vectors. Layouts of images: n h w (gray), n h w c or n c h w
with 1, 3 or 4 channels (4: alpha, put on white). Where both would do, a torch
tensor is n c h w and a numpy array n h w c. A single image has to be images[None]: as
c h w, it could be three gray images.

Values of images: uint8 as they are; bool as 0 and 255; uint16 over their whole range;
other integers when within 0..255; floats within 0..1 times 255, within 0..255 rounded.

An ``.npy`` file is mapped, not loaded, so it may be larger than the memory. An archive
may name its arrays as Keras does (x_train, y_train, x_test, ...), as MedMNIST does
(train_images, train_labels, ...), or simply images and labels.

Labels are one per image, or, where an image may show several classes, a row of 0 and 1
per image: these become ``tags``.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from ..errors import DataError
from ._decode import (
    crop_square,
    find_factor,
    find_layout,
    to_array,
    to_bytes,
    to_pillow,
)
from ._kind import Image, Kind, Vector
from ._label_numbers import set_labels
from ._load_request import Origin, Request
from ._marks import Mark
from ._sources import Items, Read
from ._split import spread
from ._subset import join, read_part

IMAGE_KEYS = ("images", "vectors", "x", "data", "arr_0")
LABEL_KEYS = ("labels", "y", "targets", "arr_1")
PART_KEYS = (
    {"train": ("x_train", "y_train"), "test": ("x_test", "y_test")},
    {
        "train": ("train_images", "train_labels"),
        "test": ("test_images", "test_labels"),
    },
)
ROWS_AT_ONCE = 1024
MARKED = 256  # rows that stand for all of an array
AS_STORED = Request()


class Array(Items):
    """Rows of one array."""

    array: np.ndarray

    def __len__(self) -> int:
        return len(self.array)

    def __getstate__(self) -> dict[str, Any]:
        """A mapped file travels to a worker as its name, not as its content."""
        x = self.array
        if not isinstance(x, np.memmap) or isinstance(x.base, np.memmap):
            return self.__dict__
        order = "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"
        where = (x.filename, x.dtype, "r", x.offset, x.shape, order)
        return self.__dict__ | {"array": where}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if isinstance(state["array"], tuple):
            self.array = np.memmap(*state["array"])


class Pixels(Array):
    """Images, brought to one size and number of channels when read."""

    def __init__(
        self, images: Any, labels: Any, name: str, request: Request = AS_STORED
    ):
        counted = labels is not None and np.shape(labels)[:1] == images.shape[:1]
        self.array, self.channels_first = find_layout(images, name, counted=counted)
        self.factor = find_factor(self.array, name)
        one = self.row(0)
        size = request.image_size or min(one.shape[:2])
        channels = request.channels or (1 if one.shape[2] == 1 else 3)
        self.kind = Image((channels, size, size))
        set_labels(self, labels, name)

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Row i and its label."""
        row, (c, h, w) = self.row(i), self.shape
        if row.shape == (h, w, c):
            image = torch.from_numpy(np.ascontiguousarray(row.transpose(2, 0, 1)))
        else:
            image = crop_square(to_pillow(row), h, c)
        return image, self.label(i)

    def row(self, i: int) -> UInt8[np.ndarray, "h w c"]:
        """Row i as bytes, in the size and channels that it has."""
        row = np.array(self.array[i])
        return to_bytes(row, channels_first=self.channels_first, factor=self.factor)


class Vectors(Array):
    """Rows of numbers."""

    kind: Vector

    def __init__(self, rows: Any, labels: Any, name: str, kind: Kind | None) -> None:
        array = to_array(rows)
        if array.dtype.kind not in "biuf":
            raise DataError(f"{name} holds {array.dtype} values: expected numbers.")
        if 0 in array.shape:
            raise DataError(
                f"{name} is empty, of shape {array.shape}: give at least one row."
            )
        self.array = array
        self.kind = kind if isinstance(kind, Vector) else find_vector(array)
        if self.kind.shape != array.shape[1:]:
            raise DataError(
                f"{name} has rows of {array.shape[1]} numbers: expected "
                f"{self.kind.shape[0]}."
            )
        set_labels(self, labels, name)

    def read(self, i: int) -> tuple[Float[Tensor, " d"], int]:
        """Row i and its label."""
        return self.kind.read(self.array[i]), self.label(i)


def find_vector(array: np.ndarray) -> Vector:
    """What the rows are: their width, and how far each number spreads."""
    total = np.zeros((2, array.shape[1]))
    n = 0
    for start in range(0, len(array), ROWS_AT_ONCE):
        rows = array[start : start + ROWS_AT_ONCE].astype(np.float64)
        rows = rows[np.isfinite(rows).all(1)]
        n, total = n + len(rows), total + np.stack([rows.sum(0), (rows**2).sum(0)])
    mean, square = total / max(n, 1)
    spread = np.sqrt(np.maximum(square - mean**2, 0))
    return Vector(array.shape[1:], [float(f"{s:.4g}") for s in spread])


def read_arrays(
    images: Any, labels: Any, name: str, request: Request, parent: str = ""
) -> Read:
    """One part of an array that has no parts of its own."""
    items = read_rows(images, labels, name, request)
    return read_part(name, items, request, mark_rows([items]), parent)


def read_rows(rows: Any, labels: Any, name: str, request: Request) -> Array:
    """The rows of one array: vectors where each is a row of numbers, else images."""
    asked = request.kind_name in ("vector", *Vector.also)
    if asked or (not request.kind and np.ndim(rows) == 2):
        if np.ndim(rows) != 2:
            raise DataError(
                f"{name} has shape {tuple(rows.shape)}: vectors come as (n, width)."
                + " Give a single vector as rows[None]." * (np.ndim(rows) == 1)
            )
        return Vectors(rows, labels, name, request.known_kind)
    return Pixels(rows, labels, name, request)


def mark_rows(sets: list[Array]) -> str:
    """A short mark of arrays by some of their rows, and one of all of their labels."""
    mark = Mark()
    for items in sets:
        mark.add(repr(items.array.shape))
        for i in spread(len(items), MARKED):
            mark.add(np.ascontiguousarray(items.array[i]).tobytes())
        if items.targets is not None:
            mark.add_labels(items.targets.numpy().tobytes())
    return str(mark)


def read_array_file(path: Path, request: Request) -> Read:
    """An .npy file of images or vectors, or an .npz archive of them and labels."""
    name = path.name
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
        archive = {"images": stored} if isinstance(stored, np.ndarray) else dict(stored)
    except Exception as error:
        why = str(error)
        if "allow_pickle" in why:  # what numpy takes text and anything else for
            why = "it was not written by NumPy, or it holds objects"
        raise DataError(
            f"{str(path)!r} cannot be read as a numpy file ({why}): "
            "save plain numbers with numpy.save or numpy.savez."
        ) from error
    parent = path.resolve().parent.name
    for keys in PART_KEYS:
        if all(images in archive for images, _ in keys.values()):
            sets = {
                part: read_rows(archive[x], archive.get(y), f"{x} of {name}", request)
                for part, (x, y) in keys.items()
            }
            chosen = [sets[part] for part in sets if request.split in (part, "all")]
            mark = mark_rows(list(sets.values()))
            origin = Origin(mark, parent, n_held_out=len(sets["test"]))
            return Read(name, join([*chosen]), origin=origin)
    image_key = next((k for k in IMAGE_KEYS if k in archive), None)
    if image_key is None:
        raise DataError(
            f"{str(path)!r} holds {', '.join(archive) or 'nothing'}: expected an "
            "array called 'images' (and 'labels', if there are any)."
        )
    labels = next((archive[k] for k in LABEL_KEYS if k in archive), None)
    return read_arrays(archive[image_key], labels, name, request, parent)
