r"""Rotation, shift, scale and shear about the center of the image.

$$x_{\text{out}} = R(\text{angle})\, s\, H_y\, H_x\; x_{\text{in}} + t$$

with H the shears and t the shift in pixels; each output pixel looks up where it came
from. What lies outside the image is black. Meaning and signs are torchvision's:
`RandomAffine` turns clockwise on the screen, `RandomRotation` counter-clockwise.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import grid_sample

from ..errors import SettingError
from ._augment import (
    Images,
    Number,
    Operation,
    PerImage,
    Range,
    Shape,
    between,
    check_range,
    numbers,
)
from ._draws import Draws

Interpolation = Literal["nearest", "bilinear"]


class Motion(NamedTuple):
    """What `RandomAffine` draws: degrees, pixels (x, y), a factor, degrees (x, y)."""

    angle: PerImage
    translate: Float[Tensor, "n 2"]
    scale: PerImage
    shear: Float[Tensor, "n 2"]


@dataclass(frozen=True)
class RandomRotation(Operation):
    """A turn about the center by an angle from `degrees`; a number x is (-x, x).

    >>> from invariance.views import RandomRotation
    >>> corner = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).view(1, 1, 2, 2)
    >>> RandomRotation(90).apply(corner, torch.tensor([90.0])).flatten().tolist()
    [0.0, 0.0, 1.0, 0.0]
    """

    degrees: Number | Range
    interpolation: Interpolation = "nearest"

    def __post_init__(self) -> None:
        _check(both_ways(self.degrees), self.interpolation, "RandomRotation")

    def draw(self, draws: Draws, shape: Shape) -> PerImage:
        """An angle for each image, in degrees counter-clockwise."""
        return between(draws.uniform(1)[:, 0], both_ways(self.degrees))

    def apply(self, images: Images, parameters: PerImage) -> Images:
        """The images turned."""
        still = torch.zeros(len(images), 2, device=parameters.device)
        motion = Motion(-parameters, still, torch.ones_like(parameters), still)
        return move(images, motion, self.interpolation)


@dataclass(frozen=True)
class RandomAffine(Operation):
    """A random turn, shift (as a share of the size), scale and shear (in degrees).

    >>> from invariance.views import Draws, RandomAffine
    >>> affine = RandomAffine(10, translate=(0.1, 0.1), scale=(0.9, 1.1), shear=(5, 5))
    >>> draws = Draws(seed=0, epoch=0, samples=torch.arange(2), view=0)
    >>> affine(torch.rand(2, 3, 16, 16), draws).shape
    torch.Size([2, 3, 16, 16])
    """

    degrees: Number | Range = 0.0
    translate: Range = (0.0, 0.0)
    scale: Range = (1.0, 1.0)
    shear: Range = (0.0, 0.0)
    interpolation: Interpolation = "nearest"

    def __post_init__(self) -> None:
        _check(both_ways(self.degrees), self.interpolation, "RandomAffine")
        check_range("RandomAffine: scale", self.scale, 1e-6, float("inf"))
        if not all(0 <= share <= 1 for share in self.translate):
            raise SettingError(
                "RandomAffine: translate is the largest shift along x and y, each "
                f"from 0 to 1 times the size: got {self.translate}."
            )
        if not all(0 <= angle < 90 for angle in self.shear):
            raise SettingError(
                "RandomAffine: shear is the largest angle along x and y, each from 0 "
                f"to below 90 degrees: got {self.shear}."
            )

    def draw(self, draws: Draws, shape: Shape) -> Motion:
        """A motion for each image; shifts are whole pixels, as in torchvision."""
        u = draws.uniform(6)
        (x, y), (h, w) = self.translate, shape[-2:]
        return Motion(
            angle=between(u[:, 0], both_ways(self.degrees)),
            translate=((2 * u[:, 1:3] - 1) * numbers([x * w, y * h], u)).round(),
            scale=between(u[:, 3], self.scale),
            shear=(2 * u[:, 4:6] - 1) * numbers(self.shear, u),
        )

    def apply(self, images: Images, parameters: Motion) -> Images:
        """The images moved."""
        return move(images, parameters, self.interpolation)


def move(images: Images, motion: Motion, interpolation: Interpolation) -> Images:
    """Each image under its own motion, about its center."""
    motion = Motion(*(part.to(images.device, non_blocking=True) for part in motion))
    h, w = images.shape[-2:]
    angle, (shear_x, shear_y) = motion.angle.deg2rad(), motion.shear.deg2rad().unbind(1)
    cos, sin = angle.cos(), angle.sin()
    tan_x, tan_y = shear_x.tan(), shear_y.tan()
    # rotation times the two shears; its determinant is 1, so the inverse is a swap
    a, c = cos + sin * tan_y, sin - cos * tan_y
    b, d = -a * tan_x - sin, -c * tan_x + cos
    inverse = torch.stack([d, -b, -c, a], 1) / motion.scale[:, None]
    xx, xy, yx, yy = inverse[:, :, None, None].unbind(1)
    shift_x, shift_y = motion.translate[:, :, None, None].unbind(1)
    x = torch.arange(w, device=images.device) + (0.5 - w / 2) - shift_x
    y = (torch.arange(h, device=images.device) + (0.5 - h / 2))[:, None] - shift_y
    source = torch.stack([(xx * x + xy * y) * 2 / w, (yx * x + yy * y) * 2 / h], 3)
    source = source.to(images.dtype)
    return grid_sample(images, source, mode=interpolation, align_corners=False)


def both_ways(degrees: Number | Range) -> Range:
    """A range of angles; a number x is (-x, x)."""
    return degrees if isinstance(degrees, tuple) else (-degrees, degrees)


def _check(degrees: Range, interpolation: str, name: str) -> None:
    check_range(f"{name}: degrees", degrees, -float("inf"), float("inf"))
    if interpolation not in ("nearest", "bilinear"):
        raise SettingError(
            f"{name}: interpolation is 'nearest' or 'bilinear': got {interpolation!r}."
        )
