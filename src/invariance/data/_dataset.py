"""Any map-style torch Dataset: items are samples, pairs (sample, label) or dicts.

``Samples`` says of which kind the samples are; otherwise they are images. An image may
be a Pillow image, a tensor (c h w) or an array (h w c), uint8 or floats from 0 to 1.

Labels come from ``targets`` or ``labels`` where the data set has them,
otherwise from the items as they are read, which needs resident storage.
"""

from typing import Any, final

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.utils.data import IterableDataset

from ..errors import DataError
from ._decode import is_gray, to_image
from ._kind import Image, Kind
from ._label_numbers import set_labels
from ._load_request import Request
from ._marks import Mark
from ._sources import NO_LABEL, Items, Listed, Read
from ._split import spread
from ._subset import read_part

IMAGE_KEYS = ("image", "img", "pixel_values")
LABEL_KEYS = ("label", "labels", "target")
MARKED = 4  # items that stand for all, where reading one twice gives the same


@final
class Samples:
    """Samples of a kind of your own, or of any other, by number.

    Args:
        items: a list, or what else has a length and numbers, of what ``kind.read``
            takes.
        kind: what a sample is.
        labels: one class per sample, by number or by name, or a row of 0 and 1.
        other: where samples are pairs, the second of each, in the same order.
        name: what the data are called.

    >>> from invariance.data import Vector, load
    >>> samples = Samples([[1, 2], [3, 4]], Vector((2,)), labels=["a", "b"])
    >>> load(samples, split="all").class_names
    ('a', 'b')
    """

    def __init__(
        self,
        items: Any,
        kind: Kind,
        *,
        labels: Any = None,
        other: "Samples | None" = None,
        name: str = "samples",
    ) -> None:
        if other is not None and len(other) != len(items):
            raise DataError(
                f"{name} has {len(items)} first sides of pairs and {len(other)} second "
                "ones: give one for each."
            )
        self.items, self.kind, self.labels = items, kind, labels
        self.other, self.name = other, name

    def __len__(self) -> int:
        return len(self.items)


def list_samples(samples: Samples) -> Listed:
    """Samples as their kind reads them, both sides of pairs."""
    items = Listed(samples.items, samples.kind)
    set_labels(items, samples.labels, samples.name)
    if samples.other is not None:
        items.other = list_samples(samples.other)
    return items


def read_samples(samples: Samples, request: Request) -> Read:
    """One part of them: a tenth is held out by their numbers."""
    if not len(samples):
        raise DataError(f"{samples.name} is empty: give at least two samples.")
    items = list_samples(samples)
    mark = mark_items(items, samples.kind.name)
    return read_part(samples.name, items, request, mark, parallel=False)


class FromDataset(Items):
    """The images of a data set, brought to one size and number of channels."""

    def __init__(self, dataset: Any, name: str, request: Request):
        self.dataset, self.n = dataset, len(dataset)
        image, label = take_apart(dataset[0])
        first, self._labeled = to_image(image), label != NO_LABEL
        size = request.image_size or min(first.size)
        channels = request.channels or (1 if is_gray(first.mode) else 3)
        self.kind = Image((channels, size, size))
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

    def read(self, i: int) -> tuple[Shaped[Tensor, "c h w"], int]:
        """Item i and its label, if it comes with one."""
        image, label = take_apart(self.dataset[i])
        return self.kind.read(image), label


def read_dataset(dataset: Any, request: Request) -> Read:
    """One part of a data set: a tenth of its items is held out by their numbers."""
    name = type(dataset).__name__
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise DataError(
            f"{name} can only be iterated over, but images are read by number: give "
            "a Dataset with __len__ and __getitem__."
        )
    if not len(dataset):
        raise DataError(f"{name} is empty: give a data set with at least two images.")
    items = FromDataset(dataset, name, request)
    return read_part(name, items, request, mark_items(items, name), parallel=False)


def mark_items(items: Items, name: str) -> str:
    """A short mark: name, number, a few samples unless they are drawn anew."""
    mark = Mark()
    mark.add(f"{name} {len(items)}")
    for side in (items, *([] if items.other is None else [items.other])):
        read = side.read_many([0, *spread(len(side), MARKED)])[0]
        if read[0].equal(read[1]):
            mark.add(read.contiguous().view(torch.uint8).numpy().tobytes())
    if items.targets is not None:
        mark.add_labels(items.targets.numpy().tobytes())
    return str(mark)


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
