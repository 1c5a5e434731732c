r"""Fixed changes that happen to an image with probability p: mirror, gray, solarize.

Gray is $Y = 0.2989\,R + 0.587\,G + 0.114\,B$ in all channels; solarizing inverts the
bright pixels, $x \leftarrow 1 - x$ where $x \ge$ threshold.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError
from ._augment import Images, Number, Operation, Shape, check_color, check_probability
from ._draws import Draws
from ._sometimes import on_picked

RED, GREEN, BLUE = 0.2989, 0.587, 0.114


class CoinFlip(Operation):
    """A change without parameters; a coin with chance `p` picks the images."""

    p: Number

    def __post_init__(self) -> None:
        check_probability(f"{type(self).__name__}: p", self.p)

    def draw(self, draws: Draws, shape: Shape) -> Bool[Tensor, " n"]:
        """Which images are changed."""
        return draws.coin(self.p)

    def apply(self, images: Images, parameters: Bool[Tensor, " n"]) -> Images:
        """Those images changed."""
        return on_picked(images, parameters, lambda some, rows: self.change(some))

    @abstractmethod
    def change(self, images: Images) -> Images:
        """All of these images changed."""


@dataclass(frozen=True)
class RandomHorizontalFlip(CoinFlip):
    """Left and right exchanged with probability p.

    >>> from invariance.views import RandomHorizontalFlip
    >>> row = torch.tensor([0.0, 0.5, 1.0]).view(1, 1, 1, 3)
    >>> RandomHorizontalFlip().apply(row, torch.tensor([True])).flatten().tolist()
    [1.0, 0.5, 0.0]
    """

    p: Number = 0.5

    def change(self, images: Images) -> Images:
        """The mirror images."""
        return images.flip(3)


@dataclass(frozen=True)
class RandomGrayscale(CoinFlip):
    """Three equal channels with probability p; images of one channel stay as they are.

    >>> from invariance.views import RandomGrayscale
    >>> red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
    >>> gray = RandomGrayscale().apply(red, torch.tensor([True]))
    >>> [round(x, 4) for x in gray.flatten().tolist()]
    [0.2989, 0.2989, 0.2989]
    """

    p: Number = 0.1

    def apply(self, images: Images, parameters: Bool[Tensor, " n"]) -> Images:
        """The picked images in gray."""
        check_color(images, "RandomGrayscale")  # whether or not one is picked
        return super().apply(images, parameters)

    def change(self, images: Images) -> Images:
        """The images in gray."""
        return luma(images).expand_as(images)


@dataclass(frozen=True)
class RandomSolarize(CoinFlip):
    """Pixels from `threshold` up are inverted, with probability p per image.

    >>> from invariance.views import RandomSolarize
    >>> row = torch.tensor([0.25, 0.5, 1.0]).view(1, 1, 1, 3)
    >>> RandomSolarize(0.5).apply(row, torch.tensor([True])).flatten().tolist()
    [0.25, 0.5, 0.0]
    """

    threshold: Number = 0.5
    p: Number = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.threshold <= 1:
            raise SettingError(
                "RandomSolarize: threshold is a pixel value, from 0 to 1: got "
                f"{self.threshold}."
            )

    def change(self, images: Images) -> Images:
        """The images solarized."""
        return torch.where(images >= self.threshold, 1 - images, images)


def luma(images: Images) -> Float[Tensor, "n 1 h w"]:
    """How bright each pixel looks; a gray image is its own answer."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, 1)
    return red.mul(RED).add_(green, alpha=GREEN).add_(blue, alpha=BLUE)
