r"""Accepted negatives (VINCE): proposals from the bank, kept with a probability.

Of K rows drawn uniformly (from p), anchor i keeps row j with probability $r_{ij}$, so
what is kept has the density $q = r p / Z_r$ and the weight $p/q = Z_r / r_{ij}$. The
views paper drops $Z_r = \mathrm E_p\,r$, without which the weights are no ratio of
densities; here they are normalized over what was kept, which needs no $Z_r$:

$$P_i = \log\sum_{j\text{ kept}} \tilde w_{ij} e^{s_{ij}},\qquad
\tilde w_{ij} = \frac{n_i / r_{ij}}{\sum_{l\text{ kept}} 1/r_{il}},\qquad
n_i = \text{number kept}$$

``weighted=False`` leaves the weights out. If the kept negatives score at least as high
as marginal ones (hard ones), the InfoNCE value then still bounds the mutual information
from below; with easy ones it overshoots. Every r is at least ``floor``, since weights
of rows that can never be kept do not exist: a hard ball or ring has no weighted form.

Learned acceptance (VINCE+): a small network says which negatives are worth it.

$$r_{ij} = \epsilon + (1 - \epsilon)\,\sigma(a(u_i)\cdot b(M_j) + c)$$

Change of measure makes the weighted bound equal InfoNCE for every r, so its gradient in
r is zero: there is nothing to learn from the bound itself, and the paper's form, with
unnormalized weights 1/r, drives r to 0. What the network learns here is to keep hard
negatives, $h_i$ = log-mean-exp of the kept logits, through the score function with the
other anchors' mean as baseline,

$$\nabla = \mathrm{mean}_i\,(h_i - \bar h_{-i})\,\nabla\sum_j \log
\mathrm{Bernoulli}(k_{ij};\,r_{ij})$$

while the encoder's loss carries the normalized weights.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..errors import SettingError
from ._bank import Bank
from ._source import (
    Anchors,
    Candidates,
    Ids,
    NegativeSource,
    PerAnchor,
    PerScale,
    Scales,
)

HIGHEST = 1 - 1e-4  # of a probability, so that both its logarithms are finite


class Nearest(nn.Module):
    """Keep the nearest ``share`` of the proposals, and of the others a few.

    >>> scores = torch.tensor([[0.9, 0.1, 0.5, 0.3]])
    >>> Nearest(share=0.5, floor=0.1)(scores, None, None)
    tensor([[1.0000, 0.1000, 1.0000, 0.1000]])
    """

    def __init__(self, share: float | int = 0.25, floor: float | int = 0.05) -> None:
        super().__init__()
        if not 0 < share <= 1:
            raise SettingError(f"share lies between 0 and 1: got {share}.")
        check_floor(floor)
        self.share = share
        self.floor = floor

    def forward(
        self, scores: Float[Tensor, "n m"], u: Tensor | None, z: Tensor | None
    ) -> Float[Tensor, "n m"]:
        """Probability of keeping each proposal."""
        k = max(round(self.share * scores.shape[1]), 1)
        limit = scores.detach().topk(k, dim=1).values[:, -1:]
        kept = torch.full_like(scores, self.floor)
        return kept.masked_fill(scores.detach() >= limit, 1.0)


def check_floor(floor: float | int) -> None:
    """Raise unless every proposal can be kept."""
    if not 0 < floor <= 1:
        raise SettingError(
            "floor is the least probability of keeping a proposal, above 0 (a weight "
            f"1/0 does not exist) and up to 1: got {floor}."
        )


class Accepted(NegativeSource):
    """Rows of the bank that an acceptance function keeps, with their weights."""

    def __init__(
        self,
        bank: Bank,
        acceptance: nn.Module | None = None,
        *,
        n_proposals: int = 1024,
        weighted: bool = True,
    ) -> None:
        super().__init__(bank)
        if not n_proposals >= 1:
            raise SettingError(f"n_proposals must be at least 1: got {n_proposals}.")
        self.acceptance = Nearest() if acceptance is None else acceptance
        self.n_proposals = n_proposals
        self.weighted = weighted
        self.last: dict[str, Tensor] = {}
        self.lesson: Tensor | None = None

    @property
    def n_negatives(self) -> int:
        """All proposals, if they are all kept."""
        return self.n_proposals

    def candidates(self, u: Anchors, ids: Ids) -> Candidates:
        """The proposals, the same for every anchor."""
        self.bank.check(u, ids)
        drawn = self.bank.draw(self.n_proposals)
        return Candidates(self.bank.z[drawn], drawn)

    def negative(self, u: Anchors, ids: Ids, *, scales: Scales) -> PerScale:
        """Weighted log-partitions over what each anchor keeps."""
        proposals = self.candidates(u, ids)
        scores = u @ proposals.z.to(u).T
        own = ids[:, None] == proposals.ids
        others = scores.detach().masked_fill(own, -torch.inf)
        probability = self.acceptance(others, u.detach(), proposals.z.to(u))
        thrown = self.throw(probability.detach()) & ~own
        kept = thrown | spare(probability.detach(), thrown, own)
        weights = log_weights(probability.detach(), kept, weighted=self.weighted)
        self.last = {
            "acceptance": probability.detach().mean(),
            "weight_ess": effective_share(weights, kept).mean(),
        }
        learn: Any = getattr(self.acceptance, "lesson", None)
        if learn is not None:
            logits = (scales[0] * scores).detach()
            self.lesson = learn(logits, probability, kept, thrown, ~own)
        return torch.stack([(a * scores + weights).logsumexp(1) for a in scales])

    def throw(self, probability: Float[Tensor, "n m"]) -> Bool[Tensor, "n m"]:
        """Dice for every pair; the same after a resume."""
        dice = torch.rand(probability.shape, generator=self.bank.dice())
        return dice.to(probability) < probability

    def own_loss(self) -> Tensor | None:
        """Value 0, with the gradient of an acceptance function that learns."""
        lesson, self.lesson = self.lesson, None
        return None if lesson is None else lesson - lesson.detach()

    def readings(self) -> dict[str, Tensor]:
        """Mean probability of keeping, and effective share of the weights."""
        return self.last


def spare(
    probability: Float[Tensor, "n m"],
    thrown: Bool[Tensor, "n m"],
    own: Bool[Tensor, "n m"],
) -> Bool[Tensor, "n m"]:
    """For an anchor that would keep nothing: its likeliest proposal."""
    likeliest = probability.masked_fill(own, -1.0).argmax(1, keepdim=True)
    nothing = ~thrown.any(1, keepdim=True)
    return torch.zeros_like(thrown).scatter(1, likeliest, True) & nothing & ~own


def log_weights(
    probability: Float[Tensor, "n m"], kept: Bool[Tensor, "n m"], *, weighted: bool
) -> Float[Tensor, "n m"]:
    """Log of the normalized weights, mean 1 over what is kept, -inf for the rest.

    >>> log_weights(torch.tensor([[1.0, 0.5, 0.5]]), torch.ones(1, 3) > 0,
    ...             weighted=True).exp()
    tensor([[0.6000, 1.2000, 1.2000]])
    """
    inverse = -probability.log() if weighted else torch.zeros_like(probability)
    inverse = inverse.masked_fill(~kept, -torch.inf)
    n_kept = kept.sum(1, keepdim=True).clamp_min(1)
    total = inverse.logsumexp(1, keepdim=True)
    total = total.masked_fill(total == -torch.inf, 0.0)  # an anchor left with nothing
    return inverse - total + n_kept.to(probability).log()


def effective_share(
    weights: Float[Tensor, "n m"], kept: Bool[Tensor, "n m"]
) -> PerAnchor:
    """Effective number of weights over their number, from log-weights."""
    effective = (2 * weights.logsumexp(1) - (2 * weights).logsumexp(1)).exp()
    return effective / kept.sum(1).clamp_min(1)


class AcceptanceNetwork(nn.Module):
    """Probability of keeping row z for anchor u, from ``floor`` to 1."""

    def __init__(self, width: int, *, rank: int = 16, floor: float | int = 0.05):
        super().__init__()
        check_floor(floor)
        self.anchor = nn.Linear(width, rank)
        self.row = nn.Linear(width, rank)
        self.bias = nn.Parameter(torch.zeros(()))
        self.floor = floor

    def forward(
        self, scores: Float[Tensor, "n m"], u: Anchors, z: Float[Tensor, "m d"]
    ) -> Float[Tensor, "n m"]:
        """Probabilities of all pairs."""
        u, z = u.to(self.bias), z.to(self.bias)  # float64 anchors, a float32 network
        logit = self.anchor(u) @ self.row(z).T + self.bias
        return self.floor + (HIGHEST - self.floor) * torch.sigmoid(logit.to(scores))

    def lesson(
        self,
        logits: Float[Tensor, "n m"],
        probability: Float[Tensor, "n m"],
        kept: Bool[Tensor, "n m"],
        thrown: Bool[Tensor, "n m"],
        asked: Bool[Tensor, "n m"],
    ) -> Float[Tensor, ""]:
        """A loss whose gradient is the score function's, divided by the proposals.

        Args:
            logits: Of all pairs.
            probability: Of keeping them.
            kept: What was kept in the end.
            thrown: What the dice said; an anchor left with nothing keeps one anyway.
            asked: Pairs whose dice count: not an anchor with itself.
        """
        n_kept = kept.sum(1).clamp_min(1).to(logits)
        hardness = logits.masked_fill(~kept, -torch.inf).logsumexp(1) - n_kept.log()
        others = (hardness.sum() - hardness) / max(len(hardness) - 1, 1)
        chance = torch.where(thrown, probability.log(), torch.log1p(-probability))
        chance = chance.masked_fill(~asked, 0.0)
        return -((hardness - others).detach() * chance.mean(1)).mean()


def learned(
    bank: Bank,
    *,
    n_proposals: int = 1024,
    rank: int = 16,
    floor: float | int = 0.05,
    weighted: bool = True,
) -> Accepted:
    """Accepted negatives, kept by a network that learns which are hard."""
    network = AcceptanceNetwork(bank.z.shape[1], rank=rank, floor=floor)
    return Accepted(bank, network, n_proposals=n_proposals, weighted=weighted)
