r"""Information column by column, where the columns of one side are independent.

$$I(X;Y) \ge \sum_k I(X_k;Y) \ge \sum_k I(X_k;Y_{\pi(k)})\quad
\text{if } X_1,\dots,X_d \text{ are independent}$$

Single columns are what nearest neighbours estimate best, so for variables made of
independent blocks this sum is nearly exact where joint neighbours are far too low.
"""

import math

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from ._histogram import bins, plug_in
from ._ksg import ksg

BINS = 8
MOST_COLUMNS = 30
CLEAR = 3.0  # standard errors that make a dependence, or a share worth counting


def by_columns(x: Tensor, y: Tensor) -> tuple[float, float] | None:
    """The sum over the best pairing of columns, with its standard error.

    None where neither side has (pairwise) independent columns, or there are too many.
    """
    if min(x.shape[1], y.shape[1]) < 2 or max(x.shape[1], y.shape[1]) > MOST_COLUMNS:
        return None
    a, b = ([bins(c, BINS) for c in z.T] for z in (x, y))
    if not (_independent(a) or _independent(b)):
        return None
    shared = torch.tensor([[plug_in(p, q)[0] for q in b] for p in a])
    rows, columns = linear_sum_assignment(-shared.numpy())
    total, variance = 0.0, 0.0
    for i, j in zip(rows, columns, strict=True):
        nats, error = ksg(x[:, [i]], y[:, [j]])
        if nats > CLEAR * error:  # the best of many pairs always shows a little
            total, variance = total + nats, variance + error**2
    return total, math.sqrt(variance)


def _independent(columns: list[Tensor]) -> bool:
    """Whether no two columns show a dependence, allowing for the number of looks."""
    d = len(columns)
    looks = d * (d - 1) / 2
    limit = CLEAR + math.sqrt(2 * math.log(looks)) if looks > 1 else CLEAR
    n, free = len(columns[0]), (BINS - 1) ** 2
    for i in range(d):
        for j in range(i):
            nats, _, bias = plug_in(columns[i], columns[j])
            chi_square = 2 * n * (nats + bias)  # (BINS - 1)^2 degrees of freedom
            if (chi_square - free) / math.sqrt(2 * free) > limit:
                return False
    return True
