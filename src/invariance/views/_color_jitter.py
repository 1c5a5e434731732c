r"""Brightness, contrast, saturation and hue, in an order of each image's own.

The first three are one formula with different targets t, clamped to [0, 1] each time:

$$x \leftarrow f\,x + (1 - f)\,t,\qquad
t = 0,\ \ \text{the image's mean luma},\ \ \text{each pixel's luma}$$

so a batch in which every image has another order is still one pass a step: the step
reads its factors from the image's row. The hue, which is dear, is worked out once: the
steps before it leave alone the images whose turn it is, and so do those after.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ._draws import Draws
from ._grayscale import luma
from ._hue import turn_hue
from ._operation import (
    Number,
    Operation,
    Range,
    Shape,
    between,
    check_colour,
    check_range,
    per_image,
)

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


class Jitter(NamedTuple):
    """What `ColorJitter` draws: which of the four comes when, and how strong it is."""

    order: Int[Tensor, "n 4"]
    factors: Float[Tensor, "n 4"]


@dataclass(frozen=True)
class ColorJitter(Operation):
    """Colours changed by random factors, in random order.

    A number x stands for the range 1 - x to 1 + x (hue: -x to x), as in torchvision;
    a pair is the range itself. With one channel, brightness and contrast act.

    >>> from invariance.views import ColorJitter, Draws
    >>> jitter = ColorJitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1)
    >>> draws = Draws(seed=0, epoch=0, samples=torch.arange(4), view=0)
    >>> jitter.draw(draws, (4, 3, 8, 8)).order.shape
    torch.Size([4, 4])
    >>> jitter(torch.rand(4, 3, 8, 8), draws).shape
    torch.Size([4, 3, 8, 8])
    """

    brightness: Number | Range = 0.0
    contrast: Number | Range = 0.0
    saturation: Number | Range = 0.0
    hue: Number | Range = 0.0

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            low_high = _range(getattr(self, name), centre=1.0)
            check_range(f"ColorJitter: {name}", low_high, 0, float("inf"))
        check_range("ColorJitter: hue", _range(self.hue, centre=0.0), -0.5, 0.5)

    def draw(self, draws: Draws, shape: Shape) -> Jitter:
        """An order of the four, and a factor for each."""
        numbers = draws.uniform(4).unbind(1)
        ranges = [
            _range(self.brightness, centre=1.0),
            _range(self.contrast, centre=1.0),
            _range(self.saturation, centre=1.0),
            _range(self.hue, centre=0.0),
        ]
        factors = [between(u, r) for u, r in zip(numbers, ranges, strict=True)]
        return Jitter(draws.permutation(4), torch.stack(factors, 1))

    def apply(
        self, images: Float[Tensor, "n c h w"], parameters: Jitter
    ) -> Float[Tensor, "n c h w"]:
        """The four changes, each image in its order."""
        check_colour(images, "ColorJitter")
        order, factors = (p.to(images.device, non_blocking=True) for p in parameters)
        hue_at = (order == HUE).int().argmax(1, keepdim=True)
        step = torch.arange(3, device=order.device)
        kinds = order.gather(1, step + (step >= hue_at).long())  # the order without hue
        strengths = factors.gather(1, kinds)
        if images.shape[1] == 1 or _range(self.hue, centre=0.0) == (0, 0):
            return _blends(images, kinds, strengths)
        early = step < hue_at
        images = _blends(images, kinds, strengths.where(early, 1.0))
        images = turn_hue(images, factors[:, HUE])
        return _blends(images, kinds, strengths.where(~early, 1.0))


def _blends(
    images: Float[Tensor, "n c h w"],
    kinds: Int[Tensor, "n k"],
    strengths: Float[Tensor, "n k"],
) -> Float[Tensor, "n c h w"]:
    """Steps of x <- f x + (1 - f) t; an f of 1 changes nothing."""
    own = False  # the first step makes a copy, the others work in place
    for kind, f in zip(kinds.unbind(1), strengths.unbind(1), strict=True):
        grey, rest = luma(images), 1 - f
        level = grey.mean((1, 2, 3)) * rest * (kind == CONTRAST)
        target = grey * per_image(rest * (kind == SATURATION))
        target.add_(per_image(level))
        images = images.mul_(per_image(f)) if own else images * per_image(f)
        images.add_(target).clamp_(0, 1)
        own = True
    return images


def _range(setting: Number | Range, centre: Number) -> Range:
    if isinstance(setting, tuple):
        return setting
    low = max(0.0, centre - setting) if centre else -setting
    return low, centre + setting
