r"""Rows drawn from a bank at each step, the same for every anchor, each with a weight.

$$P_i = \log\sum_{j\text{ drawn}} w_{ij}\,e^{s_{ij}}$$
"""

from abc import abstractmethod
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..partition import effective_share
from ._source import (
    Anchors,
    Candidates,
    Ids,
    NegativeSource,
    Number,
    PerAnchor,
    PerScale,
    Scales,
    without_graph,
)


class Drawn(NegativeSource):
    """A source whose negatives are a few rows of its bank, drawn anew at each step."""

    @abstractmethod
    def draw(self) -> Int[Tensor, " k"]:
        """The rows' numbers."""

    def candidates(self, u: Anchors, ids: Ids) -> Candidates:
        """The rows drawn, the same for every anchor."""
        self.bank.check(u, ids)
        drawn = self.draw()
        return Candidates(self.bank.z[drawn], drawn)

    def score(
        self, u: Anchors, ids: Ids
    ) -> tuple[Float[Tensor, "k d"], Float[Tensor, "n k"], Bool[Tensor, "n k"]]:
        """The rows drawn, the anchors' scores, and which are of other samples."""
        drawn = self.candidates(u, ids)
        z = drawn.z.to(u)
        return z, u @ z.T, ids[:, None] != drawn.ids

    def sum_weighted(
        self,
        scores: Float[Tensor, "n m"],
        weights: Float[Tensor, "n m"],
        scales: Scales,
    ) -> PerScale:
        """Log-sums of the exponentials; ``weights`` are logarithms, -inf leaves out."""
        self.keep_for_shares(scores, weights, scales)
        return torch.stack([sum_kept(a * scores + weights) for a in scales])

    def keep_for_shares(
        self,
        scores: Float[Tensor, "n m"],
        weights: Float[Tensor, "n m"],
        scales: Scales,
    ) -> None:
        """Let ``shares`` be of these draws."""
        scale = without_graph(scales[0])
        self.shares = partial(read_weighted_shares, scores.detach(), weights, scale)


def sum_kept(logits: Float[Tensor, "n m"]) -> PerAnchor:
    """Log-sum-exp of each row; -inf, without a gradient, for one that is all -inf."""
    alone = (logits == -torch.inf).all(1)
    total = logits.masked_fill(alone[:, None], 0.0).logsumexp(1)
    return total.masked_fill(alone, -torch.inf)


@torch.no_grad()
def read_weighted_shares(
    scores: Float[Tensor, "n m"], weights: Float[Tensor, "n m"], scale: Number
) -> PerAnchor:
    """Effective share of what was kept; weights are in the sum and in its squares."""
    terms = scale * scores + weights
    count = (weights > -torch.inf).sum(1).to(scores).log()
    return effective_share(terms.logsumexp(1), (2 * terms).logsumexp(1), count)
