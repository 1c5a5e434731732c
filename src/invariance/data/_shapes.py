r"""Shapes: ten silhouettes under nuisances that say nothing about the class.

Which of front and back is the brighter is a fair coin, so the mean image of every class
is the same and a linear probe on raw pixels stays near chance (a tenth), while any
small convolutional network can read the outline.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ..errors import DataError
from ._decode import crop_square, to_pillow
from ._drawing import SILHOUETTES, draw
from ._kind import Image
from ._load_request import Request
from ._sources import Items, Read
from ._split import count_parts

SHAPE_CLASSES = tuple(SILHOUETTES)
PIXELS_AT_ONCE = 1 << 18


class Shapes(Items):
    """The generated set: an item is a number, and is drawn when it is read."""

    class_names = SHAPE_CLASSES

    def __init__(
        self, n_train: int, n_test: int, *, size: int, channels: int, seed: int
    ):
        if size < 8:
            raise DataError(f"shapes needs image_size of 8 or more: got {size}.")
        self.seed, self.kind = seed, Image((channels, size, size))
        self.number = np.concatenate([np.arange(n_train), np.arange(n_test)])
        self.part = np.repeat([0, 1], [n_train, n_test])
        self.labels = torch.from_numpy(self.number % len(SHAPE_CLASSES))

    def __len__(self) -> int:
        return len(self.number)

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """The image of item i and its class."""
        return self.read_many([i])[0][0], self.label(i)

    def read_many(
        self, rows: Sequence[int]
    ) -> tuple[UInt8[Tensor, "b c h w"], Int[Tensor, " b"], dict[int, str]]:
        """Several images drawn together, which is far faster than one by one."""
        channels, size, _ = self.shape
        out = torch.empty((len(rows), *self.shape), dtype=torch.uint8)
        step = max(1, PIXELS_AT_ONCE // size**2)
        for start in range(0, len(rows), step):
            some = np.array(rows[start : start + step])
            images = draw(self.number[some], self.part[some], size, seed=self.seed)
            if channels == 1:
                color = images.transpose(0, 2, 3, 1).copy()
                gray = [crop_square(to_pillow(image), size, 1) for image in color]
                out[start : start + step] = torch.stack(gray)
            else:
                out[start : start + step] = torch.from_numpy(images)
        assert self.labels is not None
        return out, self.labels[torch.tensor(rows)], {}


def read_shapes(request: Request) -> Read:
    """The images of one part; "all" is six sevenths train, then a seventh test."""
    counts = count_parts(request, 6000, 1000, one_in=7)
    size, channels = request.image_size or 32, request.channels or 3
    items = Shapes(*counts, size=size, channels=channels, seed=request.seed)
    return Read("shapes", items)


def shapes(
    n: int = 6000, *, image_size: int = 32, split: str = "train", seed: int = 0
) -> tuple[UInt8[Tensor, "n 3 h w"], Int[Tensor, " n"]]:
    """Images of ten shapes and their classes; the same for the same arguments.

    The first images of a longer set are those of a shorter one, and the train and test
    splits share no image.

    >>> images, labels = shapes(20)
    >>> images.shape, images.dtype, labels[:4].tolist()
    (torch.Size([20, 3, 32, 32]), torch.uint8, [0, 1, 2, 3])
    >>> SHAPE_CLASSES[labels[13]]
    'star'
    """
    counts = (0, n) if split == "test" else (n, 0)
    items = Shapes(*counts, size=image_size, channels=3, seed=seed)
    images, labels, _ = items.read_many(range(n))
    return images, labels
