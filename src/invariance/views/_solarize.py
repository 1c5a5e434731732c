r"""Bright pixels inverted: $x \leftarrow 1 - x$ where $x \ge$ threshold."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..errors import SettingError
from ._draws import Draws
from ._operation import Number, Operation, Shape, check_probability
from ._sometimes import on_picked


@dataclass(frozen=True)
class RandomSolarize(Operation):
    """Pixels from `threshold` up are inverted, with probability p an image.

    >>> from invariance.views import RandomSolarize
    >>> row = torch.tensor([0.25, 0.5, 1.0]).view(1, 1, 1, 3)
    >>> RandomSolarize(0.5).apply(row, torch.tensor([True])).flatten().tolist()
    [0.25, 0.5, 0.0]
    """

    threshold: Number = 0.5
    p: Number = 0.5

    def __post_init__(self) -> None:
        check_probability("RandomSolarize: p", self.p)
        if not 0 <= self.threshold <= 1:
            raise SettingError(
                "RandomSolarize: threshold is a pixel value, from 0 to 1: got "
                f"{self.threshold}."
            )

    def draw(self, draws: Draws, shape: Shape) -> Bool[Tensor, " n"]:
        """Which images are solarised."""
        return draws.coin(self.p)

    def apply(
        self, images: Float[Tensor, "n c h w"], parameters: Bool[Tensor, " n"]
    ) -> Float[Tensor, "n c h w"]:
        """Those images solarised."""

        def invert(some: Tensor, rows: object) -> Tensor:
            return torch.where(some >= self.threshold, 1 - some, some)

        return on_picked(images, parameters, invert)
