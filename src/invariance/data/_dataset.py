"""Any map-style torch Dataset: items are images, pairs (image, label) or dicts.

An image may be a Pillow image, a tensor (c h w) or an array (h w c), uint8 or floats
from 0 to 1. Labels come from ``targets`` or ``labels`` where the data set has them,
otherwise from the items as they are read, which needs resident storage.
"""

import hashlib
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import IterableDataset

from ..errors import DataError
from ._arrays import Pixels, set_labels
from ._decode import crop_square, to_pillow
from ._load_request import Origin, Request
from ._sources import NO_LABEL, Items, Read
from ._split import spread
from ._subset import split_items

IMAGE_KEYS = ("image", "img", "pixel_values")
LABEL_KEYS = ("label", "labels", "target")
MARKED = 4  # items that stand for all, where reading one twice gives the same


class FromDataset(Items):
    """A data set's items, brought to one size and number of channels."""

    def __init__(self, dataset: Any, name: str, request: Request):
        self.dataset, self.n = dataset, len(dataset)
        image, label = take_apart(dataset[0])
        first, self._labeled = to_image(image), label != NO_LABEL
        gray = first.mode in ("L", "1", "I", "I;16", "F")
        size = request.image_size or min(first.size)
        self.shape = (request.channels or (1 if gray else 3), size, size)
        stored = getattr(dataset, "targets", getattr(dataset, "labels", None))
        if stored is not None and len(stored) == self.n:
            set_labels(self, stored, name)
        if names := getattr(dataset, "classes", None):
            self.class_names = tuple(str(name) for name in names)

    def __len__(self) -> int:
        return self.n

    @property
    def labeled(self) -> bool:
        """Whether there are labels, in a list or with the first item."""
        return self.targets is not None or self._labeled

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """Item i and its label, if it comes with one."""
        image, label = take_apart(self.dataset[i])
        return crop_square(to_image(image), self.shape[1], self.shape[0]), label


def read_dataset(dataset: Any, request: Request) -> Read:
    """One part of a data set: a tenth of its items is held out by their numbers."""
    name = type(dataset).__name__
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise DataError(
            f"{name} can only be iterated over, and images are asked for by number: "
            "give a Dataset with __len__ and __getitem__."
        )
    if not len(dataset):
        raise DataError(f"{name} is empty: give a data set with at least two images.")
    items = FromDataset(dataset, name, request)
    part, n_held_out = split_items(items, request, name)
    origin = Origin(mark_items(items, name), "", n_held_out, own_test=False)
    return Read(name, part, parallel=False, origin=origin)


def mark_items(items: FromDataset, name: str) -> str:
    """A short mark: kind, number, a few images unless they are drawn anew each time."""
    images, labels = (hashlib.blake2b(digest_size=8) for _ in range(2))
    images.update(f"{name} {len(items)}".encode())
    read = items.read_many([0, *spread(len(items), MARKED)])[0]
    if read[0].equal(read[1]):
        images.update(read.numpy().tobytes())
    if items.targets is None:
        return images.hexdigest()
    labels.update(items.targets.numpy().tobytes())
    return f"{images.hexdigest()}+{labels.hexdigest()}"


def take_apart(item: Any) -> tuple[Any, int]:
    """The image and the label of an item."""
    if isinstance(item, dict):
        image = next((item[k] for k in IMAGE_KEYS if k in item), None)
        label = next((item[k] for k in LABEL_KEYS if k in item), None)
    elif isinstance(item, (tuple, list)):
        image, label = item[0], item[1] if len(item) > 1 else None
    else:
        image, label = item, None
    return image, to_label(label)


def to_label(label: Any) -> int:
    """A class number, or NO_LABEL for anything that is not one."""
    if label is None or isinstance(label, (str, float)):
        return NO_LABEL
    try:
        return int(label)
    except (TypeError, ValueError, RuntimeError):
        return NO_LABEL


def to_image(image: Any) -> Image.Image:
    """Whatever a data set calls an image, as Pillow's."""
    if isinstance(image, Image.Image):
        return image
    if not isinstance(image, (Tensor, np.ndarray)):
        raise DataError(
            f"An item of the data set is {type(image).__name__}: expected a Pillow "
            "image, a tensor or an array, alone or with a label after it."
        )
    return to_pillow(Pixels(image[None], None, "An item of the data set").row(0))
