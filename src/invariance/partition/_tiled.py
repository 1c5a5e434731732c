r"""Sums over the pairs of a score matrix, tile by tile: memory linear in the batch.

Every sum visits the matrix ``x @ y.T`` in tiles and holds one of them. The backward
pass computes each tile again instead of keeping it. With
$P_i = \log\sum_j e^{a s_{ij}}$ and an incoming gradient $g_i$ a tile's weights are
$G_{ij} = g_i e^{a s_{ij} - P_i}$, and dx += a G y, dy += a G^T x. For a sum of another
function $\varphi$ of the scores they are $G_{ij} = g_i \varphi'(s_{ij})$.

A symmetric matrix (``y`` is ``x``) is visited on and above its diagonal only: a tile
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
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._functions import FUNCTIONS
from ._plan import cut, keeps_scores, tile_sides

# Logits within this need no maximum subtracted: e^50 times a million columns, and
# e^-50 times a gradient of a millionth, are ordinary float32 numbers.
MODERATE = 50.0
# For so few pairs, checking that no exponential overflows costs more than it saves.
FEW_PAIRS = 2**12

Sides = tuple[Tensor, Tensor | None]  # of the rows, and of the columns if asked for
Gradients = tuple[Tensor | None, Tensor | None]


class Pairs(NamedTuple):
    """Rows, columns, and which pairs of them count.

    A pair is left out when its ids are equal, or when its score lies outside the
    band ``low[i] <= score <= high[i]``.
    """

    x: Tensor
    y: Tensor
    row_ids: Tensor | None = None
    column_ids: Tensor | None = None
    low: Tensor | None = None
    high: Tensor | None = None
    symmetric: bool = False
    longest: float = math.inf  # what the length of a row is known not to exceed
    scaled: bool = False  # the one scale is already inside x (or x and y): use it as 1

    def block(self, rows: slice, columns: slice, *, with_ids: bool) -> "Pairs":
        """Some of them; without ids where those cannot be equal."""
        whole = slice(0, len(self.x)), slice(0, len(self.y))
        if with_ids and (rows, columns) == whole:
            return self
        on_side = (self.row_ids, rows), (self.column_ids, columns)
        row_ids, column_ids = (
            ids[side] if with_ids and ids is not None else None for ids, side in on_side
        )
        low, high = (b if b is None else b[rows] for b in (self.low, self.high))
        return Pairs(self.x[rows], self.y[columns], row_ids, column_ids, low, high)

    def find_excluded(self, scores: Tensor) -> Tensor | None:
        """Which of the pairs are left out, or None if none can be."""
        excluded = None
        if self.row_ids is not None and self.column_ids is not None:
            excluded = self.row_ids[:, None] == self.column_ids
        if self.low is not None:
            below = scores < self.low[:, None]
            excluded = below if excluded is None else excluded | below
        if self.high is not None:
            above = scores > self.high[:, None]
            excluded = above if excluded is None else excluded | above
        return excluded


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


class Tile(NamedTuple):
    """One block of the score matrix, with its rows x and y."""

    x: Tensor
    y: Tensor
    rows: slice
    columns: slice
    scores: Tensor
    excluded: Tensor | None
    scaled: bool
    on_diagonal: bool  # of a symmetric matrix: both (i, j) and (j, i) are inside

    def logits(self, scales: Tensor) -> Iterator[Tensor]:
        """Scaled scores, -inf where a pair is left out; the caller's to overwrite."""
        for scale in scales:
            logits = self.scores if self.scaled else self.scores * scale
            if self.excluded is not None:
                logits.masked_fill_(self.excluded, -torch.inf)
            yield logits


def walk(pairs: Pairs) -> Iterator[Tile]:
    """All tiles of the score matrix, or its upper triangle if it is symmetric."""
    x, y = pairs.x, pairs.y
    sides = tile_sides(len(x), len(y), x.element_size(), x.device)
    if pairs.symmetric:
        sides = (min(sides), min(sides))
    row_spans = list(cut(len(x), sides[0]))
    column_spans = list(cut(len(y), sides[1]))
    may_meet = _find_meetings(pairs, row_spans, column_spans)
    for r, rows in enumerate(row_spans):
        for c, columns in enumerate(column_spans):
            if pairs.symmetric and c < r:
                continue
            part = pairs.block(rows, columns, with_ids=may_meet[r][c])
            scores = part.x @ part.y.T
            excluded = part.find_excluded(scores)
            on_diagonal = pairs.symmetric and r == c
            yield Tile(
                *(part.x, part.y, rows, columns),
                *(scores, excluded, pairs.scaled, on_diagonal),
            )


def _find_meetings(
    pairs: Pairs, row_spans: list[slice], column_spans: list[slice]
) -> list[list[bool]]:
    """Whether a tile can hold equal ids at all: most cannot, and skip the mask.

    Asking costs a wait for the device, so only a CPU is asked; a single tile is not.
    """
    worth = len(row_spans) + len(column_spans) > 2 and pairs.x.device.type == "cpu"
    if pairs.row_ids is None or pairs.column_ids is None or not worth:
        return [[True] * len(column_spans) for _ in row_spans]
    rows = [_find_range(pairs.row_ids[span]) for span in row_spans]
    columns = rows
    if pairs.column_ids is not pairs.row_ids or column_spans != row_spans:
        columns = [_find_range(pairs.column_ids[span]) for span in column_spans]
    return [[a <= d and c <= b for c, d in columns] for a, b in rows]


def _find_range(ids: Tensor) -> tuple[int, int]:
    low, high = torch.aminmax(ids)
    return int(low), int(high)


def _add_up_gradients(
    pairs: Pairs, weigh: Callable[[Tile], Tensor], want_x: bool, want_y: bool
) -> Gradients:
    """Products of the tiles' weights with their rows: gradients of x and y."""
    dx = torch.zeros_like(pairs.x) if want_x else None
    dy = torch.zeros_like(pairs.y) if want_y else None
    for tile in walk(pairs):
        weight = weigh(tile)
        if dx is not None:
            dx[tile.rows].addmm_(weight, tile.y)
            if pairs.symmetric and not tile.on_diagonal:
                dx[tile.columns].addmm_(weight.T, tile.x)
        if dy is not None:
            dy[tile.columns].addmm_(weight.T, tile.x)
    return dx, dy


# ---------------------------------------------------------------- log-partitions


def log_partitions(inputs: Any) -> tuple[Tensor | None, ...]:
    """Log-partitions of rows (k, n) and, if asked, columns (k, m), and what is kept."""
    scales, scale, columns = inputs.scales, inputs.scale, inputs.with_columns
    pairs = _take_pairs(inputs, inputs.low, inputs.high, inputs.longest)
    if keeps_scores(pairs.x, pairs.y, scales):
        return *_whole_log_partitions(pairs, scale, columns), None, None
    if scales is None:
        pairs, scales, _ = _put_scale_into_rows(pairs, scale)
    moderate = _logits_are_moderate(pairs, scales)
    x, y, k = pairs.x, pairs.y, len(scales)
    start = 0.0 if moderate else -torch.inf
    row_sums = x.new_full((k, len(x)), start)
    column_sums = y.new_full((k, len(y) if columns else 0), start)
    mirror = row_sums if pairs.symmetric else column_sums
    for tile in walk(pairs):
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
    if keeps_scores(pairs.x, pairs.y, scales):
        weight = _whole_weights(pairs, scale, saved.kept, outputs, gradients)
        dx = _product(weight, pairs.y, scale) if want_x else None
        return dx, _product(weight.T, pairs.x, scale) if want_y else None, None
    by_x = by_y = 1.0
    if scales is None:
        pairs, scales, (by_x, by_y) = _put_scale_into_rows(pairs, scale)
    d_scales = torch.zeros_like(scales) if want_scales else None
    weights = _SoftmaxWeights(pairs, scales, outputs, gradients)

    def weigh(tile: Tile) -> Tensor:
        total = None
        for a, weight in enumerate(weights.of(tile)):
            if d_scales is not None:
                share = (weight * tile.scores).sum()
                d_scales[a] += share / 2 if tile.on_diagonal else share
            if not pairs.scaled:
                weight *= scales[a]
            total = weight if total is None else total.add_(weight)
        assert total is not None
        return total

    dx, dy = _add_up_gradients(pairs, weigh, want_x, want_y)
    if pairs.scaled:
        dx = None if dx is None else dx.mul_(by_x)
        dy = None if dy is None else dy.mul_(by_y)
    return dx, dy, d_scales


def _put_scale_into_rows(
    pairs: Pairs, scale: float
) -> tuple[Pairs, Tensor, tuple[float, float]]:
    """Pairs with a known scale inside, what is left of it, and the factors on x and y.

    Scaling n rows is cheaper than scaling n x m scores, tile after tile.
    """
    if pairs.symmetric:
        root = math.sqrt(scale)
        x = y = pairs.x * root
        factors = (root, root)
    else:
        x, y, factors = pairs.x * scale, pairs.y, (scale, 1.0)
    # how long its rows are is asked again
    pairs = pairs._replace(x=x, y=y, scaled=True, longest=math.inf)
    return pairs, x.new_ones(1), factors


class _SoftmaxWeights:
    """d(loss)/d(logit) of a tile, from what the forward pass left behind."""

    def __init__(
        self, pairs: Pairs, scales: Tensor, outputs: Sides, gradients: Gradients
    ) -> None:
        self.scales = scales
        self.moderate = _logits_are_moderate(pairs, scales)
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
        p, g = _finite_part(partition, gradient)
        return p, g * (-p).exp() if self.moderate else g

    def of(self, tile: Tile) -> list[Tensor]:
        """One tensor of weights per scale."""
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
    kept = _product(pairs.x, pairs.y.T, scale)
    excluded = pairs.find_excluded(kept)
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
    for tile in walk(pairs):
        terms = value(_subtract(tile.scores, offset), parameter)
        if tile.excluded is not None:
            terms = terms.masked_fill(tile.excluded, 0.0)
        sums[tile.rows].add_(terms.sum(1))
        if pairs.symmetric and not tile.on_diagonal:
            sums[tile.columns].add_(terms.sum(0))
    return sums, None, None, None


def row_sum_gradients(
    saved: Any, gradients: tuple[Tensor], shapes: Any, wanted: Sequence[bool]
) -> Gradients:
    """Gradients of x and y; of a symmetric matrix all of it is in x's."""
    pairs, (gradient,) = _take_pairs(saved), gradients
    parameter, offset = saved.parameter, saved.offset
    _, slope = FUNCTIONS[saved.function]

    def weigh(tile: Tile) -> Tensor:
        weight = gradient[tile.rows, None]
        if pairs.symmetric:
            weight = weight + gradient[tile.columns]
        weight = weight * slope(_subtract(tile.scores, offset), parameter)
        if tile.excluded is not None:
            weight.masked_fill_(tile.excluded, 0.0)
        return weight

    return _add_up_gradients(pairs, weigh, *wanted)


def _subtract(scores: Tensor, offset: float) -> Tensor:
    return scores.sub_(offset) if offset else scores
