"""The log-partition, one anchor and one candidate at a time."""

import torch
from torch import Tensor

from ._scalars import dot, log_sum_exp


def log_partition(
    x: Tensor,
    y: Tensor,
    *,
    scale: float | Tensor,
    row_ids: Tensor | None = None,
    column_ids: Tensor | None = None,
    low: Tensor | None = None,
    high: Tensor | None = None,
) -> Tensor:
    """(n,) log sum_{j allowed for i} exp(scale <x_i, y_j>); -inf where none is.

    Not normalised. A candidate is allowed when its id differs from the anchor's and
    its score <x_i, y_j>, BEFORE the scale, lies in the closed band [low_i, high_i].
    """
    values = []
    for i in range(len(x)):
        terms = []
        for j in range(len(y)):
            score = dot(x[i], y[j])
            if row_ids is not None and row_ids[i] == column_ids[j]:
                continue
            if low is not None and score < low[i]:
                continue
            if high is not None and score > high[i]:
                continue
            terms.append(scale * score)
        values.append(log_sum_exp(terms))
    return torch.stack(values)
