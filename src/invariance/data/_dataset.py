"""Any map-style torch Dataset: items are pictures, pairs (picture, label) or dicts.

A picture may be a Pillow image, a tensor (c h w) or an array (h w c), uint8 or floats
from 0 to 1. Labels come from ``targets`` or ``labels`` where the data set has them,
otherwise from the items as they are read, which needs resident storage.
"""

from typing import Any

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import IterableDataset

from ..errors import DataError
from ._arrays import arranged, checked_labels, factor
from ._decode import as_picture, square
from ._rows import Chosen
from ._source import NO_LABEL, Items, Read
from ._split import held_out


class FromDataset:
    """A data set's items, brought to one size and number of channels."""

    def __init__(
        self, dataset: Any, *, image_size: int | None, channels: int | None, name: str
    ):
        self.dataset, self.n = dataset, len(dataset)
        first = as_image(parts(dataset[0])[0])
        grey = first.mode in ("L", "1", "I", "I;16", "F")
        self.shape = (
            channels or (1 if grey else 3),
            *2 * (image_size or min(first.size),),
        )
        stored = getattr(dataset, "targets", getattr(dataset, "labels", None))
        self.labels: Int[Tensor, " n"] | None = None
        self.class_names: tuple[str, ...] = ()
        if stored is not None and len(stored) == self.n:
            self.labels, self.class_names = checked_labels(stored, self.n, name)
        named = getattr(dataset, "classes", None)
        if named:
            self.class_names = tuple(str(k) for k in named)
        self.paths: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return self.n

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Item i and its label, if it comes with one."""
        image, label = parts(self.dataset[i])
        return square(as_image(image), self.shape[1], self.shape[0]), label


def read_dataset(
    dataset: Any, *, split: str, image_size: int | None, channels: int | None
) -> Read:
    """One split of a data set: a tenth of its items is held out by their numbers."""
    name = type(dataset).__name__
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise DataError(
            f"{name} can only be iterated over, and images are asked for by number: "
            "give a Dataset with __len__ and __getitem__."
        )
    if not len(dataset):
        raise DataError(f"{name} is empty: give a data set with at least two images.")
    items: Items = FromDataset(
        dataset, image_size=image_size, channels=channels, name=name
    )
    rows = held_out([str(i) for i in range(len(items))], split, name)
    part = items if split == "all" else Chosen(items, rows)
    return Read(name, part, threads=1)


def parts(item: Any) -> tuple[Any, int]:
    """The picture and the label of an item."""
    if isinstance(item, dict):
        image = next(
            (item[k] for k in ("image", "img", "pixel_values") if k in item), None
        )
        label = next(
            (item[k] for k in ("label", "labels", "target") if k in item), None
        )
    elif isinstance(item, (tuple, list)):
        image, label = item[0], item[1] if len(item) > 1 else None
    else:
        image, label = item, None
    return image, as_label(label)


def as_label(label: Any) -> int:
    """A class number, or NO_LABEL for anything that is not one."""
    if label is None or isinstance(label, (str, float)):
        return NO_LABEL
    try:
        return int(label)
    except (TypeError, ValueError, RuntimeError):
        return NO_LABEL


def as_image(image: Any) -> Image.Image:
    """Whatever a data set calls a picture, as Pillow's."""
    if isinstance(image, Image.Image):
        return image
    if not isinstance(image, (Tensor, np.ndarray)):
        raise DataError(
            f"An item of the data set is {type(image).__name__}: expected a Pillow "
            "image, a tensor or an array, alone or with a label after it."
        )
    rows, channels_first = arranged(image[None], "An item of the data set")
    row = rows[0] if rows.ndim == 4 else rows[0][:, :, None]
    row = row.transpose(1, 2, 0) if channels_first else row
    if row.dtype != np.uint8:
        scale = factor(rows, "An item of the data set")
        row = np.rint(row.astype(np.float64) * scale).astype(np.uint8)
    return as_picture(np.ascontiguousarray(row))
