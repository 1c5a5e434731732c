"""The log-partition of a small matrix: computed once and kept for the backward pass.

Up to a few megabytes it is cheaper to keep the exponentials than to compute the scores
again, and one matrix product runs better than many small ones. Memory stays bounded: a
larger matrix goes tile by tile.
"""

import torch
from torch import Tensor

from ._blockwise import finite_part, logits_are_moderate
from ._tiles import Pairs, excluded_pairs

EVERYTHING = slice(None)


def forward(pairs: Pairs, columns: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Log-partitions of rows (1, n) and columns (1, m or 0), and what to keep.

    Kept are the exponentials, or the logits where those could overflow.
    """
    kept = pairs.x @ pairs.y.T
    excluded = excluded_pairs(pairs, EVERYTHING, EVERYTHING, kept)
    if excluded is not None:
        kept.masked_fill_(excluded, -torch.inf)
    if logits_are_moderate(pairs):
        kept.exp_()
        row = kept.sum(1).log_()
        column = kept.sum(0).log_() if columns else kept.new_empty(0)
    else:
        row = kept.logsumexp(1)
        column = kept.logsumexp(0) if columns else kept.new_empty(0)
    return row[None], column[None], kept


def backward(
    pairs: Pairs,
    kept: Tensor,
    outputs: tuple[Tensor, Tensor],
    gradients: tuple[Tensor, Tensor],
    want_y: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of x and y; for a symmetric matrix all of it is in x's."""
    row, column = (
        finite_part(p[0], g[0]) for p, g in zip(outputs, gradients, strict=True)
    )
    if pairs.symmetric:
        column = row
    two_sided = len(column[0]) > 0
    if logits_are_moderate(pairs):
        by_row, by_column = (g * (-p).exp() for p, g in (row, column))
        weight = kept * by_row[:, None]
        if two_sided:
            weight.addcmul_(kept, by_column.expand_as(kept))
    else:
        weight = (kept - row[0][:, None]).exp_().mul_(row[1][:, None])
        if two_sided:
            weight += (kept - column[0]).exp_().mul_(column[1])
    dx = weight @ pairs.y
    return dx, weight.T @ pairs.x if want_y and not pairs.symmetric else dx.new_empty(0)
