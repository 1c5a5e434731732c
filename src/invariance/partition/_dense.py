"""Sums over pairs as their equations say them: the reference for other backends.

Holds the whole n x m matrix. Autograd differentiates it, twice if asked.

``FUNCTIONS`` are what objectives sum beside exponentials, with their slopes. Kernels
are functions of the squared distance D^2 = -2 score. For unit rows D^2 is 2 - 2 x.y, so
an offset of 1 is taken off the score; for others the rows are extended so that their
score is -D^2/2 already.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ._tiles import Pairs

# The square of a distance under which two rows count as the same point: a kernel with
# a cusp there has no gradient, so it is given none.
SAME_POINT = 1e-12

Function = Callable[[Tensor, float], Tensor]


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x), and in float64 that of large x, too.

    PyTorch's own is x itself from 20 on. That is as much as float32 can tell; float64
    would still see the difference, e^-x, up to 37.

    >>> softplus(torch.tensor(21.0, dtype=torch.float64)).item() > 21
    True
    """
    return functional.softplus(x, threshold=40.0 if x.dtype == torch.float64 else 20.0)


def _squared_distance(score: Tensor) -> Tensor:
    return (-2 * score).clamp_min(SAME_POINT)


def _slope_in_score(score: Tensor, slope_in_square: Tensor) -> Tensor:
    return torch.where(-2 * score > SAME_POINT, -2 * slope_in_square, 0.0)


def log_kernel(score: Tensor, t: float) -> Tensor:
    """-(1/2) log(1 + t D^2)."""
    return -0.5 * torch.log1p(t * _squared_distance(score))


def log_slope(score: Tensor, t: float) -> Tensor:
    square = _squared_distance(score)
    return _slope_in_score(score, -0.5 * t / (1 + t * square))


def imq_kernel(score: Tensor, c: float) -> Tensor:
    """C / sqrt(c^2 + D^2), the inverse multiquadric."""
    return c * (c**2 + _squared_distance(score)).rsqrt()


def imq_slope(score: Tensor, c: float) -> Tensor:
    square = _squared_distance(score)
    return _slope_in_score(score, -0.5 * c * (c**2 + square) ** -1.5)


def riesz_kernel(score: Tensor, s: float) -> Tensor:
    """sign(s) D^(-s)."""
    sign = 1.0 if s > 0 else -1.0
    return sign * _squared_distance(score) ** (-s / 2)


def riesz_slope(score: Tensor, s: float) -> Tensor:
    sign = 1.0 if s > 0 else -1.0
    square = _squared_distance(score)
    return _slope_in_score(score, sign * (-s / 2) * square ** (-s / 2 - 1))


# name -> the function and its derivative, both of (score, parameter)
FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "softplus": (lambda score, _: softplus(score), lambda score, _: score.sigmoid()),
    "log": (log_kernel, log_slope),
    "imq": (imq_kernel, imq_slope),
    "riesz": (riesz_kernel, riesz_slope),
}


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
