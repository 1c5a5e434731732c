r"""Sums over pairs of the rows of all processes, each process computing its own share.

Every process has some rows x and some columns y of one large matrix. It computes what
belongs to its own, 1/P of the work, and gets the results of all rows: log-partitions
are vectors, cheap to send, so an objective's formula is then the same everywhere, and
so are the gradients g of these vectors. With them a process knows what its own row i
gets from every other,

$$\partial x_i = \sum_j (g_i e^{a s_{ij} - P_i} + g_j e^{a s_{ij} - P_j})\,y_j,$$

as a row and, of a symmetric matrix, as a column: no gradients of rows are sent at all.
Of two kinds of rows (u and v) it computes both sides of the matrix in the same way.

Other processes' rows are gathered once and kept, or they circulate in a ring, in both
passes: then a process holds two blocks of them at any time. Of a symmetric matrix the
forward pass visits every two processes' block once: each process takes the nearest half
of the others, and sums over columns go back to their owners as vectors.

Blocks are computed as any matrix is, by the operations of ``_operations``. Here rows
stand in turned order: this process's first, then those of the process after it, and so
on around. A block is a slice of that order on either side, and vectors are turned once.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _operations
from ._processes import (
    Share,
    circulate,
    gather_all,
    log_sum_over_processes,
    pass_on,
    sum_over_processes,
)
from ._tiled import MODERATE

Maybe = Tensor | None
# Fused kernels sum over a whole block of so many own rows together with the others':
# half of that block is little work, and launches count.
SUMMED_AT_ONCE = 2**14


class Rows(NamedTuple):
    """Some rows of the matrix, or columns, and what belongs to each of them."""

    z: Tensor
    ids: Maybe = None
    low: Maybe = None
    high: Maybe = None

    def part(self, some: slice) -> "Rows":
        """Some of them."""
        z, *rest = self
        return Rows(z[some], *[None if x is None else x[some] for x in rest])


class Block(NamedTuple):
    """A block of the matrix, and where its rows and columns are in turned order."""

    rows: Rows
    columns: Rows | None  # None where they are the rows, and the block is symmetric
    row_places: slice
    column_places: slice

    @property
    def is_empty(self) -> bool:
        """Whether it holds no pair."""
        n, m = (places.stop - places.start for places in self[2:])
        return not n or not m

    def inputs(self) -> tuple[Maybe, ...]:
        """How an operation takes its pairs."""
        rows, columns = self.rows, self.columns
        if columns is None:
            return rows.z, None, rows.ids, rows.ids
        return rows.z, columns.z, rows.ids, columns.ids

    def bands(self) -> tuple[Maybe, Maybe]:
        """The scores that its rows let in."""
        return self.rows.low, self.rows.high


class Matrix:
    """The matrix of all processes' rows and columns, as one of them sees it."""

    def __init__(self, inputs: Any, low: Maybe = None, high: Maybe = None) -> None:
        self.share = Share(tuple(inputs.sizes), inputs.rank, inputs.ring)
        self.symmetric = inputs.y is None
        self.rows = self.columns = Rows(inputs.x, inputs.row_ids, low, high)
        if not self.symmetric:
            self.columns = Rows(inputs.y, inputs.column_ids)
        self.here = slice(0, len(inputs.x))
        # a fused kernel computes the gradient of own rows from all others at once
        self.joins = inputs.backend == "triton" and not inputs.ring

    def turn(self, x: Tensor) -> Tensor:
        """One number per row of all, in turned order."""
        return x.roll(-self.share.own_rows.start, -1)

    def turn_back(self, x: Tensor) -> Tensor:
        """And in the order of the processes."""
        return x.roll(self.share.own_rows.start, -1)

    def own_block(self) -> Block:
        """Own rows and own columns."""
        columns = None if self.symmetric else self.columns
        return Block(self.rows, columns, self.here, self.here)

    def across(self, columns: "Others", first: int = 1) -> Iterator[Block]:
        """Own rows, and columns of the processes that are so far away or farther."""
        for places, some in columns.visit(range(first, self.share.n_processes)):
            yield Block(self.rows, some, self.here, places)

    def down(self, rows: "Others", first: int = 1) -> Iterator[Block]:
        """Rows of the processes that are so far away or farther, and own columns."""
        for places, some in rows.visit(range(first, self.share.n_processes)):
            yield Block(some, self.columns, places, self.here)

    def nearest(self, columns: "Others", first: int = 1) -> Iterator[Block]:
        """Of a symmetric matrix: every two processes' block is visited once.

        Two that are opposite each other take half of their block each: one has all of
        its rows and half of the columns, the other half of its rows and all columns.
        """
        n, rank, sizes = self.share.n_processes, self.share.rank, self.share.sizes
        near, opposite = range(first, (n + 1) // 2), range(n // 2, n // 2 + 1 - n % 2)
        other = (rank + n // 2) % n
        lower = rank < other and n % 2 == 0
        if lower and columns.gathered is not None:  # the two are one block
            near, opposite = range(first, n // 2 + 1), range(0)
        for places, some in chain(columns.visit(near), columns.visit(opposite)):
            rows, row_places = self.rows, self.here
            if n % 2 == 0 and sizes[other] and places.stop == columns.count(n // 2 + 1):
                if lower:
                    places = slice(places.start, places.stop - (sizes[other] + 1) // 2)
                    some = some.part(slice(places.stop - places.start))
                else:
                    row_places = slice(sizes[rank] // 2, sizes[rank])
                    rows = rows.part(row_places)
            yield Block(rows, some, row_places, places)


class Others:
    """Rows of the other processes, those of the process after this one first.

    Args:
        share: How rows are shared out.
        rows: This process's.
        kept: All rows, in turned order, where an earlier pass has gathered them.
        halves: Whether they travel in 16 bits.
        n_hops: How far they travel in a ring, if not all the way.
    """

    def __init__(
        self,
        share: Share,
        rows: Rows,
        kept: Rows | None = None,
        halves: bool = False,
        n_hops: int | None = None,
    ) -> None:
        self.share, self.dtype, self.gathered = share, rows.z.dtype, kept
        rows = rows._replace(z=rows.z.half()) if halves else rows
        self.arrivals: Iterator[list[Maybe]] = iter(())
        if share.ring:  # on their way from now on
            n_hops = share.n_processes - 1 if n_hops is None else n_hops
            self.arrivals = circulate(pass_on(rows, share, 1), share, n_hops)
        elif kept is None:
            each = {k: x for k, x in rows._asdict().items() if x is not None}
            start = share.own_rows.start
            self.gathered = Rows(
                **{k: gather_all(x, share).roll(-start, 0) for k, x in each.items()}
            )

    def visit(self, hops: range) -> Iterator[tuple[slice, Rows]]:
        """Where they are and these, so many processes away; in a ring one by one."""
        if not hops:
            return
        if self.gathered is not None:
            places = slice(self.count(hops.start), self.count(hops.stop))
            yield places, self._restore(self.gathered.part(places))
            return
        for hop in hops:
            z, *rest = next(self.arrivals)
            assert z is not None
            yield (
                slice(self.count(hop), self.count(hop + 1)),
                self._restore(Rows(z, *rest)),
            )

    def _restore(self, rows: Rows) -> Rows:
        return rows._replace(z=rows.z.to(self.dtype))

    def count(self, n_processes: int) -> int:
        """How many rows so many processes have, from this one on."""
        rank, sizes = self.share.rank, self.share.sizes
        return sum(sizes[(rank + hop) % len(sizes)] for hop in range(n_processes))


# ---------------------------------------------------------------- log-partitions


def log_partitions(inputs: Any) -> tuple[Maybe, ...]:
    """Log-partitions of all rows (k, n), of all columns if asked, and all rows kept."""
    matrix = Matrix(inputs, inputs.low, inputs.high)
    halves = _operations.travels_in_halves(inputs)
    n_hops = matrix.share.n_processes // 2 if matrix.symmetric else None
    columns = Others(matrix.share, matrix.columns, halves=halves, n_hops=n_hops)
    k = 1 if inputs.scales is None else len(inputs.scales)
    by_row = inputs.x.new_full((k, matrix.share.total), -torch.inf)
    by_column = torch.full_like(by_row, -torch.inf) if inputs.with_columns else None
    n = len(inputs.x)
    blocks = matrix.nearest if matrix.symmetric else matrix.across
    at_once = matrix.joins and n <= SUMMED_AT_ONCE
    first = [] if at_once else [matrix.own_block()]
    for block in chain(first, blocks(columns, 0 if at_once else 1)):
        if block.is_empty:
            continue
        mirrored = matrix.symmetric and block.columns is not None
        rows, sides, *_ = _operations.log_partitions.run(
            *(*block.inputs(), *block.bands(), inputs.scales, inputs.scale),
            *(inputs.longest, inputs.with_columns or mirrored),
            *(inputs.backend, inputs.exact),
        )
        _add_logs(by_row, block.row_places, rows)
        if mirrored:
            # own rows are columns of a block that holds them all: counted already
            skip = max(n - block.column_places.start, 0)
            places = slice(block.column_places.start + skip, block.column_places.stop)
            _add_logs(by_row, places, sides[:, skip:])
        elif by_column is not None:
            _add_logs(by_column, block.column_places, sides)
    sums = by_row if by_column is None else torch.cat([by_row, by_column])
    moderate = abs(inputs.scale) * inputs.longest**2 <= MODERATE
    sums = log_sum_over_processes(matrix.turn_back(sums), moderate=moderate)
    kept = columns.gathered or (None, None)
    sides = (sums, None) if by_column is None else sums.chunk(2)
    return *sides, *kept[:2]


def _add_logs(sums: Tensor, places: slice, more: Tensor) -> None:
    """Add to the logarithms of some sums."""
    if places.stop > places.start:
        some = sums[:, places]
        torch.logaddexp(some, more, out=some)


def log_partition_gradients(
    saved: Any, gradients: Sequence[Maybe], shapes: Any, wanted: Sequence[bool]
) -> tuple[Maybe, Maybe, Maybe]:
    """Gradients of own rows and columns, P times, and of the scales, where wanted."""
    matrix = Matrix(saved, saved.low, saved.high)
    vectors = [saved.rows, _or_zeros(gradients[0], saved.rows)]
    if saved.with_columns:
        vectors += [saved.columns, _or_zeros(gradients[1], saved.columns)]
    turned = matrix.turn(torch.stack(vectors)).unbind()
    by_row, by_column = turned[:2], turned[-2:]

    def differentiate(block: Block, wanted: Sequence[bool]) -> tuple:
        mirrored = matrix.symmetric and block.columns is not None
        both = saved.with_columns or mirrored
        p, g = (x[:, block.row_places] for x in by_row)
        q, h = (x[:, block.column_places] if both else None for x in by_column)
        return _operations.log_partitions.run_gradient(
            (
                *(*block.inputs(), *block.bands(), saved.scales, saved.scale),
                *(saved.longest, both, saved.backend, saved.exact),
            ),
            (p, q, None, None, None),
            (g, h),
            wanted,
        )

    halves = _operations.travels_in_halves(saved)
    dx, dy, d_scales = _add_up_gradients(matrix, saved, differentiate, wanted, halves)
    if wanted[2]:  # by no row, so every process gets all of it
        d_scales = torch.zeros_like(saved.scales) if d_scales is None else d_scales
        d_scales = sum_over_processes(d_scales)
    return dx, dy, d_scales


def _or_zeros(gradient: Maybe, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if gradient is None else gradient


def _add_up_gradients(
    matrix: Matrix,
    saved: Any,
    differentiate: Callable[..., tuple],
    wanted: Any,
    halves: bool = False,
) -> tuple[Maybe, ...]:
    """Gradients of own rows and columns from all blocks, P times, and of own scales."""
    want_x, want_y, *by_scale = wanted
    kept = None if saved.ring else Rows(saved.all_rows, saved.all_ids)
    if kept is not None and saved.row_ids is None:  # empty in a graph
        kept = Rows(kept.z)
    sums: list[Maybe] = [None, None, *[None for _ in by_scale]]

    def add(block: Block, want_x: bool, want_y: bool, scale_factor: float) -> None:
        wanted = (want_x, want_y, *[want and scale_factor > 0 for want in by_scale])
        if block.is_empty or not any(wanted):
            return
        factors = (1.0, 1.0, *[scale_factor for _ in by_scale])
        parts = zip(differentiate(block, wanted), factors, strict=True)
        for i, (part, factor) in enumerate(parts):
            if wanted[i] and part is not None:
                part = part if factor == 1 else part * factor
                sums[i] = part if sums[i] is None else sums[i] + part

    # a symmetric matrix has every other pair twice: own rows, and own columns
    each, first = 0.5 if matrix.symmetric else 1.0, 0 if matrix.joins else 1
    columns = None
    if want_x or any(by_scale):  # first: they are on their way while own ones compute
        columns = Others(matrix.share, matrix.columns, kept, halves)
    if not matrix.joins:
        add(matrix.own_block(), want_x, want_y, 1.0)
    if columns is not None:
        for block in matrix.across(columns, first):
            add(block, want_x, False, each)
    if want_y:
        rows = Others(matrix.share, matrix.rows, halves=halves)
        for block in matrix.down(rows, first):
            add(block, False, True, 0.0)
    for i, side in enumerate((matrix.rows, matrix.columns)):
        if wanted[i]:
            gradient = sums[i]
            gradient = torch.zeros_like(side.z) if gradient is None else gradient
            sums[i] = gradient.mul_(matrix.share.n_processes)
    return tuple(sums)


# ---------------------------------------------------------------- other sums


def row_sums(inputs: Any) -> tuple[Maybe, ...]:
    """Each row's sum of a function of its scores, of all rows, and all rows kept."""
    matrix = Matrix(inputs)
    columns = Others(matrix.share, matrix.columns)
    first = [] if matrix.joins else [matrix.own_block()]
    sums = inputs.x.new_zeros(len(inputs.x))
    for block in chain(first, matrix.across(columns, 0 if matrix.joins else 1)):
        if not block.is_empty:
            sums += _operations.row_sums.run(*block.inputs(), *_how(inputs))[0]
    kept = columns.gathered or (None, None)
    return gather_all(sums, matrix.share), *kept[:2]


def row_sum_gradients(
    saved: Any, gradients: Sequence[Maybe], shapes: Any, wanted: Sequence[bool]
) -> tuple[Maybe, ...]:
    """Gradients of own rows and columns, P times, where wanted."""
    matrix, (gradient,) = Matrix(saved), gradients
    assert gradient is not None
    turned = matrix.turn(gradient)

    def differentiate(block: Block, wanted: Sequence[bool]) -> tuple:
        mirrored = matrix.symmetric and block.columns is not None
        by_column = turned[block.column_places] if mirrored else None
        return _operations.row_sums.run_gradient(
            (*block.inputs(), *_how(saved)),
            (None, None, None, None),
            (turned[block.row_places], by_column),
            wanted,
        )

    return _add_up_gradients(matrix, saved, differentiate, wanted)


def _how(inputs: Any) -> tuple:
    """The settings of a sum of another function."""
    function = inputs.function, inputs.parameter, inputs.offset
    return *function, inputs.backend, inputs.exact
