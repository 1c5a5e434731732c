r"""Rank correlation: whether pairs that people find alike are near each other.

$$\rho = \mathrm{corr}\big(\mathrm{rank}\cos(h_i, h'_i),\ \mathrm{rank}\,s_i\big)$$

Spearman's correlation of the cosines of pairs with their scores: only the order counts,
equal ones share a rank. 1 says that the nearer two samples of a pair are, the more
alike people find them; 0 that it says nothing. The interval is Fisher's, with the
spread that Bonett and Wright (2000) give for ranks.
"""

import math

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from ..errors import DataError, ShapeError
from ._score import Z95, Score

FEWEST = 5  # pairs, below which an interval says nothing


def can_rank(scores: Float[Tensor, " k"] | None) -> bool:
    """Whether there are enough scores, and different ones."""
    return scores is not None and len(scores) >= FEWEST and len(scores.unique()) > 1


def rank_correlation(
    first: Float[Tensor, "n e"],
    other: Float[Tensor, "m e"],
    scores: Float[Tensor, " k"],
) -> Score:
    """Spearman's correlation of the pairs' cosines with their scores.

    >>> import torch
    >>> angles = torch.linspace(0, 3, 8)
    >>> u = torch.stack([angles.cos(), angles.sin()], 1)
    >>> rank_correlation(u[:1].expand(8, 2), u, torch.arange(8.0)).value
    -1.0
    """
    if not len(first) == len(other) == len(scores):
        raise ShapeError(
            "Pairs need a row on each side and a score: got "
            f"{len(first)} and {len(other)} rows, and {len(scores)} scores."
        )
    if not can_rank(scores):
        raise DataError(
            f"A rank correlation needs {FEWEST} pairs at least, whose scores differ: "
            f"got {len(scores)} with {len(scores.unique())} different scores."
        )
    from scipy.stats import spearmanr  # half a second, and few runs have such pairs

    cosines = cosine_similarity(first.double(), other.double(), dim=1).cpu()
    # rounding, which differs between machines, is not to decide who comes first
    cosines, n, rho = cosines.round(decimals=9), len(scores), 0.0
    if len(cosines.unique()) > 1:  # else they say nothing
        rho = float(spearmanr(cosines, scores.cpu()).statistic)
    interval = None
    if abs(rho) < 1:
        half = Z95 * math.sqrt((1 + rho**2 / 2) / (n - 3))
        low, high = (math.tanh(math.atanh(rho) + end) for end in (-half, half))
        interval = low, high
    return Score("rank_correlation", rho, n, interval, metric="spearman")
