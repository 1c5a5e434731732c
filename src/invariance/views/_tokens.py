"""Views of sentences: words left out, tokens hidden, one caption of several.

Tokens are hidden as in the views paper (5.1). Of the tokens of a sentence a share, and
one at least, is chosen. In the one view 80 % of the chosen are replaced by the mask,
10 % by a token drawn evenly, and 10 % stay. The other view has nothing but them, each
in its place.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import SettingError, ShapeError
from ._augment import Number, Operation, Shape, check_probability
from ._draws import Draws

MASKED, REPLACED = 0.8, 0.1  # of the chosen tokens; the others stay as they are


@dataclass(frozen=True)
class DropWords(Operation):
    """Tokens left out with probability p; what is left moves up.

    The signs at the ends and padding stay.

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
