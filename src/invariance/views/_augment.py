"""What an augmentation is: parameters are drawn, then applied, as two pure steps."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from ..errors import SettingError, ShapeError
from ._draws import Draws

Shape = torch.Size | tuple[int, ...]
Number = float | int
Range = tuple[Number, Number]
Images = Float[Tensor, "n c h w"]  # n images of c channels, h x w pixels
PerImage = Float[Tensor, " n"]


class Operation(ABC):
    """One augmentation of a batch, each image with its own parameters.

    `draw` turns random numbers into parameters (one row per image, on the device of the
    draws), `apply` turns images and parameters into images. The two are apart so that
    parameters can be looked at, kept, or handed to another library for comparison.
    Images are float, n c h w, in [0, 1]; they are never changed in place. An operation
    on samples of any shape has ``images_only = False``; one that draws as much as the
    samples hold has ``draws_on_device = True``, and draws where the samples are.
    """

    images_only: ClassVar[bool] = True
    draws_on_device: ClassVar[bool] = False

    @abstractmethod
    def draw(self, draws: Draws, shape: Shape) -> Any:
        """Parameters for a batch of this shape."""

    @abstractmethod
    def apply(self, images: Any, parameters: Any) -> Shaped[Tensor, "n ..."]:
        """The images under these parameters."""

    def __call__(self, images: Any, draws: Draws) -> Shaped[Tensor, "n ..."]:
        """Draw, then apply."""
        draws = draws.to(images.device) if self.draws_on_device else draws
        return self.apply(images, self.draw(draws, images.shape))


def check_color(images: Tensor, operation: str) -> None:
    """Color has a meaning for one channel (gray) and three (red, green, blue)."""
    if images.shape[1] not in (1, 3):
        raise ShapeError(
            f"{operation} needs images with 1 or 3 channels, got {images.shape[1]}. "
            "Leave color operations out of the list, or wrap one in a function that "
            "picks the color channels."
        )


def check_probability(name: str, p: Number) -> None:
    """A chance lies in [0, 1]."""
    if not 0 <= p <= 1:
        raise SettingError(f"{name} is a probability, from 0 to 1: got {p}.")


def check_range(name: str, low_high: Range, low: Number, high: Number) -> None:
    """A range is two numbers in order, within what the operation can do."""
    if len(low_high) != 2 or not low <= low_high[0] <= low_high[1] <= high:
        raise SettingError(
            f"{name} needs two numbers in order, from {low} to {high}: got {low_high}."
        )


def between(uniform: Float[Tensor, "*s"], low_high: Range) -> Float[Tensor, "*s"]:
    """Uniform numbers of [0, 1) spread over a range."""
    low, high = low_high
    return uniform * (high - low) + low


def numbers(values: Sequence[Number], like: Tensor) -> Tensor:
    """A short list on the device of `like`.

    A GPU is filled, not copied to: it is not waited for, and a graph can capture it.
    """
    if like.is_cpu:
        return torch.tensor(values, dtype=like.dtype)
    return torch.cat([like.new_full((1,), value) for value in values])


def per_image(x: Tensor) -> Tensor:
    """One number per image, shaped to meet n c h w."""
    return x.view(-1, 1, 1, 1)
