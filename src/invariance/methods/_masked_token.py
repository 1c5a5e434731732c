"""Masked tokens: a sentence must say which of all tokens it was that is hidden.

The views paper (5.1) reads a masked language model as a contrast of two views: the
sentence without some of its tokens, and these tokens. One encoder is the text tower,
read where a token is hidden; the other is the tower's own table of tokens (its output
layer is tied to it); the negatives are the other tokens of the vocabulary.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..checked_rows import score_chunks
from ..encoders import Encoder, Head
from ..errors import SettingError, ShapeError
from ..negatives import Vocabulary
from ..objectives import Objective, Terms
from ..partition import share_rows
from ._learner import Learner, Maybe, View
from ._learner_step import Step, make_step
from ._remembering import read_all


class MaskedToken(Learner):
    """Views are the sentences, and padding but for the tokens hidden from them."""

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        objective: Objective,
        vocabulary: Vocabulary,
    ) -> None:
        super().__init__(encoder, head, objective)
        self.negatives = vocabulary

    @property
    def tower(self) -> Any:
        """The text tower inside the encoder."""
        return require_tower(self.encoder)

    def learn(self, views: list[View], labels: Maybe, ids: Maybe) -> Step:
        """Every hidden token among all tokens."""
        if len(views) != 2:
            raise ShapeError(
                "masked_token takes two views, the sentences and the tokens hidden "
                f"from them: got {len(views)}. Use the views 'masked'."
            )
        tokens, tower, source = views[1][:], self.tower, self.negatives
        hidden = tokens != tower.pad
        (states,) = self.encode(Places(self.encoder, self.head), views[:1])
        u, target = states[hidden], tokens[hidden]
        self.share = share_rows(u)  # rows are hidden tokens, not sentences
        self.tell_objective(self.share)
        source.take(tower.table.weight)
        source.contrast = None
        loss = self.objective.against(u, None, source, target)
        table = tower.table.weight.detach()
        return make_step(
            [Terms({"loss": loss})],
            u,
            table[target],
            # tokens are found among all, however few they are compared with
            {"accuracy_chance": u.new_full((), 1 / len(table))},
            shares={"ess": [self._of_all(source.shares)]},
            contrasts=[self._of_all(source.contrast)] if source.contrast else (),
            hits=self._of_all(partial(find_tokens, u.detach(), table, target)),
        )

    def _of_all(self, read: Callable[[], Any] | None) -> Callable[[], Any]:
        """A reading of own rows, made one of all processes' rows."""
        assert read is not None
        return partial(read_all, read, self.share)

    @property
    def compares_views(self) -> bool:
        """No: places of a sentence are compared with tokens."""
        return False

    def chance(self, n: int, n_views: int = 2) -> float:
        """Any of the tokens that it is compared with, or the one that it was."""
        return math.log(1 + self.negatives.n_negatives)

    def after_step(self, progress: float | Tensor = 0.0) -> None:
        """Let go of the table that was asked in this step."""
        self.negatives.take(None)

    @property
    def why_not_captured(self) -> str:
        """Batches differ in their number of rows."""
        return "as many tokens are hidden as sentences are long"


class Places(nn.Module):
    """What encoder and head say of every place of a sentence."""

    def __init__(self, encoder: Encoder, head: Head) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, tokens: Int[Tensor, "n length"]) -> Float[Tensor, "n length d"]:
        """A row per token."""
        states = require_tower(self.encoder).states(tokens)
        return self.head(states.flatten(0, 1)).unflatten(0, states.shape[:2])


def require_tower(encoder: Encoder) -> Any:
    """The text tower of an encoder, or a sentence about what is needed."""
    tower: Any = encoder.network
    if not (hasattr(tower, "states") and hasattr(tower, "table")):
        raise SettingError(
            "masked_token hides tokens of sentences, and needs a text tower, such as "
            f"text_tiny: got {encoder.name}."
        )
    return tower


@torch.no_grad()
def find_tokens(
    u: Float[Tensor, "m d"], table: Float[Tensor, "v d"], tokens: Int[Tensor, " m"]
) -> Float[Tensor, " m"]:
    """1 for each row whose token scores highest of all."""
    rows = u.to(table.dtype)
    best = [scores.argmax(1) for _, scores in score_chunks(rows, table)]
    return (torch.cat([*best, tokens[:0]]) == tokens).float()
