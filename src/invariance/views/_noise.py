r"""Noise added to every pixel: $x \leftarrow [\,x + \sigma\,\varepsilon\,]_0^1$."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ._draws import Draws
from ._operation import (
    Number,
    Operation,
    Range,
    Shape,
    between,
    check_range,
    per_image,
)


@dataclass(frozen=True)
class GaussianNoise(Operation):
    """Normal noise with a standard deviation drawn from `sigma`, then clamped.

    Parameters are the noise itself, already multiplied by its standard deviation.

    >>> import torch
    >>> from invariance.views import Draws, GaussianNoise
    >>> draws = Draws(seed=0, epoch=0, samples=torch.arange(2), view=0)
    >>> grey = torch.full((2, 3, 16, 16), 0.5)
    >>> spread = GaussianNoise(sigma=0.1)(grey, draws).std()
    >>> 0.09 < float(spread) < 0.11
    True
    """

    sigma: Number | Range = 0.1
    clip: bool = True

    def __post_init__(self) -> None:
        check_range("GaussianNoise: sigma", self._range(), 0, float("inf"))

    def draw(self, draws: Draws, shape: Shape) -> Float[Tensor, "n c h w"]:
        """The noise of each image."""
        sigma = between(draws.uniform(1)[:, 0], self._range())
        return draws.image_noise(shape[1:]) * per_image(sigma)

    def apply(
        self,
        images: Float[Tensor, "n c h w"],
        parameters: Float[Tensor, "n c h w"],
    ) -> Float[Tensor, "n c h w"]:
        """The images with the noise on them."""
        noisy = images + parameters.to(images.device, non_blocking=True)
        return noisy.clamp_(0, 1) if self.clip else noisy

    def __call__(
        self, images: Float[Tensor, "n c h w"], draws: Draws
    ) -> Float[Tensor, "n c h w"]:
        """Draw on the images' device: noise is as large as they are; then apply."""
        return self.apply(images, self.draw(draws.to(images.device), images.shape))

    def _range(self) -> Range:
        return self.sigma if isinstance(self.sigma, tuple) else (self.sigma, self.sigma)
