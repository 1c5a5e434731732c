r"""Neighbors (Local Aggregation): clusters are positives, the ball around them is not.

$$L_i = -\log\frac{\sum_{j\in C_i\cap B_i} e^{s_j}}{\sum_{j\in B_i} e^{s_j}}$$

B_i is the anchor's own row and the k rows of the bank nearest to it; C_i is its own row
and every row that shares a cluster with it in any of several k-means clusterings (the
paper speaks of nearest neighbors, its code clusters). In terms of this package: the
positive is the log-partition over the close set, the negatives are the rest of the
ball, and InfoNCE of the two is the loss above; any other softmax objective works too.

During ``warmup``, a share of training, there are no clusters yet and it is Instance
Discrimination. Then the bank is clustered before each epoch. The value is no bound of
the mutual information: it lies above the ball's.
"""

from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import SettingError
from ..partition import effective_share
from ._ball import NEAREST_ROWS, count_rows, limits, score_some
from ._bank import Bank
from ._clustered import Clustered, cluster_bank
from ._source import (
    Anchors,
    Candidates,
    Ids,
    Number,
    PerAnchor,
    PerScale,
    Scales,
    sum_over,
    without_graph,
)

ROWS_PER_CLUSTER = 20
ROUNDING = 1000  # rounding errors; a smaller rest of a subtraction is noise


class Neighbors(Clustered):
    """Close set and background of Local Aggregation, both from one bank.

    Settings:
        k (1 or more): Nearest rows that make the background.
        share (0 to 1): k as a part of the bank.
        n_clusters (2 or more): Of a clustering; none: one for every 20 rows.
        n_clusterings (1 or more): Clusterings; rows that share a cluster in any of them
            are close.
        warmup (0 to 1): Share of training before the first clustering.

    >>> near = Neighbors(Bank(101, width=8), k=50, n_clusters=4)
    >>> near.refresh(0.5)  # before each epoch: at half of training, cluster anew
    >>> near
    Neighbors(
      k = 50 of 100 rows, 3 clusterings of 4
      (bank): Bank(101 rows, width 8, momentum 0.5)
    )
    """

    labels: Tensor

    def __init__(
        self,
        bank: Bank,
        *,
        k: int | None = None,
        share: float | int | None = None,
        n_clusters: int | None = None,
        n_clusterings: int = 3,
        warmup: float | int = 0.05,
    ) -> None:
        super().__init__(bank, n_clusters, ROWS_PER_CLUSTER, warmup)
        self.k = count_rows(bank, k=k, share=share, default=NEAREST_ROWS)
        if n_clusterings < 1:
            raise SettingError(
                "Neighbors need one clustering or more: got n_clusterings = "
                f"{n_clusterings}."
            )
        shape = (n_clusterings, len(bank))
        self.register_buffer("labels", torch.zeros(shape, dtype=torch.long))

    def extra_repr(self) -> str:
        """How many rows the background has, and how they are clustered."""
        clusters = f"{len(self.labels)} clusterings of {self.n_clusters:,}"
        rows = f"k = {self.k:,} of {len(self.bank) - 1:,} rows"
        return f"{rows}, {clusters}{self.tell_warmup()}"

    def cluster(self) -> None:
        """Cluster the bank as often as asked."""
        for labels in self.labels:
            labels.copy_(cluster_bank(self.bank, self.n_clusters).labels)

    @property
    def n_negatives(self) -> int:
        """The ball, if none of it is close; without clusters the whole bank."""
        return self.k if self.clustered else self.bank.n_negatives

    @property
    def why_not_captured(self) -> str:
        """A CUDA graph needs fixed sizes, and clusters differ in theirs."""
        return "the number of close rows differs from batch to batch"

    def candidates(self, u: Anchors, ids: Ids) -> Candidates:
        """The background: the ball with the close set in it."""
        if not self.clustered:
            return self.bank.candidates(u, ids)
        self.bank.check(u, ids)
        (low,) = limits(u.detach(), self.bank.z, ids, [self.k])
        return Candidates(self.bank.z, self.bank.ids, low=low)

    def logits(
        self, u: Anchors, v: Anchors | None, ids: Ids, *, scale: Number, scales: Scales
    ) -> tuple[PerAnchor, PerScale]:
        """The close set's log-partition, and that of the rest of the ball."""
        if not self.clustered:
            return super().logits(u, v, ids, scale=scale, scales=scales)
        ball = self.candidates(u, ids)
        assert ball.low is not None
        background = sum_over(ball, u, ids, scales=scales)
        anchor, row = self.close_pairs(ids)
        score = (u[anchor] * ball.z[row]).sum(1)
        inside = score.detach() >= ball.low[anchor]
        anchor, row, score = anchor[inside], row[inside], score[inside]
        positive = self.bank.positive(u, v, ids, scale=scale)
        close = segment_logsumexp(scale * score, anchor, len(u))
        rest = [
            log_difference(whole, segment_logsumexp(a * score, anchor, len(u)))
            for whole, a in zip(background, scales, strict=True)
        ]
        pairs = u.detach(), ids, anchor, row, without_graph(scales[0])
        self.shares = partial(shares_of_rest, ball, *pairs)
        return torch.logaddexp(positive, close), torch.stack(rest)

    def close_pairs(self, ids: Ids) -> tuple[Int[Tensor, " p"], Int[Tensor, " p"]]:
        """(anchor, row) for every other row that shares a cluster with an anchor."""
        n = self.labels.shape[1]
        pairs_of = []
        for labels in self.labels:
            order = labels.argsort(stable=True)
            sizes = torch.bincount(labels, minlength=self.n_clusters)
            starts = sizes.cumsum(0) - sizes
            cluster = labels[ids]
            anchor = torch.arange(len(ids), device=ids.device)
            anchor = anchor.repeat_interleave(sizes[cluster])
            before = sizes[cluster].cumsum(0) - sizes[cluster]
            place = torch.arange(len(anchor), device=ids.device) - before[anchor]
            pairs_of.append(anchor * n + order[starts[cluster][anchor] + place])
        pairs = torch.cat(pairs_of).unique()
        anchor, row = pairs // n, pairs % n
        others = row != ids[anchor]
        return anchor[others], row[others]


def segment_logsumexp(
    x: Float[Tensor, " p"], segment: Int[Tensor, " p"], n: int
) -> PerAnchor:
    """Log-sum-exp of the numbers of each segment; -inf for one without any.

    >>> segment_logsumexp(torch.zeros(3), torch.tensor([0, 0, 2]), 3)
    tensor([0.6931,   -inf, 0.0000])
    """
    top = x.new_full((n,), -torch.inf).scatter_reduce(0, segment, x.detach(), "amax")
    empty: Bool[Tensor, " n"] = top == -torch.inf
    top = top.masked_fill(empty, 0.0)
    sums = x.new_zeros(n).index_add(0, segment, (x - top[segment]).exp())
    # log never sees an empty sum, so that no gradient is 0 times infinity
    return (top + sums.masked_fill(empty, 1.0).log()).masked_fill(empty, -torch.inf)


@torch.no_grad()
def shares_of_rest(
    ball: Candidates,
    u: Anchors,
    ids: Ids,
    anchor: Int[Tensor, " p"],
    row: Int[Tensor, " p"],
    scale: Number,
) -> PerAnchor:
    """Effective share of the ball's rows without the close pairs (anchor, row).

    Not by ``log_difference``: at twice the scale the close rows are nearly everything,
    and what subtracting leaves is rounding.
    """
    assert ball.low is not None
    parts = []
    for some, scores in score_some(u, ball.z):
        out = (scores < ball.low[some, None]).scatter_(1, ids[some, None], True)
        here = (anchor >= some.start) & (anchor < some.stop)
        out[anchor[here] - some.start, row[here]] = True
        single, double = (
            (a * scores).masked_fill_(out, -torch.inf).logsumexp(1)
            for a in (scale, 2 * scale)
        )
        count = (~out).sum(1).to(scores).log()
        parts.append(effective_share(single, double, count))
    return torch.cat(parts)


def log_difference(a: Float[Tensor, " n"], b: Float[Tensor, " n"]) -> PerAnchor:
    """log(e^a - e^b) for b below a; -inf where next to nothing is left.

    >>> log_difference(torch.tensor([5.0, 2.0]).log(), torch.tensor([2.0, 2.0]).log())
    tensor([1.0986,   -inf])
    """
    gap = b - a
    left = gap < -ROUNDING * torch.finfo(a.dtype).eps
    rest = torch.log1p(-gap.where(left, -1.0).exp())
    return (a.where(left, 0.0) + rest).masked_fill(~left, -torch.inf)
