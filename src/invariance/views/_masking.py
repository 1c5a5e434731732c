"""Tokens hidden from a sentence, and the hidden tokens (the views paper, 5.1).

Of the tokens of a sentence a share, and one at least, is chosen. In the one view 80 %
of the chosen are replaced by the mask, 10 % by a token drawn evenly, and 10 % stay. The
other view has nothing but them, each in its place.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import SettingError
from ._augment import Number, Operation, Shape
from ._draws import Draws

MASKED, REPLACED = 0.8, 0.1  # of the chosen tokens; the others stay as they are


@dataclass(frozen=True)
class HideTokens(Operation):
    """A sentence with some of its tokens hidden; or, ``inverted``, those alone.

    Args:
        share: of a sentence's tokens that is chosen.
        mask: the token that stands for a hidden one.
        pad: the token that stands for nothing.
        special: tokens that are no part of a sentence, and never chosen.
        vocabulary: different tokens.
        inverted: the chosen tokens in their places, and padding everywhere else.

    >>> from invariance.views import Draws, HideTokens
    >>> tokens = torch.tensor([[1, 7, 8, 9, 2, 0]])
    >>> hide = HideTokens(share=0.34, mask=3, special=(0, 1, 2, 3), vocabulary=10)
    >>> draws = Draws(seed=0, epoch=0, samples=torch.tensor([0]), view=0)
    >>> (hide(tokens, draws) == 3).sum(), int((hide(tokens, draws) != tokens).sum())
    (tensor(1), 1)
    """

    images_only: ClassVar[bool] = False
    draws_on_device: ClassVar[bool] = True
    share: Number
    mask: int
    special: tuple[int, ...]
    vocabulary: int
    pad: int = 0
    inverted: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise SettingError(
                "masked_share is the share of a sentence's tokens that is hidden, "
                f"above 0 to 1: got {self.share}."
            )

    def draw(self, draws: Draws, shape: Shape) -> Float[Tensor, "n 3 length"]:
        """For each token: its turn, what becomes of it, and which one takes its place.

        The same in all views: what one hides the other shows.
        """
        numbers = replace(draws, view=0).uniform(3 * shape[1])
        return numbers.unflatten(1, (3, shape[1]))

    def apply(
        self, images: Int[Tensor, "n length"], parameters: Float[Tensor, "n 3 length"]
    ) -> Int[Tensor, "n length"]:
        """The sentences under these parameters."""
        tokens = images
        turn, fate, other = parameters.unbind(1)
        chosen = self.choose(tokens, turn)
        if self.inverted:
            return tokens.masked_fill(~chosen, self.pad)
        drawn = (other * (self.vocabulary - len(self.special))).long()
        for sign in sorted(self.special):  # ordinary tokens are all but these
            drawn = drawn + (drawn >= sign)
        hidden = tokens.masked_fill(fate < MASKED, self.mask)
        hidden = torch.where(fate >= 1 - REPLACED, drawn, hidden)
        return torch.where(chosen, hidden, tokens)

    def choose(
        self, tokens: Int[Tensor, "n length"], turn: Float[Tensor, "n length"]
    ) -> Bool[Tensor, "n length"]:
        """Which tokens are hidden: those whose turn is first."""
        ordinary = torch.ones_like(tokens, dtype=torch.bool)
        for sign in self.special:
            ordinary &= tokens != sign
        n_chosen = (ordinary.sum(1, keepdim=True) * self.share).round().clamp(min=1)
        order = turn.masked_fill(~ordinary, 2.0).argsort(1).argsort(1)
        return ordinary & (order < n_chosen)


def masked(kind: Any, *, masked_share: Number = 0.15) -> list[list[Callable[..., Any]]]:
    """Sentences with some tokens hidden, and those tokens: for masked_token.

    Settings:
        masked_share (above 0 to 1): Share of a sentence's tokens that is hidden, one
            at least.
    """
    how = {"mask": kind.mask, "pad": kind.pad, "special": kind.special}
    hide = partial(HideTokens, masked_share, vocabulary=kind.vocabulary, **how)
    return [[hide()], [hide(inverted=True)]]
