r"""Colour taken away: $Y = 0.2989\,R + 0.587\,G + 0.114\,B$ in all channels."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from ._draws import Draws
from ._operation import (
    Number,
    Operation,
    Shape,
    check_colour,
    check_probability,
)
from ._sometimes import on_picked

RED, GREEN, BLUE = 0.2989, 0.587, 0.114


def luma(images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n 1 h w"]:
    """How bright each pixel looks; a grey image is its own answer."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, 1)
    return red.mul(RED).add_(green, alpha=GREEN).add_(blue, alpha=BLUE)


@dataclass(frozen=True)
class RandomGrayscale(Operation):
    """Three equal channels with probability p; images of one channel stay as they are.

    >>> import torch
    >>> from invariance.views import RandomGrayscale
    >>> red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
    >>> grey = RandomGrayscale().apply(red, torch.tensor([True]))
    >>> [round(x, 4) for x in grey.flatten().tolist()]
    [0.2989, 0.2989, 0.2989]
    """

    p: Number = 0.1

    def __post_init__(self) -> None:
        check_probability("RandomGrayscale: p", self.p)

    def draw(self, draws: Draws, shape: Shape) -> Bool[Tensor, " n"]:
        """Which images lose their colour."""
        return draws.coin(self.p)

    def apply(
        self, images: Float[Tensor, "n c h w"], parameters: Bool[Tensor, " n"]
    ) -> Float[Tensor, "n c h w"]:
        """Those images in grey."""
        check_colour(images, "RandomGrayscale")
        if images.shape[1] == 1:
            return images
        return on_picked(
            images, parameters, lambda some, rows: luma(some).expand_as(some)
        )
