r"""Brightness, contrast, saturation and hue, each image in its own order.

The first three are one formula with different targets t, clamped to [0, 1] each time:

$$x \leftarrow f\,x + (1 - f)\,t,\qquad
t = 0,\ \ \text{the image's mean luma},\ \ \text{each pixel's luma}$$

so a batch in which every image has another order still takes one pass per step: each
image reads its factor from its own row. The hue costs most and is computed once, for
all images together: each image takes the blends that come before it in its own order
first, and the others afterwards.

Turning the hue keeps lightness and saturation. With $M, m$ the largest and smallest
channel, $C = M - m$ and the hue $H \in [0, 6)$,

$$R = m + C\,[\,|H - 3| - 1\,]_0^1,\quad G = m + C\,[\,2 - |H - 2|\,]_0^1,\quad
B = m + C\,[\,2 - |H - 4|\,]_0^1$$

gives the channels back, and $H$ becomes $(H + 6\,\text{shift}) \bmod 6$: the HSV hue
of torchvision and Pillow, without a case for each sixth of the circle.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ._augment import (
    Images,
    Number,
    Operation,
    PerImage,
    Range,
    Shape,
    between,
    check_color,
    check_range,
    per_image,
)
from ._coin_flips import luma
from ._draws import Draws

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


class Jitter(NamedTuple):
    """What `ColorJitter` draws: which of the four comes when, and how strong it is."""

    order: Int[Tensor, "n 4"]
    factors: Float[Tensor, "n 4"]


@dataclass(frozen=True)
class ColorJitter(Operation):
    """Colors changed by random factors, in random order.

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
        *blends, hue = self.ranges()
        names = ("brightness", "contrast", "saturation")
        for name, low_high in zip(names, blends, strict=True):
            check_range(f"ColorJitter: {name}", low_high, 0, float("inf"))
        check_range("ColorJitter: hue", hue, -0.5, 0.5)

    def draw(self, draws: Draws, shape: Shape) -> Jitter:
        """An order of the four, and a factor for each."""
        uniform = draws.uniform(4).unbind(1)
        factors = [between(u, r) for u, r in zip(uniform, self.ranges(), strict=True)]
        return Jitter(draws.permutation(4), torch.stack(factors, 1))

    def apply(self, images: Images, parameters: Jitter) -> Images:
        """The four changes, each image in its order."""
        check_color(images, "ColorJitter")
        order, factors = (p.to(images.device, non_blocking=True) for p in parameters)
        hue_at = (order == HUE).int().argmax(1, keepdim=True)
        step = torch.arange(3, device=order.device)
        kinds = order.gather(1, step + (step >= hue_at).long())  # the order without hue
        strengths = factors.gather(1, kinds)
        if images.shape[1] == 1 or self.ranges()[HUE] == (0, 0):
            return _blends(images, kinds, strengths)
        early = step < hue_at
        images = _blends(images, kinds, strengths.where(early, 1.0))
        images = turn_hue(images, factors[:, HUE])
        return _blends(images, kinds, strengths.where(~early, 1.0))

    def ranges(self) -> list[Range]:
        """Of brightness, contrast, saturation and hue."""
        blends = (self.brightness, self.contrast, self.saturation)
        return [*(_range(x, center=1.0) for x in blends), _range(self.hue, center=0.0)]


def _blends(
    images: Images,
    kinds: Int[Tensor, "n k"],
    strengths: Float[Tensor, "n k"],
) -> Images:
    """Steps of x <- f x + (1 - f) t; an f of 1 changes nothing."""
    is_copy = False  # the first step makes a copy, the others work in place
    for kind, f in zip(kinds.unbind(1), strengths.unbind(1), strict=True):
        gray, rest = luma(images), 1 - f
        level = gray.mean((1, 2, 3)) * rest * (kind == CONTRAST)
        target = gray * per_image(rest * (kind == SATURATION))
        target.add_(per_image(level))
        images = images.mul_(per_image(f)) if is_copy else images * per_image(f)
        images.add_(target).clamp_(0, 1)
        is_copy = True
    return images


def turn_hue(
    images: Float[Tensor, "n 3 h w"], shift: PerImage
) -> Float[Tensor, "n 3 h w"]:
    """Each image's colors moved by its share of a whole turn, from -0.5 to 0.5."""
    red, green, blue = images.unbind(1)
    low, high = images.amin(1), images.amax(1)  # far faster than aminmax on a CPU
    chroma = high - low
    # hue times chroma, counted from green, blue or red, whichever is largest; on a CPU
    # lerp with a sign of 0 or 1 is several times faster than a comparison and a where
    from_green = torch.add(blue - red, chroma, alpha=2)
    from_blue = torch.add(red - green, chroma, alpha=4)
    hue = torch.lerp(from_green, from_blue, (high - green).sign_())
    hue = torch.lerp(green - blue, hue, (high - red).sign_())
    hue.div_(chroma.clamp(min=1e-12))  # a gray pixel is 0 / 1e-12: it stays gray
    # a whole turn is added to keep it positive, so that its fraction is the remainder
    hue.mul_(1 / 6).add_((shift + 1).view(-1, 1, 1)).frac_().mul_(6)
    share = torch.stack([hue - 3, hue - 2, hue - 4], 1).abs_()
    share[:, 0].sub_(1)
    share[:, 1:].neg_().add_(2)
    return share.clamp_(0, 1).mul_(chroma[:, None]).add_(low[:, None])


def _range(setting: Number | Range, center: Number) -> Range:
    if isinstance(setting, tuple):
        return setting
    low = max(0.0, center - setting) if center else -setting
    return low, center + setting
