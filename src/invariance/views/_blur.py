r"""A Gaussian blur; each image has its own width.

$$w_t \propto e^{-t^2 / 2\sigma^2},\quad |t| \le k / 2$$

along rows and along columns, the border reflected. The kernel becomes a matrix whose
rows are shifted copies of w with the border folded in, so that blurring is the same two
matrix products as resizing.
"""

import contextlib
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError, ShapeError
from ..randomness import in_any_order
from ._augment import Images, Operation, PerImage, Range, Shape, between, check_range
from ._crop import multiply_sides
from ._draws import Draws


@dataclass(frozen=True)
class GaussianBlur(Operation):
    """Blur by a Gaussian whose standard deviation is drawn for each image.

    Without `kernel_size` the kernel covers a tenth of the shorter side, as in SimCLR:
    an odd number of pixels, at least 3. Parameters are the standard deviations.

    >>> from invariance.views import GaussianBlur
    >>> dot = torch.zeros(1, 1, 5, 5)
    >>> dot[0, 0, 2, 2] = 1
    >>> out = GaussianBlur(kernel_size=3).apply(dot, torch.tensor([1.0]))
    >>> [round(x, 3) for x in out[0, 0, 2].tolist()]
    [0.0, 0.124, 0.204, 0.124, 0.0]
    """

    sigma: Range = (0.1, 2.0)
    kernel_size: int | None = None

    def __post_init__(self) -> None:
        check_range("GaussianBlur: sigma", self.sigma, 0, float("inf"))
        if self.sigma[0] == 0:
            raise SettingError(f"GaussianBlur: sigma is above 0: got {self.sigma}.")
        if self.kernel_size is not None and (
            self.kernel_size < 1 or self.kernel_size % 2 == 0
        ):
            raise SettingError(
                f"GaussianBlur: kernel_size is odd and positive: got {self.kernel_size}"
                f". Try {max(1, self.kernel_size + 1)}."
            )

    def draw(self, draws: Draws, shape: Shape) -> PerImage:
        """A standard deviation for each image, in pixels."""
        return between(draws.uniform(1)[:, 0], self.sigma)

    def apply(self, images: Images, parameters: PerImage) -> Images:
        """The images blurred."""
        h, w = images.shape[-2:]
        half = (self.kernel_size or tenth(min(h, w))) // 2
        if half >= min(h, w):
            raise ShapeError(
                f"GaussianBlur with a kernel of {2 * half + 1} pixels needs images of "
                f"at least {half + 1} pixels to reflect their border: got {h} x {w}."
            )
        sigma = parameters.to(images.device, images.dtype, non_blocking=True)
        offset = torch.arange(-half, half + 1, device=sigma.device)
        kernel = torch.exp(-0.5 * (offset / sigma[:, None]) ** 2)
        kernel = kernel / kernel.sum(1, keepdim=True)
        rows = reflecting_matrix(kernel, h)
        columns = rows if h == w else reflecting_matrix(kernel, w)
        return multiply_sides(images, rows, columns)


def tenth(size: int) -> int:
    """An odd number of pixels, about a tenth of the size and at least 3.

    >>> [tenth(size) for size in (32, 96, 224)]
    [3, 9, 23]
    """
    return max(3, size // 10 // 2 * 2 + 1)


def reflecting_matrix(
    kernel: Float[Tensor, "n k"], size: int
) -> Float[Tensor, "n {size} {size}"]:
    """Row i holds the kernel around i; what falls over the border is folded back."""
    n, k = kernel.shape
    place = torch.arange(size, device=kernel.device)
    reached = (place[:, None] + torch.arange(k, device=kernel.device) - k // 2).abs()
    reached = (size - 1) - (size - 1 - reached).abs()
    flat = (reached + place[:, None] * size).flatten()
    matrix = kernel.new_zeros(n, size * size)
    # at most two numbers meet in one place, but for a kernel as wide as the image
    with in_any_order() if k // 2 < size - 1 else contextlib.nullcontext():
        matrix.scatter_add_(1, flat.expand(n, -1), kernel.repeat(1, size))
    return matrix.view(n, size, size)
