r"""The vocabulary (the views paper, 5.1): every other token is a negative.

$$L = -g\cdot E_w + \log\sum_{w'\in V} e^{g\cdot E_{w'}}$$

g is what a sentence says of the place of a hidden token w, and E a table with a row per
token, which learns as well. Over all tokens this is a masked language model's cross-
entropy: VINCE with negatives drawn evenly from the vocabulary instead of as often as
they occur. Fewer may be drawn, or only the nearest taken (the paper's ball).
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..randomness import draw_words, shift
from ._ball import limits
from ._source import Anchors, Candidates, Ids, NegativeSource, Number, PerAnchor


class Vocabulary(NegativeSource):
    """Tokens by their rows in a table; ids are tokens.

    It holds no rows of its own: ``take`` hands it the table before it is asked.

    Settings:
        n_draws (1 or more): Tokens drawn anew at each step as negatives; none: all.
        k (1 or more): Instead, only the tokens that score highest; none: all.

    >>> vocabulary = Vocabulary(300)
    >>> vocabulary.take(torch.randn(300, 8))
    >>> vocabulary.positive(torch.zeros(2, 8), None, torch.tensor([4, 7]), scale=1.0)
    tensor([0., 0.])
    """

    n_drawn: Tensor
    """How often tokens were drawn: with the seed, what the next draw will be."""

    def __init__(
        self,
        n_tokens: int,
        *,
        n_draws: int | None = None,
        k: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name, value in (("n_draws", n_draws), ("k", k)):
            if value is not None and not 1 <= value < n_tokens:
                raise SettingError(
                    f"A vocabulary of {n_tokens:,} tokens has {n_tokens - 1:,} "
                    f"negatives to choose from: got {name} = {value}."
                )
        if n_draws is not None and k is not None:
            raise SettingError(
                "n_draws takes tokens by chance and k the nearest ones: give one of "
                "them."
            )
        self.n_tokens, self.n_draws, self.k, self.seed = n_tokens, n_draws, k, seed
        self.register_buffer("n_drawn", torch.tensor(0))
        self.tables: list[Tensor] = []  # a list, or it would be a parameter of ours

    @property
    def plain(self) -> bool:  # type: ignore[override]
        """Whether negatives are taken whatever their score."""
        return self.k is None

    @property
    def n_negatives(self) -> int:
        """All others, or as many as are chosen."""
        return self.n_draws or self.k or self.n_tokens - 1

    def take(self, table: Float[Tensor, "m d"] | None) -> None:
        """The table for the next step, which gets its gradient; None lets go of it."""
        self.tables = [] if table is None else [table]

    def rows(self) -> Float[Tensor, "m d"]:
        """The table."""
        if not self.tables:
            raise SettingError("A vocabulary needs its table: take(table) comes first.")
        return self.tables[0]

    def candidates(self, u: Anchors, ids: Ids) -> Candidates:
        """All tokens, the ones drawn, or those above the k-th score."""
        z = self.rows()
        if self.n_draws is not None:
            self.n_drawn += 1
            words = draw_words(self.seed, self.n_drawn, self.n_draws)
            drawn = (shift(words, 33) * self.n_tokens) >> 31
            return Candidates(z[drawn], drawn)
        everyone = torch.arange(self.n_tokens, device=u.device)
        if self.k is None:
            return Candidates(z, everyone)
        (low,) = limits(u.detach(), z.detach(), ids, [self.k])
        return Candidates(z, everyone, low=low)

    def positive(
        self, u: Anchors, v: Anchors | None, ids: Ids, *, scale: Number
    ) -> PerAnchor:
        """Logits of the tokens that are there; v is not asked for."""
        return scale * (u * self.rows()[ids]).sum(1)

    def readings(self) -> dict[str, Any]:
        """None: it remembers nothing."""
        return {}

    def extra_repr(self) -> str:
        """How many tokens are negatives."""
        chosen = f"{self.n_draws:,} drawn of " if self.n_draws else ""
        chosen = f"the nearest {self.k:,} of " if self.k else chosen
        return f"{chosen}{self.n_tokens:,} tokens"
