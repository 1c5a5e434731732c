r"""The log-partition tile by tile: forward and backward, memory linear in the batch.

The backward pass computes each tile again instead of keeping it. With
$P_i = \log\sum_j e^{a s_{ij}}$ and an incoming gradient $g_i$ the tile's weights are
$G_{ij} = g_i e^{a s_{ij} - P_i}$, and dx += a G y, dy += a G^T x.

Columns of the same matrix (CLIP's second direction) and the mirror half of a symmetric
matrix (NT-Xent) come from the same tile: one product and, where the logits are known
to be moderate, one exponential for both.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from ._tiles import Pairs, Tile, tiles

# Logits within this need no maximum subtracted: e^50 times a million columns, and
# e^-50 times a gradient of a millionth, are ordinary float32 numbers.
MODERATE = 50.0


def scaled(pairs: Pairs, scale: float) -> tuple[Pairs, Tensor, tuple[float, float]]:
    """A known scale put into the rows: pairs, what is left of it, and the factors.

    Scaling n rows is cheaper than scaling n x m scores, tile after tile.
    """
    if pairs.symmetric:
        root = math.sqrt(scale)
        x = y = pairs.x * root
        factors = (root, root)
    else:
        x, y, factors = pairs.x * scale, pairs.y, (scale, 1.0)
    # how long its rows are is asked again
    pairs = replace(pairs, x=x, y=y, scaled=True, longest=math.inf)
    return pairs, x.new_ones(1), factors


def forward(
    pairs: Pairs, scales: Tensor, columns: bool
) -> tuple[Tensor, Tensor | None]:
    """Log-partitions of the rows (k, n) and, if asked for, of the columns (k, m)."""
    moderate = logits_are_moderate(pairs, scales)
    x, y, k = pairs.x, pairs.y, len(scales)
    start = 0.0 if moderate else -torch.inf
    row_sums = x.new_full((k, len(x)), start)
    column_sums = y.new_full((k, len(y) if columns else 0), start)
    mirror = row_sums if pairs.symmetric else column_sums
    for tile in tiles(pairs):
        mirrored = columns or (pairs.symmetric and not tile.on_diagonal)
        for a, logits in enumerate(tile.logits(scales)):
            row, column = row_sums[a, tile.rows], mirror[a, tile.columns]
            if moderate:
                terms = logits.exp_()
                row += terms.sum(1)
                if mirrored:
                    column += terms.sum(0)
            else:
                torch.logaddexp(row, logits.logsumexp(1), out=row)
                if mirrored:
                    torch.logaddexp(column, logits.logsumexp(0), out=column)
    if moderate:
        row_sums.log_()
        column_sums.log_()
    return row_sums, column_sums if columns else None


def backward(
    pairs: Pairs,
    scales: Tensor,
    outputs: tuple[Tensor, Tensor | None],
    gradients: tuple[Tensor | None, Tensor | None],
    wanted: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of x, y and the scales; None for one that is not wanted.

    For a symmetric matrix x's gradient is the whole of it and y's is None.
    """
    x, y = pairs.x, pairs.y
    dx, dy, d_scales = (
        torch.zeros_like(of) if want else None
        for of, want in zip((x, y, scales), wanted, strict=True)
    )
    weights = _Weights(pairs, scales, outputs, gradients)
    for tile in tiles(pairs):
        total = None
        for a, weight in enumerate(weights.of(tile)):
            if d_scales is not None:
                share = (weight * tile.scores).sum()
                d_scales[a] += share / 2 if tile.on_diagonal else share
            if not pairs.scaled:
                weight *= scales[a]
            total = weight if total is None else total.add_(weight)
        assert total is not None
        if dx is not None:
            dx[tile.rows].addmm_(total, tile.y)
            if pairs.symmetric and not tile.on_diagonal:
                dx[tile.columns].addmm_(total.T, tile.x)
        if dy is not None:
            dy[tile.columns].addmm_(total.T, tile.x)
    return dx, dy, d_scales


class _Weights:
    """d(loss)/d(logit) of a tile, from what the forward pass left behind."""

    def __init__(
        self,
        pairs: Pairs,
        scales: Tensor,
        outputs: tuple[Tensor, Tensor | None],
        gradients: tuple[Tensor | None, Tensor | None],
    ) -> None:
        self.scales = scales
        self.moderate = logits_are_moderate(pairs, scales)
        (rows, columns), (d_rows, d_columns) = outputs, gradients
        self.rows = self._side(rows, d_rows)
        self.columns = self.rows if pairs.symmetric else None
        if columns is not None and not pairs.symmetric:
            self.columns = self._side(columns, d_columns)

    def _side(
        self, partition: Tensor, gradient: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if gradient is None:
            gradient = torch.zeros_like(partition)
        p, g = finite_part(partition, gradient)
        return p, g * (-p).exp() if self.moderate else g

    def of(self, tile: Tile) -> list[Tensor]:
        """One tensor of weights a scale."""
        return [self._of(tile, a, lg) for a, lg in enumerate(tile.logits(self.scales))]

    def _of(self, tile: Tile, a: int, logits: Tensor) -> Tensor:
        row_p, row_g = (side[a, tile.rows, None] for side in self.rows)
        if self.columns is None:
            exponent = logits if self.moderate else logits.sub_(row_p)
            return exponent.exp_().mul_(row_g)
        column_p, column_g = (side[a, tile.columns] for side in self.columns)
        if self.moderate:
            return logits.exp_().mul_(row_g + column_g)
        by_column = (logits - column_p).exp_().mul_(column_g)
        return logits.sub_(row_p).exp_().mul_(row_g).add_(by_column)


def finite_part(partition: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """An empty row (-inf) has no terms to weigh: any finite value and gradient 0."""
    empty = partition == -torch.inf
    return partition.masked_fill(empty, 0.0), gradient.masked_fill(empty, 0.0)


def logits_are_moderate(pairs: Pairs, scales: Tensor | float) -> bool:
    """Whether every logit is known to fit the exponent range with room to spare.

    By Cauchy-Schwarz none exceeds |scale| max|x| max|y|. If that is moderate, terms
    can be summed as they are, and rows and columns share their exponentials. Otherwise
    (very low temperature, long vectors) each row and column follows its own maximum.
    Unless the lengths are known, asking costs a wait for the device: only a CPU is.
    """
    if isinstance(scales, float) and abs(scales) * pairs.longest**2 <= MODERATE:
        return True
    if pairs.x.device.type != "cpu" or not len(pairs.x) or not len(pairs.y):
        return False
    longest = _longest(pairs.x)
    longest *= longest if pairs.symmetric else _longest(pairs.y)
    largest = float(scales.abs().max()) if isinstance(scales, Tensor) else abs(scales)
    return largest * longest <= MODERATE


def _longest(rows: Tensor) -> float:
    return torch.linalg.vector_norm(rows, dim=1).max().item()
