r"""All other rows of a bank, their partition estimated from few draws.

$$\log \hat Z_i,\qquad Z_i = \sum_{j\ne i} e^{s_{ij}}$$

Drawn rows that stand for themselves alone (a bank's ``n_draws``) make another loss, a
softmax over fewer. Here they stand for the N - 1 other rows of the bank, and both
estimates of Z are unbiased:

- stratified: the rows, in the order of their clusters, are cut into K cells of equal
  size, and one is drawn from each, weight N/K. No region is missed by chance, and the
  variance is never above that of K plain draws.
- control variate: the mean over K plain draws of $e^{s} - c\,(h - \mathrm E h)$ with
  $h = 1 + s + s^2/2$. E h follows from the bank's first two moments, which are kept
  up to date; c is the best for these draws. The gradient of h is corrected by that of
  E h, so for a given c the gradient of Z is unbiased, too; c itself is not
  differentiated, and is chosen on the same draws, which biases by O(1/K).

The logarithm of an unbiased estimate is too low on average, as any sampled softmax is.
A control variate can make an estimate small or negative, whose logarithm says nothing:
below a tenth of the plain mean, that anchor takes the plain mean.

What they gain, as the relative error of Z from 256 draws out of 4,000 rows in 20 groups
(32 dimensions): 1.4 % plain, 0.7 % stratified and 0.03 % with the control variate at
temperature 1; 11, 6 and 3 % at 0.2; 30, 21 and 18 % at 0.1, where e^s is far from a
quadratic and c costs 2 % of bias.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import SettingError
from ..partition import gather_rows
from ._bank import Bank
from ._clustered import cluster_bank, count_clusters
from ._drawn import Drawn
from ._source import Anchors, Ids, PerAnchor, PerScale, Scales

ROWS_PER_CLUSTER = 100
LEAST = 0.1  # of the plain mean, below which a corrected one is not used


class Estimated(Drawn):
    """What both have in common: a bank, and draws that stand for all of it."""

    def __init__(self, bank: Bank, n_draws: int) -> None:
        super().__init__(bank)
        if not 1 <= n_draws <= len(bank):
            raise SettingError(
                f"n_draws lies between 1 and the {len(bank):,} rows of the bank: got "
                f"{n_draws}."
            )
        self.n_draws = n_draws

    @property
    def n_negatives(self) -> int:
        """All other rows, since the draws stand for them."""
        return len(self.bank) - 1


class Stratified(Estimated):
    """One draw from each of K cells of rows that lie near each other.

    Settings:
        n_draws (1 or more): Rows drawn at each step, as many as there are cells.
        n_clusters (2 or more): Clusters that order the rows, found anew before each
            epoch; none: one for every 100 rows.

    >>> Stratified(Bank(101, width=8), n_draws=16)
    Stratified(
      16 draws for 100 rows, in the order of 2 clusters
      (bank): Bank(101 rows, width 8, momentum 0.5)
    )
    """

    order: Tensor

    def __init__(
        self, bank: Bank, *, n_draws: int = 1024, n_clusters: int | None = None
    ) -> None:
        super().__init__(bank, n_draws)
        self.n_clusters = count_clusters(len(bank), n_clusters, ROWS_PER_CLUSTER)
        self.register_buffer("order", torch.arange(len(bank)))

    def refresh(self, progress: float | int) -> None:
        """Cluster the bank anew."""
        labels = cluster_bank(self.bank, self.n_clusters).labels
        self.order.copy_(labels.argsort(stable=True))

    def draw(self) -> Int[Tensor, " k"]:
        """A row number from each cell; every row is as likely to be drawn."""
        k, n = self.n_draws, len(self.bank)
        dice = self.bank.throw_dice(1, k)[0].double()
        place = torch.arange(k, device=dice.device) + dice
        return self.order[(place * (n / k)).long().clamp_max(n - 1)]

    def negative(self, u: Anchors, ids: Ids, *, scales: Scales) -> PerScale:
        """Estimated log-partitions over all other rows; scale 0 counts them."""
        _, scores, others = self.score(u, ids)
        each = math.log(len(self.bank) / self.n_draws)
        weights = torch.full_like(scores, each).masked_fill_(~others, -torch.inf)
        return self.sum_weighted(scores, weights, scales)

    def extra_repr(self) -> str:
        """How many stand for how many."""
        rows = f"{self.n_draws:,} draws for {len(self.bank) - 1:,} rows"
        return f"{rows}, in the order of {self.n_clusters:,} clusters"


class ControlVariate(Estimated):
    """Plain draws, corrected by what a quadratic is known to average.

    Settings:
        n_draws (1 or more): Rows drawn at each step.

    >>> ControlVariate(Bank(101, width=8), n_draws=16)
    ControlVariate(
      16 draws for 100 rows
      (bank): Bank(101 rows, width 8, momentum 0.5)
    )
    """

    total: Tensor
    second: Tensor

    def __init__(self, bank: Bank, *, n_draws: int = 1024) -> None:
        super().__init__(bank, n_draws)
        self.register_buffer("total", bank.z.sum(0))
        self.register_buffer("second", bank.z.T @ bank.z)

    def draw(self) -> Int[Tensor, " k"]:
        """Row numbers, each as likely as any other."""
        return self.bank.draw(self.n_draws)

    def negative(self, u: Anchors, ids: Ids, *, scales: Scales) -> PerScale:
        """Estimated log-partitions over all other rows; scale 0 counts them."""
        _, scores, others = self.score(u, ids)
        weights = torch.zeros_like(scores).masked_fill_(~others, -torch.inf)
        self.keep_for_shares(scores, weights, scales)
        mine = (u * self.bank.z[ids].to(u)).sum(1)
        n = len(self.bank) - 1
        first = (u @ self.total.to(u) - mine) / n
        second = (((u @ self.second.to(u)) * u).sum(1) - mine.square()) / n
        each = [estimate(a * scores, others, a * first, a**2 * second) for a in scales]
        return torch.stack(each) + math.log(n)

    @torch.no_grad()
    def remember(self, z: Anchors, ids: Ids) -> None:
        """Let the bank remember, and its moments follow."""
        changed = (gather_rows(ids) if self.bank.gather else ids).unique()
        changed = changed.to(self.bank.ids)
        before = self.bank.z[changed]
        super().remember(z, ids)
        after = self.bank.z[changed]
        self.total += (after - before).sum(0)
        self.second += after.T @ after - before.T @ before

    def refresh(self, progress: float | int) -> None:
        """Add the moments up anew, before roundings add up instead."""
        self.total.copy_(self.bank.z.sum(0))
        self.second.copy_(self.bank.z.T @ self.bank.z)

    @property
    def why_not_captured(self) -> str:
        """A CUDA graph needs fixed sizes."""
        return "the number of rows that its moments follow differs from step to step"

    def extra_repr(self) -> str:
        """How many stand for how many."""
        return f"{self.n_draws:,} draws for {len(self.bank) - 1:,} rows"


def estimate(
    s: Float[Tensor, "n k"],
    others: Bool[Tensor, "n k"],
    first: Float[Tensor, " n"],
    second: Float[Tensor, " n"],
) -> PerAnchor:
    """Log of the corrected mean of e^s over the draws that count; -inf of none.

    Args:
        s: Logits of the draws.
        others: Which of them count.
        first: Mean of s over all that might be drawn.
        second: Mean of its square.
    """
    n_others = others.sum(1).to(s)
    alone = n_others == 0
    count = n_others.masked_fill(alone, 1.0)
    top = s.detach().masked_fill(~others, -torch.inf).amax(1).masked_fill(alone, 0.0)

    def mean(x: Float[Tensor, "n k"]) -> PerAnchor:
        return x.masked_fill(~others, 0.0).sum(1) / count

    # what is left out may lie far above the others, and must not overflow
    terms = (s - top[:, None]).masked_fill(~others, 0.0).exp()
    known = 1 + s + s.square() / 2
    plain, gap = mean(terms), mean(known) - (1 + first + second / 2)
    with torch.no_grad():
        away = known - mean(known)[:, None]
        spread = mean(away.square())
        c = mean(terms * away) / spread.masked_fill(spread <= 0, 1.0)
    corrected = plain - c * gap
    trusted = corrected.detach() > LEAST * plain.detach()
    value = torch.where(trusted, corrected, plain).masked_fill(alone, 1.0)
    return (value.log() + top).masked_fill(alone, -torch.inf)
