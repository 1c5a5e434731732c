r"""Accepted negatives (VINCE): proposals from the bank, kept with a probability.

Of K rows drawn uniformly (from p), anchor i keeps row j with probability $r_{ij}$, so
what is kept has the density $q = r p / \mathrm E_p r$. VINCE trains on what was kept as
it is (the views paper's eq. 4):

$$P_i = \log\sum_{j\text{ kept}} e^{s_{ij}}$$

If the kept negatives score at least as high as marginal ones (hard ones), the InfoNCE
value still bounds the mutual information from below; with easy ones it overshoots.

``weighted=True`` divides each term by its probability,
$P_i = \log\sum_{j\text{ kept}} e^{s_{ij}} / r_{ij}$: then $e^{P_i}$ is on average the
sum over all K proposals, whatever r. **The weights undo the choice**: the expected
gradient is that of K uniform draws, and keeping fewer only adds noise. It serves to
check the change of measure, not to train on hard negatives. Dividing by the sum of the
weights instead (self-normalized) would be 10 to 40 % too high on average with 40
proposals. Weights need every r above 0: a hard ball or ring has no weighted form.

Learned acceptance (VINCE+): a small network says which negatives are worth it.

$$r_{ij} = \epsilon + (1 - \epsilon)\,\sigma(a(u_i)\cdot b(M_j) + c)$$

Change of measure makes the weighted bound equal InfoNCE for every r, so its gradient in
r is zero: there is nothing to learn from the bound itself, and the paper's form, with
the product of all 1/r in front, drives r to 0. What the network learns here is to keep
hard negatives, $h_i$ = log-mean-exp of the kept logits, through the score function with
the other anchors' mean as baseline,

$$\nabla = \mathrm{mean}_i\,(h_i - \bar h_{-i})\,\nabla\sum_j \log
\mathrm{Bernoulli}(k_{ij};\,r_{ij})$$

while the encoder learns from what was kept.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..errors import SettingError
from ._ball import check_similarities
from ._bank import Bank
from ._drawn import Drawn, read_weighted_shares
from ._source import Anchors, Ids, PerScale, Scales

HIGHEST = 1 - 1e-4  # of a probability, so that both its logarithms are finite
NEAREST_SHARE = 0.25  # of the proposals, where no limits are given
ROUNDING = 8  # units of it between two scores that are meant to be one


class Nearest(nn.Module):
    """Keep the nearest ``share`` of the proposals, and of the others a few.

    >>> scores = torch.tensor([[0.9, 0.1, 0.5, 0.3]])
    >>> Nearest(share=0.5, floor=0.1)(scores, None, None)
    tensor([[1.0000, 0.1000, 1.0000, 0.1000]])
    """

    def __init__(
        self, share: float | int = NEAREST_SHARE, floor: float | int = 0.05
    ) -> None:
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
        # a row that was drawn twice has one score, but for rounding
        limit = limit - ROUNDING * torch.finfo(scores.dtype).eps
        kept = torch.full_like(scores, self.floor)
        return kept.masked_fill(scores.detach() >= limit, 1.0)

    def extra_repr(self) -> str:
        """What is kept for sure, and what now and then."""
        return f"share = {self.share:g}, floor = {self.floor:g}"


class Between(nn.Module):
    """Keep proposals between two similarities, and of the others a few.

    >>> scores = torch.tensor([[0.9, 0.1, 0.5, 0.3]])
    >>> Between(0.3, 0.8, floor=0.0)(scores, None, None)
    tensor([[0., 0., 1., 1.]])
    """

    def __init__(
        self,
        min_similarity: float | int | None = None,
        max_similarity: float | int | None = None,
        floor: float | int = 0.05,
    ) -> None:
        super().__init__()
        check_similarities(min_similarity, max_similarity)
        check_floor(floor)
        self.min_similarity = min_similarity
        self.max_similarity = max_similarity
        self.floor = floor

    def forward(
        self, scores: Float[Tensor, "n m"], u: Tensor | None, z: Tensor | None
    ) -> Float[Tensor, "n m"]:
        """Probability of keeping each proposal."""
        inside = torch.ones_like(scores, dtype=torch.bool)
        if self.min_similarity is not None:
            inside &= scores.detach() >= self.min_similarity
        if self.max_similarity is not None:
            inside &= scores.detach() <= self.max_similarity
        return torch.full_like(scores, self.floor).masked_fill(inside, 1.0)

    def extra_repr(self) -> str:
        """What is kept for sure, and what now and then."""
        low = -1 if self.min_similarity is None else self.min_similarity
        high = 1 if self.max_similarity is None else self.max_similarity
        return f"similarity {low:g} to {high:g}, floor = {self.floor:g}"


def check_floor(floor: float | int, *, positive: bool = False) -> None:
    """Raise unless it is a probability that proposals can be kept with at least."""
    if not 0 <= floor <= 1 or (positive and not floor):
        least = "above 0 (there are no weights 1/0)" if positive else "from 0"
        raise SettingError(
            f"floor is the least probability of keeping a proposal, {least} up to 1: "
            f"got {floor}."
        )


class Accepted(Drawn):
    """Rows of the bank that an acceptance function keeps.

    Args:
        bank: All rows.
        acceptance: Gives the probability of keeping each proposal from the scores, the
            anchors and the rows; None keeps the nearest quarter and a few others.
        n_proposals (1 or more): Rows drawn at each step, the same for every anchor.
        weighted: Divide each term by its probability. This undoes the choice: the
            expected gradient is that of uniform draws, with more noise.

    >>> Accepted(Bank(101, width=8), n_proposals=64)
    Accepted(
      64 proposals, weighted = False
      (bank): Bank(101 rows, width 8, momentum 0.5)
      (acceptance): Nearest(share = 0.25, floor = 0.05)
    )
    """

    row_by_row = False  # dice are thrown for the batch, and its mean is the baseline

    def __init__(
        self,
        bank: Bank,
        acceptance: nn.Module | None = None,
        *,
        n_proposals: int = 1024,
        weighted: bool = False,
    ) -> None:
        super().__init__(bank)
        if not n_proposals >= 1:
            raise SettingError(f"n_proposals must be at least 1: got {n_proposals}.")
        self.acceptance = Nearest() if acceptance is None else acceptance
        if weighted:
            floor: Any = getattr(self.acceptance, "floor", 1)
            check_floor(floor, positive=True)
        self.n_proposals = n_proposals
        self.weighted = weighted
        self.last: dict[str, Tensor] = {}
        self.lesson: Tensor | None = None

    @property
    def n_negatives(self) -> int:
        """All proposals, if they are all kept."""
        return self.n_proposals

    def draw(self) -> Int[Tensor, " k"]:
        """The proposals."""
        return self.bank.draw(self.n_proposals)

    def negative(self, u: Anchors, ids: Ids, *, scales: Scales) -> PerScale:
        """Log-partitions over what each anchor keeps; scale 0 adds up the weights."""
        z, scores, others = self.score(u, ids)
        known = scores.detach().masked_fill(~others, -torch.inf)
        probability = self.acceptance(known, u.detach(), z)
        thrown = self.throw(probability.detach()) & others
        kept = thrown | spare(probability.detach(), thrown, others)
        # one that is kept anyway has no weight: a sum of 0 is right now and then
        used = thrown if self.weighted else kept
        weights = log_weights(probability.detach(), used, weighted=self.weighted)
        self.last = {
            "acceptance": probability.detach().mean(),
            "weight_ess": read_weighted_shares(scores, weights, 0.0).nanmean(),
        }
        learn: Any = getattr(self.acceptance, "lesson", None)
        if learn is not None:
            logits = (scales[0] * scores).detach()
            self.lesson = learn(logits, probability, kept, thrown, others)
        return self.sum_weighted(scores, weights, scales)

    def throw(self, probability: Float[Tensor, "n m"]) -> Bool[Tensor, "n m"]:
        """Dice for every pair; the same after a resume."""
        return self.bank.throw_dice(*probability.shape) < probability

    def own_loss(self) -> Tensor | None:
        """Value 0, with the gradient of an acceptance function that learns."""
        lesson, self.lesson = self.lesson, None
        return None if lesson is None else lesson - lesson.detach()

    def readings(self) -> dict[str, Tensor]:
        """Probability of keeping, effective share of the weights, and the bank's."""
        return super().readings() | self.last

    def extra_repr(self) -> str:
        """How many are proposed, and whether weights undo the choice."""
        return f"{self.n_proposals:,} proposals, weighted = {self.weighted}"


def spare(
    probability: Float[Tensor, "n m"],
    thrown: Bool[Tensor, "n m"],
    others: Bool[Tensor, "n m"],
) -> Bool[Tensor, "n m"]:
    """For an anchor that would keep nothing: the likeliest it may keep, if any."""
    likeliest = probability.masked_fill(~others, -1.0).argmax(1, keepdim=True)
    nothing = ~thrown.any(1, keepdim=True)
    allowed = others & (probability > 0)
    return torch.zeros_like(thrown).scatter(1, likeliest, True) & nothing & allowed


def log_weights(
    probability: Float[Tensor, "n m"], used: Bool[Tensor, "n m"], *, weighted: bool
) -> Float[Tensor, "n m"]:
    """Log of 1/r, or of 1 without weights; -inf for what is not used.

    >>> r, used = torch.tensor([[1.0, 0.5, 0.5]]), torch.tensor([[True, True, False]])
    >>> log_weights(r, used, weighted=True).exp()
    tensor([[1., 2., 0.]])
    """
    inverse = -probability.log() if weighted else torch.zeros_like(probability)
    return inverse.masked_fill(~used, -torch.inf)


class AcceptanceNetwork(nn.Module):
    """Probability of keeping row z for anchor u, from ``floor`` to 1."""

    def __init__(self, width: int, *, rank: int = 16, floor: float | int = 0.05):
        super().__init__()
        if not rank >= 1:
            raise SettingError(f"rank must be at least 1: got {rank}.")
        check_floor(floor, positive=True)
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
        some = kept.any(1)  # whoever had nothing to choose from teaches nothing
        n_kept = kept.sum(1).clamp_min(1).to(logits)
        hardness = logits.masked_fill(~kept, -torch.inf).logsumexp(1) - n_kept.log()
        hardness = hardness.where(some, 0.0)
        others = (hardness.sum() - hardness) / (some.sum() - 1).clamp_min(1)
        gain = (hardness - others).where(some, 0.0)
        chance = torch.where(thrown, probability.log(), torch.log1p(-probability))
        chance = chance.masked_fill(~asked, 0.0)
        return -(gain.detach() * chance.mean(1)).mean()

    def extra_repr(self) -> str:
        """The least probability."""
        return f"floor = {self.floor:g}"


def accept_similar(
    bank: Bank,
    *,
    n_proposals: int = 1024,
    share: float | int | None = None,
    min_similarity: float | int | None = None,
    max_similarity: float | int | None = None,
    floor: float | int = 0.05,
    weighted: bool = False,
) -> Accepted:
    """Accepted negatives, kept by their similarity to the anchor.

    Settings:
        n_proposals (1 or more): Rows drawn at each step, the same for every anchor.
        share (0 to 1): Nearest part of the proposals that is kept; none: a quarter,
            unless there are limits.
        min_similarity (-1 to 1): Keep proposals of this cosine or more: hard ones.
        max_similarity (-1 to 1): Keep proposals of this cosine or less, without those
            that are likely of the anchor's class.
        floor (0 to 1): Probability of keeping any of the others.
        weighted: Divide each term by its probability. This undoes the choice: the
            expected gradient is that of uniform draws, with more noise.

    >>> accept_similar(Bank(100, width=8), min_similarity=0.2, floor=0.0).acceptance
    Between(similarity 0.2 to 1, floor = 0)
    """
    acceptance: nn.Module
    if min_similarity is None and max_similarity is None:
        acceptance = Nearest(NEAREST_SHARE if share is None else share, floor)
    elif share is None:
        acceptance = Between(min_similarity, max_similarity, floor)
    else:
        raise SettingError(
            f"share = {share} keeps proposals by rank, min_similarity and "
            "max_similarity by cosine: give one or the other."
        )
    return Accepted(bank, acceptance, n_proposals=n_proposals, weighted=weighted)


def accept_learned(
    bank: Bank,
    *,
    n_proposals: int = 1024,
    rank: int = 16,
    floor: float | int = 0.05,
    weighted: bool = False,
) -> Accepted:
    """Accepted negatives, kept by a network that learns which are hard.

    Settings:
        n_proposals (1 or more): Rows drawn at each step, the same for every anchor.
        rank (1 or more): Width of the network's two maps, of anchors and of rows.
        floor (above 0 to 1): Least probability of keeping a proposal.
        weighted: Divide each term by its probability. This undoes the choice: the
            expected gradient is that of uniform draws, with more noise.

    >>> accept_learned(Bank(101, width=8), n_proposals=64, rank=4).acceptance
    AcceptanceNetwork(
      floor = 0.05
      (anchor): Linear(in_features=8, out_features=4, bias=True)
      (row): Linear(in_features=8, out_features=4, bias=True)
    )
    """
    network = AcceptanceNetwork(bank.z.shape[1], rank=rank, floor=floor)
    return Accepted(bank, network, n_proposals=n_proposals, weighted=weighted)
