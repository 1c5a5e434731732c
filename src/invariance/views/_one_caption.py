"""One of a sample's captions, another in each epoch."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from ..errors import ShapeError
from ._augment import Operation, Shape
from ._draws import Draws


@dataclass(frozen=True)
class OneCaption(Operation):
    """One row of tokens of each sample's several, all equally likely.

    Rows come first; those that a sample does not have hold negative numbers only.

    >>> import torch
    >>> tokens = torch.tensor([[[1, 2], [3, 4], [-1, -1]]])
    >>> OneCaption().apply(tokens, torch.tensor([[0.6]]))
    tensor([[3, 4]])
    """

    images_only: ClassVar[bool] = False

    def draw(self, draws: Draws, shape: Shape) -> Float[Tensor, "n 1"]:
        """A number in [0, 1) per sample."""
        if len(shape) != 3:
            raise ShapeError(
                "OneCaption takes several captions of each sample, n k length: got "
                f"{tuple(shape)}."
            )
        return draws.uniform(1)

    def apply(
        self, images: Int[Tensor, "n k length"], parameters: Float[Tensor, "n 1"]
    ) -> Int[Tensor, "n length"]:
        """The caption that the number points to."""
        n_captions = (images[:, :, 0] >= 0).sum(1, keepdim=True)
        # a number below 1 times a whole one stays below it in float32, up to 2^24
        place = (parameters.to(images.device) * n_captions).long()
        index = place[:, :, None].expand(-1, 1, images.shape[2])
        return images.gather(1, index)[:, 0]
