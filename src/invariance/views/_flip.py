"""A mirror image, left for right."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from ._draws import Draws
from ._operation import Number, Operation, Shape, check_probability
from ._sometimes import on_picked


@dataclass(frozen=True)
class RandomHorizontalFlip(Operation):
    """Left and right exchanged with probability p.

    >>> import torch
    >>> from invariance.views import RandomHorizontalFlip
    >>> row = torch.tensor([0.0, 0.5, 1.0]).view(1, 1, 1, 3)
    >>> RandomHorizontalFlip().apply(row, torch.tensor([True])).flatten().tolist()
    [1.0, 0.5, 0.0]
    """

    p: Number = 0.5

    def __post_init__(self) -> None:
        check_probability("RandomHorizontalFlip: p", self.p)

    def draw(self, draws: Draws, shape: Shape) -> Bool[Tensor, " n"]:
        """Which images are flipped."""
        return draws.coin(self.p)

    def apply(
        self, images: Float[Tensor, "n c h w"], parameters: Bool[Tensor, " n"]
    ) -> Float[Tensor, "n c h w"]:
        """Those images flipped."""
        return on_picked(images, parameters, lambda some, rows: some.flip(3))
