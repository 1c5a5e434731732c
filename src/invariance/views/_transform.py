"""Views of one image at a time, as a torchvision data set or a DataLoader wants them.

A `ViewSet` works on whole batches on the training device, and makes the same views
whatever the number of workers. A `Transform` wraps one for code that already has a data
set with a ``transform``: one image goes in, a list of views comes out, and the default
collation of a DataLoader makes one batch per view. A batch is faster: on one core a
32-pixel image takes 2 ms alone and a thirtieth of that in a batch.

Randomness is torch's. Each call draws one number from torch's generator, which seeds
everything drawn for that image. A DataLoader gives each worker its own seed in each
epoch, so workers do not repeat each other, and `torch.manual_seed` before the loader,
or its ``generator=``, makes a run repeatable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from PIL import Image
from torch import Tensor

from ..errors import SettingError, ShapeError, choose
from ..words import count
from ._recipes import KINDS_OF, RECIPES
from ._view_set import ViewSet

EIGHT_BIT = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB")


@dataclass(frozen=True)
class Transform:
    """One image in, its views out: a list of float tensors, c h w, in [0, 1].

    An image is Pillow's, a numpy array (h w or h w c) or a tensor (h w or c h w), with
    bytes or with floats in [0, 1]. `transform` builds one from a recipe's name.

    Args:
        views: What is done to the image.
        channels: Of the views; Pillow images are converted to gray (1) or RGB (3).
            None takes the channels that an image has.
    """

    views: ViewSet
    channels: int | None = None

    def __call__(
        self, image: Any, *, generator: torch.Generator | None = None
    ) -> list[Float[Tensor, "_ _ _"]]:
        """The views of one image; `generator` takes the place of torch's own."""
        images = to_tensor(image, self.channels)[None]
        seed = int(torch.randint(2**63 - 1, (), generator=generator))
        one = torch.zeros(1, dtype=torch.long)
        return [v[0] for v in self.views(images, samples=one, seed=seed, epoch=0)]


def transform(
    views: str | ViewSet | Sequence[Any],
    size: int | None = None,
    *,
    channels: int | None = None,
    **settings: Any,
) -> Transform:
    """A transform of single images into views, for a data set or a DataLoader.

    Args:
        views: A name in `RECIPES`, a `ViewSet`, or a list of operations per view.
        size: Of the views, in pixels; for a recipe.
        channels: Of the views: 1 (gray) or 3 (RGB, which recipes take by default).
        **settings: What else the recipe takes, such as ``n_views=4``.

    >>> import invariance as inv
    >>> from torch.utils.data import DataLoader
    >>> from torchvision.datasets import FakeData
    >>> two_views = inv.views.transform("simclr", size=32)
    >>> data = FakeData(8, image_size=(3, 40, 40), transform=two_views)
    >>> (u, v), labels = next(iter(DataLoader(data, batch_size=4)))
    >>> u.shape, v.shape
    (torch.Size([4, 3, 32, 32]), torch.Size([4, 3, 32, 32]))
    """
    if isinstance(views, str):
        recipe = choose(RECIPES, views, "recipe")
        if views in KINDS_OF:
            images = "image" in KINDS_OF[views]
            raise SettingError(
                f"The recipe {views!r} asks for the kind of the samples: give "
                "transform its operations, one list per view, such as "
                "[[GaussianNoise(0.3)], [GaussianNoise(0.3)]]."
                if images
                else f"The recipe {views!r} is for samples that are no images: call "
                "the view set by itself."
            )
        if size is None:
            raise SettingError(
                f"The recipe {views!r} needs the size of the views in pixels: write "
                f"transform({views!r}, size=32)."
            )
        channels = 3 if channels is None else channels
        return Transform(ViewSet(recipe(size, channels, **settings)), channels)
    if size is not None or settings:
        extra = ", ".join([*(["size"] if size is not None else []), *settings])
        raise SettingError(
            f"size and other settings are for recipes given by name: got {extra}. Your "
            "own operations carry their settings."
        )
    return Transform(views if isinstance(views, ViewSet) else ViewSet(views), channels)


def to_tensor(image: Any, channels: int | None = None) -> Shaped[Tensor, "c h w"]:
    """One image as a tensor, bytes or floats as they were.

    >>> to_tensor(np.zeros((2, 5, 3), np.uint8)).shape
    torch.Size([3, 2, 5])
    """
    if isinstance(image, Image.Image):
        image = _pixels(image, channels)
    if isinstance(image, np.ndarray) and image.ndim in (2, 3):
        # torch takes no strides below 0 and no bytes in another machine's order
        native = image.dtype.newbyteorder("=")
        image = torch.tensor(np.ascontiguousarray(image, native))
        image = image.permute(2, 0, 1) if image.ndim == 3 else image
    if not isinstance(image, Tensor) or image.ndim not in (2, 3):
        shape = f" of shape {tuple(image.shape)}" if hasattr(image, "shape") else ""
        raise ShapeError(
            "A transform takes one image: Pillow's, a numpy array (h w or h w c) or a "
            f"tensor (h w or c h w). Got {type(image).__name__}{shape}. For a batch "
            "use ViewSet."
        )
    image = image if image.ndim == 3 else image[None]
    if channels is not None and len(image) != channels:
        raise ShapeError(
            f"The image has {count(len(image), 'channel')} and the views {channels}: "
            f"give the transform channels={len(image)}, or convert the image."
        )
    if image.is_floating_point() and not -1e-3 <= image.amin() <= image.amax() <= 1.001:
        raise ShapeError(
            f"Images of floats lie in [0, 1]: got {image.amin():g} to "
            f"{image.amax():g}. Divide by 255, or normalize after the views."
        )
    return image


def _pixels(image: Image.Image, channels: int | None) -> np.ndarray:
    """The bytes of a Pillow image, in gray or RGB."""
    if image.mode not in EIGHT_BIT:
        raise ShapeError(
            f"A Pillow image of mode {image.mode!r} has more than 8 bits per channel: "
            "scale it to floats in [0, 1] and give it as an array."
        )
    if channels is None:
        channels = 1 if image.mode in ("1", "L", "LA") else 3
    if channels in (1, 3):
        image = image.convert("L" if channels == 1 else "RGB")
    return np.array(image)
