r"""A random box of the image, resized: the view that makes contrastive learning work.

Area is uniform in `scale` times the image's, the logarithm of width / height uniform in
that of `ratio`; ten tries, then the largest centered box within `ratio`. The box is
resized by the triangle filter

$$R_{pj} \propto \max\big(0,\; 1 - |j + \tfrac12 - x_p| / \max(s, 1)\big),\qquad
x_p = \text{start} + s\,(p + \tfrac12),\quad s = \text{length} / \text{size}$$

which is bilinear interpolation when enlarging and antialiased when shrinking, as
torchvision does with `antialias=True`. Two batched matrix products, $R_i X_{ic}
C_i^\top$, resize the whole batch whatever the boxes: no grid, no approximation.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError
from ._augment import Images, Operation, PerImage, Range, Shape, check_range, numbers
from ._draws import Draws

TRIES = 10


@dataclass(frozen=True)
class RandomResizedCrop(Operation):
    """A box of random area, shape and place, resized to `size`.

    Parameters are boxes, one row per image: top, left, height, width, in pixels.

    >>> from invariance.views import Draws, RandomResizedCrop
    >>> crop = RandomResizedCrop(32, scale=(0.08, 1.0))
    >>> draws = Draws(seed=0, epoch=0, samples=torch.arange(4), view=0)
    >>> crop.draw(draws, (4, 3, 48, 64)).shape
    torch.Size([4, 4])
    >>> crop(torch.rand(4, 3, 48, 64), draws).shape
    torch.Size([4, 3, 32, 32])
    """

    size: int | tuple[int, int]
    scale: Range = (0.08, 1.0)
    ratio: Range = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        height_width(self.size)
        check_range("RandomResizedCrop: scale", self.scale, 0, 1)
        check_range("RandomResizedCrop: ratio", self.ratio, 0, math.inf)
        if self.scale[1] == 0 or self.ratio[0] == 0:
            raise SettingError(
                "RandomResizedCrop: an area or a ratio of 0 leaves no box: got "
                f"scale={self.scale}, ratio={self.ratio}."
            )

    def draw(self, draws: Draws, shape: Shape) -> Int[Tensor, "n 4"]:
        """A box for each image: top, left, height, width."""
        h, w = shape[-2:]
        # float64, so that devices agree on how a side is rounded
        area, shift, place = (
            draws.uniform(2 * TRIES + 2).double().split([TRIES, TRIES, 2], 1)
        )
        area = (area * (self.scale[1] - self.scale[0]) + self.scale[0]) * (h * w)
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = (shift * (high - low) + low).exp()
        sides = torch.stack([area / ratio, area * ratio], 2).sqrt().round().long()
        limit = numbers([h, w], sides)
        fits = ((sides > 0) & (sides <= limit)).all(2)
        first = fits.int().argmax(1)  # the first try that fits
        tried = sides[torch.arange(len(sides), device=sides.device), first]
        offset = (place * (limit - tried + 1)).long()
        boxes = torch.cat([offset, tried], 1)
        fallback = numbers(centered_box(h, w, self.ratio), boxes)
        return torch.where(fits.any(1, keepdim=True), boxes, fallback)

    def apply(
        self, images: Images, parameters: Int[Tensor, "n 4"]
    ) -> Float[Tensor, "n c h2 w2"]:
        """The boxes, resized."""
        return resize_boxes(images, parameters, height_width(self.size))


@dataclass(frozen=True)
class Resize(Operation):
    """The largest centered box with the shape of `size`, resized: for evaluation.

    >>> from invariance.views import Draws, Resize
    >>> draws = Draws(seed=0, epoch=0, samples=torch.arange(2), view=0)
    >>> Resize(16)(torch.rand(2, 1, 32, 48), draws).shape
    torch.Size([2, 1, 16, 16])
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        height_width(self.size)

    def draw(self, draws: Draws, shape: Shape) -> Int[Tensor, "n 4"]:
        """The same box for every image: nothing is random here."""
        height, width = height_width(self.size)
        box = centered_box(shape[-2], shape[-1], (width / height, width / height))
        return numbers(box, draws.samples.long()).expand(shape[0], 4)

    def apply(
        self, images: Images, parameters: Int[Tensor, "n 4"]
    ) -> Float[Tensor, "n c h2 w2"]:
        """The box, resized; images that have the size already are handed back."""
        size = height_width(self.size)
        if images.shape[-2:] == size:
            return images
        return resize_boxes(images, parameters, size)


def centered_box(h: int, w: int, ratio: Range) -> tuple[int, int, int, int]:
    """The largest centered box whose width / height lies within `ratio`.

    >>> centered_box(100, 400, (0.75, 1.25))
    (0, 137, 100, 125)
    """
    height, width = h, w
    if w / h < ratio[0]:
        height = max(1, round(w / ratio[0]))
    elif w / h > ratio[1]:
        width = max(1, round(h * ratio[1]))
    return (h - height) // 2, (w - width) // 2, height, width


def resize_boxes(
    images: Images,
    boxes: Int[Tensor, "n 4"],
    size: tuple[int, int],
) -> Float[Tensor, "n c h2 w2"]:
    """Each image's own box (top, left, height, width) at one common size."""
    boxes = boxes.to(images.device, non_blocking=True)
    top, left, height, width = boxes.to(images.dtype).unbind(1)
    rows = triangle_weights(top, height, images.shape[2], size[0])
    columns = triangle_weights(left, width, images.shape[3], size[1])
    return multiply_sides(images, rows, columns)


def triangle_weights(
    start: PerImage, length: PerImage, n_in: int, n_out: int
) -> Float[Tensor, "n {n_out} {n_in}"]:
    """What each input pixel of the box gives to each output pixel; rows sum to 1."""
    start, length = start[:, None], length[:, None]
    pixel = torch.arange(n_in, device=start.device, dtype=start.dtype) + 0.5
    target = torch.arange(n_out, device=start.device, dtype=start.dtype) + 0.5
    step = length / n_out
    reach = step.clamp(min=1)
    outside = (pixel < start) | (pixel > start + length)
    # a pixel outside the box is infinitely far away, which saves a pass for masking
    pixel = (pixel / reach).masked_fill(outside, math.inf)
    center = (start + step * target) / reach
    weights = (pixel[:, None, :] - center[:, :, None]).abs_().neg_().add_(1)
    weights = weights.clamp_(min=0)
    return weights.div_(weights.sum(2, keepdim=True))


def multiply_sides(
    images: Images,
    rows: Float[Tensor, "n h2 h"],
    columns: Float[Tensor, "n w2 w"],
) -> Float[Tensor, "n c h2 w2"]:
    """Each image multiplied by its own matrices from both sides.

    Autocast is turned off: 16 bits would move a pixel by more than 1/255. Where a
    program allows TF32 products on its GPU, pixels are right to about 1/1000.
    """
    n, c, h, w = images.shape
    with torch.autocast(images.device.type, enabled=False):
        wide = torch.bmm(images.reshape(n, c * h, w), columns.mT)
        return torch.matmul(rows[:, None], wide.view(n, c, h, -1))


def height_width(size: int | tuple[int, int]) -> tuple[int, int]:
    """A size in pixels; one number is a square."""
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise SettingError(f"size is a number of pixels, at least 1: got {size}.")
    return height, width
