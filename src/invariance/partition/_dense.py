"""Sums over pairs as their equations say them: the reference for other backends.

Holds the whole n x m matrix. Autograd differentiates it, twice if asked.
"""

import torch
from torch import Tensor

from ._functions import FUNCTIONS
from ._tiles import Pairs


def log_partitions(pairs: Pairs, scales: Tensor) -> Tensor:
    """Row log-partitions, one line per scale: (k, n)."""
    scores = pairs.x @ pairs.y.T
    logits = scales[:, None, None] * scores
    excluded = _equal_ids(pairs, scores)
    if pairs.low is not None:
        excluded = excluded | (scores < pairs.low[:, None])
    if pairs.high is not None:
        excluded = excluded | (scores > pairs.high[:, None])
    logits = logits.masked_fill(excluded, -torch.inf)
    # A row with nothing left: its value is -inf, and the gradient of a constant is 0,
    # while that of a log-sum-exp over -inf alone would be NaN.
    empty = excluded.all(1)
    safe = logits.masked_fill(empty[:, None], 0.0)
    return safe.logsumexp(2).masked_fill(empty, -torch.inf)


def row_sums(pairs: Pairs, function: str, parameter: float, offset: float) -> Tensor:
    """Each row's sum of a function of its scores."""
    scores = pairs.x @ pairs.y.T - offset
    excluded = _equal_ids(pairs, scores)
    # left out first: a function with a cusp has no finite slope at a row itself
    value, _ = FUNCTIONS[function]
    terms = value(scores.masked_fill(excluded, -1.0), parameter)
    return terms.masked_fill(excluded, 0.0).sum(1)


def _equal_ids(pairs: Pairs, scores: Tensor) -> Tensor:
    """Pairs of one sample."""
    excluded = torch.zeros_like(scores, dtype=torch.bool)
    if pairs.row_ids is not None and pairs.column_ids is not None:
        excluded = excluded | (pairs.row_ids[:, None] == pairs.column_ids)
    return excluded
