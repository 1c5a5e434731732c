"""Arrays of images, from Python, an ``.npy`` file or an ``.npz`` archive.

Layouts: n h w (gray), n h w c or n c h w with 1, 3 or 4 channels (4: alpha, put on
white). Where both would do, a torch tensor is n c h w and a numpy array n h w c.
Values: uint8 as they are; bool as 0 and 255; uint16 over their whole range; other
integers when within 0..255; floats within 0..1 times 255, within 0..255 rounded.

An ``.npy`` file is mapped, not loaded, so it may be larger than the memory. An archive
may name its arrays as Keras does (x_train, y_train, x_test, ...), as MedMNIST does
(train_images, train_labels, ...), or simply images and labels.

Labels are one per image, or, where an image may show several classes, a row of 0 and 1
per image: these become ``tags``.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Int8, UInt8
from torch import Tensor

from ..errors import DataError
from ._decode import crop_square, to_pillow
from ._load_request import Origin, Request
from ._sources import Items, Read
from ._split import spread
from ._subset import join, split_items

IMAGE_KEYS = ("images", "x", "data", "arr_0")
LABEL_KEYS = ("labels", "y", "targets", "arr_1")
PART_KEYS = (
    {"train": ("x_train", "y_train"), "test": ("x_test", "y_test")},
    {
        "train": ("train_images", "train_labels"),
        "test": ("test_images", "test_labels"),
    },
)
CHANNELS = (1, 3, 4)
UNCLEAR = 2.0  # the largest float: more than 1, and nearly black if 255 were white
ROWS_AT_ONCE = 1024
MARKED = 256  # rows that stand for all of an array
MOST_CLASSES = 1_000_000
AS_STORED = Request()


class Pixels(Items):
    """Rows of one array, brought to one size and number of channels when read."""

    def __init__(
        self, images: Any, labels: Any, name: str, request: Request = AS_STORED
    ):
        self.images, self.channels_first = find_layout(images, name)
        self.factor = find_factor(self.images, name)
        one = self.row(0)
        size = request.image_size or min(one.shape[:2])
        channels = request.channels or (1 if one.shape[2] == 1 else 3)
        self.shape = (channels, size, size)
        set_labels(self, labels, name)

    def __len__(self) -> int:
        return len(self.images)

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
    images: Any, labels: Any, name: str, request: Request, parent: str = ""
) -> Read:
    """One part of an array that has no parts of its own."""
    items = Pixels(images, labels, name, request)
    part, n_held_out = split_items(items, request, name)
    origin = Origin(mark_pixels([items]), parent, n_held_out, own_test=False)
    return Read(name, part, origin=origin)


def mark_pixels(sets: list[Pixels]) -> str:
    """A short mark of arrays by some of their rows, and one of all of their labels."""
    pixels, labels = (hashlib.blake2b(digest_size=8) for _ in range(2))
    for items in sets:
        pixels.update(repr(items.images.shape).encode())
        for i in spread(len(items), MARKED):
            pixels.update(np.ascontiguousarray(items.images[i]).tobytes())
        if items.targets is not None:
            labels.update(items.targets.numpy().tobytes())
    labeled = any(items.labeled for items in sets)
    return pixels.hexdigest() + (f"+{labels.hexdigest()}" if labeled else "")


def read_array_file(path: Path, request: Request) -> Read:
    """An .npy file of images, or an .npz archive of images and labels."""
    name = path.name
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
        archive = {"images": stored} if isinstance(stored, np.ndarray) else dict(stored)
    except Exception as error:
        why = str(error)
        if "allow_pickle" in why:  # what numpy takes text and anything else for
            why = "numpy did not write it, or it holds objects"
        raise DataError(
            f"{str(path)!r} cannot be read as a numpy file ({why}): "
            "save plain numbers with numpy.save or numpy.savez."
        ) from error
    parent = path.resolve().parent.name
    for keys in PART_KEYS:
        if all(images in archive for images, _ in keys.values()):
            sets = {
                part: Pixels(archive[x], archive.get(y), f"{x} of {name}", request)
                for part, (x, y) in keys.items()
            }
            chosen = [sets[part] for part in sets if request.split in (part, "all")]
            mark = mark_pixels(list(sets.values()))
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


def find_layout(images: Any, name: str) -> tuple[np.ndarray, bool]:
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


def find_factor(array: np.ndarray, name: str) -> float:
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
            "floats from 0 to 1 (undo any normalization)."
        )
    if kind.kind == "f" and 1 < high <= UNCLEAR:
        raise DataError(
            f"{name} holds floats up to {high:g}, which are neither of 0 to 1 nor of 0 "
            "to 255: clip them to 1, or multiply them by 255."
        )
    return 255.0 if kind.kind == "f" and high <= 1 else 1.0


def set_labels(items: Items, labels: Any, name: str) -> None:
    """Give items their labels, or their tags where there is a column per class."""
    n = len(items)
    given = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if given.ndim == 2 and len(given) == n and given.shape[1] > 1:
        items.tags = read_tags(given, name)
        items.class_names = tuple(str(k) for k in range(given.shape[1]))
    else:
        items.labels, items.class_names = number_labels(labels, n, name)


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
    labels: Any, n: int, name: str
) -> tuple[Int[Tensor, " n"] | None, tuple[str, ...]]:
    """One class number per image, and the classes' names; words are numbered in order.

    >>> number_labels(["dog", "cat", "dog"], 3, "pets")
    (tensor([1, 0, 1]), ('cat', 'dog'))
    """
    if labels is None:
        return None, ()
    given = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if given.size != n or max(given.shape, default=0) != n:
        raise DataError(
            f"{name} has {n} images but labels of shape {given.shape}: "
            "give one label for each image, or a row of 0 and 1 with a column per "
            "class."
        )
    given = given.reshape(n)
    if given.dtype.kind not in "biuf":
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
