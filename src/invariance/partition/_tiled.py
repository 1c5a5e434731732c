r"""Sums over the pairs of a score matrix, tile by tile: memory linear in the batch.

Every sum visits the matrix ``x @ y.T`` in tiles, and a thread holds one of them. The
backward pass computes each tile again instead of keeping it. With
$P_i = \log\sum_j e^{a s_{ij}}$ and an incoming gradient $g_i$ a tile's weights are
$G_{ij} = g_i e^{a s_{ij} - P_i}$, and dx += a G y, dy += a G^T x. For a sum of another
function $\varphi$ of the scores they are $G_{ij} = g_i \varphi'(s_{ij})$.

A symmetric matrix (``y`` is ``x``) is visited on one side of its diagonal only: a tile
(i, j) then speaks for (j, i) as well. Columns of the same matrix (CLIP's second
direction) come from the same tile: one product and, where the logits are known to be
moderate, one exponential for both.

Up to a few megabytes the matrix is one tile, and it is cheaper to keep its exponentials
for the backward pass than to compute them again. The smaller it is, the more the number
of operations counts, so there the scale goes into the products and sides nobody asked
for are left out.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ._dense import FUNCTIONS
from ._plan import keeps_scores
from ._tiles import Pairs, Tile, visit_tiles

# Logits within this need no maximum subtracted: e^50 times a million columns, and
# e^-50 times a gradient of a millionth, are ordinary float32 numbers.
MODERATE = 50.0
# Where nothing is subtracted, terms are powers of two: PyTorch computes 2^t in a third
# of the time of e^t.
LOG2_E = math.log2(math.e)
# For so few pairs, checking that no exponential overflows costs more than it saves.
FEW_PAIRS = 2**12

Sides = tuple[Tensor, Tensor | None]  # of the rows, and of the columns if asked for
Gradients = tuple[Tensor | None, Tensor | None]


def _take_pairs(
    inputs: Any,
    low: Tensor | None = None,
    high: Tensor | None = None,
    longest: float = math.inf,
) -> Pairs:
    """The pairs of an operation, whose y is None where it is x."""
    x, y, ids = inputs.x, inputs.y, (inputs.row_ids, inputs.column_ids)
    symmetric = y is None
    return Pairs(x, x if symmetric else y, *ids, low, high, symmetric, longest)


def _add_up_gradients(
    pairs: Pairs, weigh: Callable[[Tile], Tensor], want_x: bool, want_y: bool
) -> Gradients:
    """Products of the tiles' weights with their rows: gradients of x and y."""
    dx = torch.zeros_like(pairs.x) if want_x else None
    dy = torch.zeros_like(pairs.y) if want_y else None

    def add(tile: Tile) -> None:
        weight = weigh(tile)
        if dx is not None:
            _add_product(dx[tile.rows], weight, tile.pairs.y)
            if pairs.symmetric and not tile.on_diagonal:
                _add_product(dx[tile.columns], weight.T, tile.pairs.x)
        if dy is not None:
            _add_product(dy[tile.columns], weight.T, tile.pairs.x)

    visit_tiles(pairs, add, columns=want_y)
    return dx, dy


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a @ b to a sum; ``FlopCounterMode`` would not count ``addmm_``."""
    torch.addmm(total, a, b, out=total)


# ---------------------------------------------------------------- log-partitions


def log_partitions(inputs: Any) -> tuple[Tensor | None, ...]:
    """Log-partitions of rows (k, n) and, if asked, columns (k, m), and what is kept."""
    scales, scale, columns = inputs.scales, inputs.scale, inputs.with_columns
    pairs = _take_pairs(inputs, inputs.low, inputs.high, inputs.longest)
    if keeps_scores(pairs.x, pairs.y, scales):
        return *_whole_log_partitions(pairs, scale, columns), None, None
    terms = _Terms(pairs, scales, scale)
    k, n, m = terms.n_scales, len(pairs.x), len(pairs.y)
    start = 0.0 if terms.moderate else -torch.inf
    row_sums = pairs.x.new_full((k, n), start)
    column_sums = pairs.x.new_full((k, m if columns else 0), start)
    mirror = row_sums if pairs.symmetric else column_sums

    def add(tile: Tile) -> None:
        mirrored = columns or (pairs.symmetric and not tile.on_diagonal)
        for a, logits in enumerate(terms.find_logits(tile)):
            row, column = row_sums[a, tile.rows], mirror[a, tile.columns]
            if terms.moderate:
                term = terms.raise_logits(logits, tile)
                row += term.sum(1)
                if mirrored:
                    column += term.sum(0)
            else:
                torch.logaddexp(row, logits.logsumexp(1), out=row)
                if mirrored:
                    torch.logaddexp(column, logits.logsumexp(0), out=column)

    visit_tiles(terms.pairs, add, columns=columns)
    if terms.moderate:
        row_sums.log_()
        column_sums.log_()
    return row_sums, column_sums if columns else None, None, None, None


def log_partition_gradients(
    saved: Any, gradients: Gradients, shapes: Any, wanted: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of x, y and the scales; None for one that is not wanted.

    For a symmetric matrix x's gradient is the whole of it.
    """
    want_x, want_y, want_scales = wanted
    scales, scale = saved.scales, saved.scale
    outputs: Sides = (saved.rows, saved.columns)
    if not saved.with_columns:  # in a graph an empty tensor stands for them
        d_rows = torch.zeros_like(saved.rows) if gradients[0] is None else gradients[0]
        outputs, gradients = (saved.rows, None), (d_rows, None)
    pairs = _take_pairs(saved, saved.low, saved.high, saved.longest)
    if saved.kept is not None and keeps_scores(pairs.x, pairs.y, scales):
        weight = _whole_weights(pairs, scale, saved.kept, outputs, gradients)
        dx = _product(weight, pairs.y, scale) if want_x else None
        return dx, _product(weight.T, pairs.x, scale) if want_y else None, None
    terms = _Terms(pairs, scales, scale)
    weights = _SoftmaxWeights(terms, outputs, gradients)
    by_scale = pairs.x.new_zeros(len(scales), len(pairs.x)) if want_scales else None

    def weigh(tile: Tile) -> Tensor:
        total = None
        for a, logits in enumerate(terms.find_logits(tile)):
            weight = weights.weigh(tile, a, logits)
            if by_scale is not None:
                share = torch.mul(weight, tile.scores, out=tile.spare).sum(1)
                by_scale[a, tile.rows] += share / 2 if tile.on_diagonal else share
            if scales is not None:
                weight *= scales[a]
            total = weight if total is None else total.add_(weight)
        assert total is not None
        return total

    dx, dy = _add_up_gradients(terms.pairs, weigh, want_x, want_y)
    if scales is None:
        dx = None if dx is None else dx.mul_(terms.after_x)
        dy = None if dy is None else dy.mul_(terms.after_y)
    return dx, dy, None if by_scale is None else by_scale.sum(1)


class _Terms:
    """The terms e^(a s) of log-partitions at one or several scales a.

    A single known scale goes into the rows: to scale n rows is cheaper than to scale
    n x m scores. The gradients of such rows are to be multiplied by ``after_x`` and
    ``after_y``.
    """

    def __init__(self, pairs: Pairs, scales: Tensor | None, scale: float) -> None:
        every = scale if scales is None else scales
        self.moderate = _logits_are_moderate(pairs, every)
        unit = LOG2_E if self.moderate else 1.0
        self.pairs = pairs = pairs.make_ids_numbers() if self.moderate else pairs
        self.scales = None if scales is None else scales * unit
        self.n_scales = 1 if scales is None else len(scales)
        if scales is None and pairs.symmetric:
            root = math.sqrt(scale * unit)
            rows = pairs.x * root
            self.pairs = pairs._replace(x=rows, y=rows)
            self.after_x = self.after_y = scale / root
        elif scales is None:
            self.pairs = pairs._replace(x=pairs.x * (scale * unit))
            self.after_x, self.after_y = scale, 1 / unit

    def find_logits(self, tile: Tile) -> Iterator[Tensor]:
        """The caller's to overwrite; -inf where a pair is left out.

        Moderate ones are in units of log 2, and ``raise_logits`` leaves pairs out.
        """
        excluded = None
        if not self.moderate:
            excluded = tile.pairs.find_excluded(tile.scores)
        for a in range(self.n_scales):
            logits = (
                tile.scores if self.scales is None else tile.scores * self.scales[a]
            )
            if excluded is not None:
                logits.masked_fill_(excluded, -torch.inf)
            yield logits

    def raise_logits(self, logits: Tensor, tile: Tile) -> Tensor:
        """The terms of moderate logits, in their place."""
        terms = logits.exp2_()
        tile.pairs.drop_excluded(tile.scores, terms, tile.spare)
        return terms


class _SoftmaxWeights:
    """d(loss)/d(logit) of a tile, from what the forward pass left behind."""

    def __init__(self, terms: _Terms, outputs: Sides, gradients: Gradients) -> None:
        self.terms, symmetric = terms, terms.pairs.symmetric
        (rows, columns), (d_rows, d_columns) = outputs, gradients
        self.rows = self._side(rows, d_rows)
        self.columns = self.rows if symmetric else None
        if columns is not None and not symmetric:
            self.columns = self._side(columns, d_columns)

    def _side(
        self, partition: Tensor, gradient: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if gradient is None:
            gradient = torch.zeros_like(partition)
        p, g = _finite_part(partition, gradient)
        return p, g * (-p).exp() if self.terms.moderate else g

    def weigh(self, tile: Tile, a: int, logits: Tensor) -> Tensor:
        """The weights at one of the scales, in place of the logits."""
        row_p, row_g = (side[a, tile.rows, None] for side in self.rows)
        if self.columns is None:
            if self.terms.moderate:
                return self.terms.raise_logits(logits, tile).mul_(row_g)
            return logits.sub_(row_p).exp_().mul_(row_g)
        column_p, column_g = (side[a, tile.columns] for side in self.columns)
        if self.terms.moderate:
            terms = self.terms.raise_logits(logits, tile)
            return terms.mul_(torch.add(row_g, column_g, out=tile.spare))
        by_column = torch.sub(logits, column_p, out=tile.spare).exp_().mul_(column_g)
        return logits.sub_(row_p).exp_().mul_(row_g).add_(by_column)


def _finite_part(partition: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """An empty row (-inf) has no terms to weigh: any finite value and gradient 0."""
    empty = partition == -torch.inf
    return partition.masked_fill(empty, 0.0), gradient.masked_fill(empty, 0.0)


def _logits_are_moderate(pairs: Pairs, scales: Tensor | float) -> bool:
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
    longest = _measure_longest(pairs.x)
    longest *= longest if pairs.symmetric else _measure_longest(pairs.y)
    largest = float(scales.abs().max()) if isinstance(scales, Tensor) else abs(scales)
    return largest * longest <= MODERATE


def _measure_longest(rows: Tensor) -> float:
    return torch.linalg.vector_norm(rows, dim=1).max().item()


# ---------------------------------------------------------------- a matrix that is kept


def _whole_log_partitions(
    pairs: Pairs, scale: float, columns: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Kept are exponentials, or logits where those are few or could overflow."""
    if _keeps_exponentials(pairs, scale):
        kept = _product(pairs.x, pairs.y.T, scale * LOG2_E).exp2_()
        pairs.make_ids_numbers().drop_excluded(kept, kept)
        row = kept.sum(1).log_()
        column = kept.sum(0).log_() if columns else None
    else:
        kept = _product(pairs.x, pairs.y.T, scale)
        excluded = pairs.find_excluded(kept)
        if excluded is not None:
            kept.masked_fill_(excluded, -torch.inf)
        row = kept.logsumexp(1)
        column = kept.logsumexp(0) if columns else None
    return row.unsqueeze_(0), column if column is None else column.unsqueeze_(0), kept


def _keeps_exponentials(pairs: Pairs, scale: float) -> bool:
    few = len(pairs.x) * len(pairs.y) < FEW_PAIRS
    if few and pairs.longest == math.inf:
        return False
    return _logits_are_moderate(pairs, scale)


def _whole_weights(
    pairs: Pairs, scale: float, kept: Tensor, outputs: Sides, gradients: Gradients
) -> Tensor:
    """d(loss)/d(logit) of the whole matrix."""
    (rows, columns), (d_rows, d_columns) = outputs, gradients
    has_exponentials = _keeps_exponentials(pairs, scale)
    by_row = by_column = None
    if has_exponentials:  # one factor per row or column
        by_row = None if d_rows is None else _factor(rows, d_rows)
        by_column = by_row if pairs.symmetric else None
        if columns is not None and d_columns is not None:
            by_column = _factor(columns, d_columns)
        if by_row is None:
            assert by_column is not None
            return kept * by_column
        return (
            kept * by_row.T if by_column is None else (by_row.T + by_column).mul_(kept)
        )
    if d_rows is not None:  # every row and column shifted its own way
        p, g = _finite_part(rows, d_rows)
        by_row = (kept - p.T).exp_().mul_(g.T)
        if pairs.symmetric:
            return by_row + by_row.T
    if columns is not None and d_columns is not None:
        p, g = _finite_part(columns, d_columns)
        by_column = (kept - p).exp_().mul_(g)
    if by_row is None:
        assert by_column is not None
        return by_column
    return by_row if by_column is None else by_row.add_(by_column)


def _factor(partition: Tensor, gradient: Tensor) -> Tensor:
    empty = partition == -torch.inf
    return (gradient / partition.exp()).masked_fill_(empty, 0.0)


def _product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Scale a @ b in one operation; what it is added to counts nothing."""
    return torch.addmm(a.new_empty(()), a, b, beta=0, alpha=scale)


# ---------------------------------------------------------------- other sums


def row_sums(inputs: Any) -> tuple[Tensor, None, None, None]:
    """Row sums over the allowed pairs of a function of the scores: (n,)."""
    pairs, parameter, offset = _take_pairs(inputs), inputs.parameter, inputs.offset
    value, _ = FUNCTIONS[inputs.function]
    sums = pairs.x.new_zeros(len(pairs.x))

    def add(tile: Tile) -> None:
        excluded = tile.pairs.find_excluded(tile.scores)
        terms = value(_subtract(tile.scores, offset), parameter)
        if excluded is not None:
            terms = terms.masked_fill(excluded, 0.0)
        sums[tile.rows].add_(terms.sum(1))
        if pairs.symmetric and not tile.on_diagonal:
            sums[tile.columns].add_(terms.sum(0))

    visit_tiles(pairs, add)
    return sums, None, None, None


def row_sum_gradients(
    saved: Any, gradients: Sequence[Tensor | None], shapes: Any, wanted: Sequence[bool]
) -> Gradients:
    """Gradients of x and y; of a symmetric matrix all of it is in x's.

    A part of a symmetric matrix has gradients of its columns' sums as well.
    """
    pairs, (gradient, *of_columns) = _take_pairs(saved), gradients
    assert gradient is not None
    by_column = gradient if pairs.symmetric else next(iter(of_columns), None)
    parameter, offset = saved.parameter, saved.offset
    _, slope = FUNCTIONS[saved.function]

    def weigh(tile: Tile) -> Tensor:
        excluded = tile.pairs.find_excluded(tile.scores)
        weight = gradient[tile.rows, None]
        if by_column is not None:
            weight = torch.add(weight, by_column[tile.columns], out=tile.spare)
        weight = weight * slope(_subtract(tile.scores, offset), parameter)
        if excluded is not None:
            weight.masked_fill_(excluded, 0.0)
        return weight

    return _add_up_gradients(pairs, weigh, *wanted)


def _subtract(scores: Tensor, offset: float) -> Tensor:
    return scores.sub_(offset) if offset else scores
