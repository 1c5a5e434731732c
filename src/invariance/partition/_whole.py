"""The log-partition of a small matrix: computed once and kept for the backward pass.

Up to a few megabytes it is cheaper to keep the exponentials than to compute the scores
again, and one matrix product runs better than many small ones. Memory stays bounded: a
larger matrix goes tile by tile. The smaller still, the more the number of operations
counts, so the scale goes into the products and sides nobody asked for are left out.
"""

import math

import torch
from torch import Tensor

from ._blockwise import finite_part, logits_are_moderate
from ._tiles import Pairs, excluded_pairs

# So few are computed again sooner than it is found out whether they could overflow.
FEW_PAIRS = 2**12


def forward(
    pairs: Pairs, scale: float, columns: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Log-partitions of rows (1, n) and, if asked, columns (1, m), and what to keep.

    Kept are the exponentials, or the logits where those are few or could overflow.
    """
    kept = _product(pairs.x, pairs.y.T, scale)
    excluded = excluded_pairs(pairs, kept)
    if excluded is not None:
        kept.masked_fill_(excluded, -torch.inf)
    if _keeps_exponentials(pairs, scale):
        kept.exp_()
        row = kept.sum(1).log_()
        column = kept.sum(0).log_() if columns else None
    else:
        row = kept.logsumexp(1)
        column = kept.logsumexp(0) if columns else None
    return row.unsqueeze_(0), column if column is None else column.unsqueeze_(0), kept


def _keeps_exponentials(pairs: Pairs, scale: float) -> bool:
    few = len(pairs.x) * len(pairs.y) < FEW_PAIRS
    if few and pairs.longest == math.inf:
        return False
    return logits_are_moderate(pairs, scale)


def backward(
    pairs: Pairs,
    scale: float,
    kept: Tensor,
    outputs: tuple[Tensor, Tensor | None],
    gradients: tuple[Tensor | None, Tensor | None],
    wanted: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, None]:
    """Gradients of x and y if wanted; of a symmetric matrix all of it is in x's."""
    want_x, want_y, _ = wanted
    weigh = _factors if _keeps_exponentials(pairs, scale) else _softmaxes
    weight = weigh(kept, outputs, gradients, pairs.symmetric)
    return (
        _product(weight, pairs.y, scale) if want_x else None,
        _product(weight.T, pairs.x, scale) if want_y else None,
        None,
    )


def _factors(
    exponentials: Tensor,
    outputs: tuple[Tensor, Tensor | None],
    gradients: tuple[Tensor | None, Tensor | None],
    symmetric: bool,
) -> Tensor:
    """d(loss)/d(logit) where the exponentials are kept: one factor a row or column."""
    (rows, columns), (d_rows, d_columns) = outputs, gradients
    row = None if d_rows is None else _factor(rows, d_rows)
    column = row if symmetric else None
    if columns is not None and d_columns is not None:
        column = _factor(columns, d_columns)
    if row is None:
        assert column is not None
        return exponentials * column
    if column is None:
        return exponentials * row.T
    return (row.T + column).mul_(exponentials)


def _factor(partition: Tensor, gradient: Tensor) -> Tensor:
    empty = partition == -torch.inf
    return (gradient / partition.exp()).masked_fill_(empty, 0.0)


def _softmaxes(
    logits: Tensor,
    outputs: tuple[Tensor, Tensor | None],
    gradients: tuple[Tensor | None, Tensor | None],
    symmetric: bool,
) -> Tensor:
    """d(loss)/d(logit) where logits are kept: every row and column shifted its way."""
    (rows, columns), (d_rows, d_columns) = outputs, gradients
    by_row = by_column = None
    if d_rows is not None:
        p, g = finite_part(rows, d_rows)
        by_row = (logits - p.T).exp_().mul_(g.T)
        if symmetric:
            return by_row + by_row.T
    if columns is not None and d_columns is not None:
        p, g = finite_part(columns, d_columns)
        by_column = (logits - p).exp_().mul_(g)
    if by_row is None:
        assert by_column is not None
        return by_column
    return by_row if by_column is None else by_row.add_(by_column)


def _product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Scale a @ b in one operation; what it is added to counts nothing."""
    return torch.addmm(a.new_empty(()), a, b, beta=0, alpha=scale)
