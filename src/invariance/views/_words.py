"""Words left out of a sentence, each with a probability; what is left moves up."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ._augment import Number, Operation, Shape, check_probability
from ._draws import Draws


@dataclass(frozen=True)
class DropWords(Operation):
    """Tokens left out with probability p; the signs at the ends and padding stay.

    >>> from invariance.views import DropWords
    >>> drop = DropWords(0.5, pad=0, special=(0, 1, 2))
    >>> tokens = torch.tensor([[1, 7, 8, 9, 2, 0]])
    >>> drop.apply(tokens, torch.tensor([[True, False, True, False, False, False]]))
    tensor([[1, 7, 9, 2, 0, 0]])
    """

    images_only: ClassVar[bool] = False
    p: Number = 0.1
    pad: int = 0
    special: tuple[int, ...] = ()
    """Tokens that are no part of a sentence."""

    def __post_init__(self) -> None:
        check_probability("DropWords: p", self.p)

    def draw(self, draws: Draws, shape: Shape) -> Bool[Tensor, "n l"]:
        """Which places are left out, if a word is there."""
        return draws.uniform(shape[1]) < self.p

    def apply(
        self, images: Int[Tensor, "n l"], parameters: Bool[Tensor, "n l"]
    ) -> Int[Tensor, "n l"]:
        """The sentences without these words."""
        signs = torch.tensor(self.special, device=images.device)
        words = ~torch.isin(images, signs)
        dropped = words & parameters.to(images.device, non_blocking=True)
        order = dropped.long().argsort(dim=1, stable=True)  # those that stay come first
        kept = images.masked_fill(dropped, self.pad)
        return kept.gather(1, order)
