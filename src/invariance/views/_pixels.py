r"""Every pixel shifted and scaled.

Noise: $x \leftarrow [\,x + \sigma s\,\varepsilon\,]_0^1$, with s = 1 for images.
Uniform noise: $x \leftarrow x + \eta s\,u$ with u even in [0, 1); images are clamped.
Normalize: $x \leftarrow (x - \text{mean}) / \text{std}$ for each channel.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError, ShapeError
from ._augment import (
    Images,
    Number,
    Operation,
    Range,
    Shape,
    between,
    check_range,
    numbers,
)
from ._draws import Draws


class Noise(Operation):
    """Numbers added to every value of a sample; parameters are these numbers.

    `clip` clamps to [0, 1], where pixels end. For samples other than images, `spread`
    says how far each entry of their first axis spreads: noise is measured by that.
    """

    images_only: ClassVar[bool] = False
    draws_on_device: ClassVar[bool] = True
    clip: bool
    spread: tuple[Number, ...]

    def scale(self, noise: Float[Tensor, "n ..."]) -> Float[Tensor, "n ..."]:
        """Noise of spread 1 at the spread of the samples."""
        if not self.spread:
            return noise
        return noise * numbers(self.spread, noise).view(-1, *[1] * (noise.ndim - 2))

    def apply(
        self, images: Float[Tensor, "n ..."], parameters: Float[Tensor, "n ..."]
    ) -> Float[Tensor, "n ..."]:
        """The samples with the noise on them."""
        noisy = images + parameters.to(images.device, non_blocking=True)
        return noisy.clamp_(0, 1) if self.clip else noisy


@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Normal noise with a standard deviation drawn from `sigma`.

    >>> import torch
    >>> from invariance.views import Draws, GaussianNoise
    >>> draws = Draws(seed=0, epoch=0, samples=torch.arange(2), view=0)
    >>> gray = torch.full((2, 3, 16, 16), 0.5)
    >>> spread = GaussianNoise(sigma=0.1)(gray, draws).std()
    >>> 0.09 < float(spread) < 0.11
    True
    """

    sigma: Number | Range = 0.1
    clip: bool = True
    spread: tuple[Number, ...] = ()

    def __post_init__(self) -> None:
        check_range("GaussianNoise: sigma", self._range(), 0, float("inf"))

    def draw(self, draws: Draws, shape: Shape) -> Float[Tensor, "n ..."]:
        """The noise of each sample."""
        sigma = between(draws.uniform(1)[:, 0], self._range())
        noise = self.scale(draws.image_noise(shape[1:]))
        return noise * sigma.view(-1, *[1] * (len(shape) - 1))

    def _range(self) -> Range:
        return self.sigma if isinstance(self.sigma, tuple) else (self.sigma, self.sigma)


@dataclass(frozen=True)
class UniformNoise(Noise):
    """Even noise from 0 to `width`.

    >>> import torch
    >>> from invariance.views import Draws, UniformNoise
    >>> draws = Draws(seed=0, epoch=0, samples=torch.arange(100), view=0)
    >>> noisy = UniformNoise(0.5, spread=(1.0, 4.0))(torch.zeros(100, 2), draws)
    >>> bool(noisy.min() >= 0), [round(x, 1) for x in noisy.amax(0).tolist()]
    (True, [0.5, 2.0])
    """

    width: Number = 0.4
    spread: tuple[Number, ...] = ()
    clip: bool = False

    def __post_init__(self) -> None:
        if self.width < 0:
            raise SettingError(f"UniformNoise: width is 0 or more: got {self.width}.")

    def draw(self, draws: Draws, shape: Shape) -> Float[Tensor, "n ..."]:
        """The noise of each sample."""
        noise = draws.uniform(math.prod(shape[1:])).reshape(
            len(draws.samples), *shape[1:]
        )
        return self.scale(noise) * self.width


@dataclass(frozen=True)
class Normalize(Operation):
    """The same mean and standard deviation for every image, one number per channel.

    >>> import torch
    >>> from invariance.views import Normalize
    >>> half = torch.full((1, 3, 1, 1), 0.75)
    >>> Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)).apply(half).flatten().tolist()
    [1.0, 1.0, 1.0]
    """

    mean: tuple[Number, ...]
    std: tuple[Number, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(s > 0 for s in self.std):
            raise SettingError(
                "Normalize needs a mean and a std above 0 for each channel: got "
                f"mean={self.mean}, std={self.std}."
            )

    def draw(self, draws: Draws, shape: Shape) -> None:
        """Nothing is random here."""

    def apply(self, images: Images, parameters: None = None) -> Images:
        """The images normalized."""
        if images.shape[1] != len(self.mean):
            raise ShapeError(
                f"Normalize has {len(self.mean)} channels, the images have "
                f"{images.shape[1]}: give mean and std one number for each channel."
            )
        scale = numbers([1 / s for s in self.std], images)
        shift = numbers(
            [-m / s for m, s in zip(self.mean, self.std, strict=True)], images
        )
        return (images * scale.view(-1, 1, 1)).add_(shift.view(-1, 1, 1))
