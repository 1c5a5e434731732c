"""The log-partition of a small matrix: computed once and kept for the backward pass.

Up to a few megabytes it is cheaper to keep the exponentials than to compute the scores
again, and one matrix product runs better than many small ones. Memory stays bounded: a
larger matrix goes tile by tile. The smaller still, the more the number of operations
counts, so the scale goes into the products and sides nobody asked for are left out.
"""

import torch
from torch import Tensor

from ._blockwise import finite_part, logits_are_moderate
from ._tiles import Pairs, excluded_pairs


def forward(pairs: Pairs, scale: float, columns: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Log-partitions of rows (1, n) and columns (1, m or 0), and what to keep.

    Kept are the exponentials, or the logits where those could overflow.
    """
    kept = _product(pairs.x, pairs.y.T, scale)
    excluded = excluded_pairs(pairs, kept)
    if excluded is not None:
        kept.masked_fill_(excluded, -torch.inf)
    if logits_are_moderate(pairs, scale):
        kept.exp_()
        row = kept.sum(1).log_()
        column = kept.sum(0).log_() if columns else kept.new_empty(0)
    else:
        row = kept.logsumexp(1)
        column = kept.logsumexp(0) if columns else kept.new_empty(0)
    return row[None], column[None], kept


def backward(
    pairs: Pairs,
    scale: float,
    kept: Tensor,
    outputs: tuple[Tensor, Tensor],
    gradients: tuple[Tensor | None, Tensor | None],
    wanted: tuple[bool, bool, bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x and y; for a symmetric matrix all of it is in x's."""
    want_x, want_y, _ = wanted
    weigh = _factors if logits_are_moderate(pairs, scale) else _softmaxes
    weight = weigh(kept, outputs, gradients, pairs.symmetric)
    return (
        _product(weight, pairs.y, scale) if want_x else kept.new_empty(0),
        _product(weight.T, pairs.x, scale) if want_y else kept.new_empty(0),
        kept.new_empty(0),
    )


def _factors(
    exponentials: Tensor,
    outputs: tuple[Tensor, Tensor],
    gradients: tuple[Tensor | None, Tensor | None],
    symmetric: bool,
) -> Tensor:
    """d(loss)/d(logit) where the exponentials are kept: one factor a row or column."""
    row, column = (
        None if g is None else (g / p.exp()).masked_fill_(p == -torch.inf, 0.0)
        for p, g in zip(outputs, gradients, strict=True)
    )
    if symmetric:
        column = row
    if row is None:
        assert column is not None
        return exponentials * column
    if column is None:
        return exponentials * row.T
    return (row.T + column).mul_(exponentials)


def _softmaxes(
    logits: Tensor,
    outputs: tuple[Tensor, Tensor],
    gradients: tuple[Tensor | None, Tensor | None],
    symmetric: bool,
) -> Tensor:
    """d(loss)/d(logit) where logits are kept: every row and column shifted its way."""
    row, column = (
        None if g is None else finite_part(p, g)
        for p, g in zip(outputs, gradients, strict=True)
    )
    if row is None:
        assert column is not None
        return (logits - column[0]).exp_().mul_(column[1])
    by_row = (logits - row[0].T).exp_().mul_(row[1].T)
    if symmetric:
        return by_row + by_row.T
    if column is None:
        return by_row
    return by_row.add_((logits - column[0]).exp_().mul_(column[1]))


def _product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Scale a @ b in one operation; what it is added to counts nothing."""
    return torch.addmm(a.new_empty(()), a, b, beta=0, alpha=scale)
