r"""Learned acceptance (VINCE+): a small network says which negatives are worth it.

$$r_{ij} = \epsilon + (1 - \epsilon)\,\sigma(a(u_i)\cdot b(M_j) + c)$$

Change of measure makes the weighted bound equal InfoNCE for every r, so its gradient in
r is zero: there is nothing to learn from the bound itself, and the paper's form, with
unnormalised weights 1/r, drives r to 0. What the network learns here is to keep hard
negatives, $h_i$ = log-mean-exp of the kept logits, through the score function with the
other anchors' mean as baseline,

$$\nabla = \mathrm{mean}_i\,(h_i - \bar h_{-i})\,\nabla\sum_j \log
\mathrm{Bernoulli}(k_{ij};\,r_{ij})$$

while the encoder's loss carries the normalised weights.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ._accepted import Accepted, check_floor
from ._bank import Bank

HIGHEST = 1 - 1e-4  # of a probability, so that both its logarithms are finite


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
        self,
        scores: Float[Tensor, "n m"],
        u: Float[Tensor, "n d"],
        z: Float[Tensor, "m d"],
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
