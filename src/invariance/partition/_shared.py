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

Blocks are computed as any matrix is, by the operations of ``_operations``.
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
    exchange,
    log_sum_over_processes,
    pass_on,
    sum_over_processes,
)

Maybe = Tensor | None


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
    """A block of the matrix, and which of all rows and columns it is made of."""

    rows: Rows
    columns: Rows | None  # None where they are the rows
    row_places: Tensor
    column_places: Tensor

    @property
    def is_empty(self) -> bool:
        """Whether it holds no pair."""
        return not len(self.row_places) or not len(self.column_places)

    def inputs(self) -> tuple[Maybe, ...]:
        """How an operation takes its pairs."""
        rows, columns = self.rows, self.columns
        if columns is None:
            return rows.z, None, rows.ids, rows.ids
        return rows.z, columns.z, rows.ids, columns.ids

    def bands(self) -> tuple[Maybe, Maybe]:
        """The scores that its rows let in."""
        return self.rows.low, self.rows.high

    def top(self, n_columns: int) -> "Block":
        """Its first columns."""
        assert self.columns is not None
        some = slice(n_columns)
        columns, places = self.columns.part(some), self.column_places[some]
        return self._replace(columns=columns, column_places=places)

    def rest(self, n_rows: int) -> "Block":
        """Without its first rows."""
        some = slice(n_rows, None)
        rows, places = self.rows.part(some), self.row_places[some]
        return self._replace(rows=rows, row_places=places)


class Matrix:
    """The matrix of all processes' rows and columns, as one of them sees it."""

    def __init__(self, inputs: Any, low: Maybe = None, high: Maybe = None) -> None:
        self.share = share = Share(tuple(inputs.sizes), inputs.rank, inputs.ring)
        self.symmetric = inputs.y is None
        self.rows = self.columns = Rows(inputs.x, inputs.row_ids, low, high)
        if not self.symmetric:
            self.columns = Rows(inputs.y, inputs.column_ids)
        everyone = torch.arange(share.total, device=inputs.x.device)
        self.places = [everyone[share.rows_of(r)] for r in range(share.n_processes)]
        self.own_places = self.places[share.rank]

    def own_block(self) -> Block:
        """Own rows and own columns."""
        columns = None if self.symmetric else self.columns
        return Block(self.rows, columns, self.own_places, self.own_places)

    def across(self, columns: "Others") -> Iterator[Block]:
        """Own rows and the other processes' columns."""
        for whose, some in columns.visit(range(1, self.share.n_processes)):
            yield Block(self.rows, some, self.own_places, self._places_of(whose))

    def down(self, rows: "Others") -> Iterator[Block]:
        """The other processes' rows and own columns."""
        for whose, some in rows.visit(range(1, self.share.n_processes)):
            yield Block(some, self.columns, self._places_of(whose), self.own_places)

    def nearest(self, columns: "Others") -> Iterator[Block]:
        """Of a symmetric matrix: every two processes' block is visited once.

        Two that are opposite each other take half of their block each.
        """
        n, rank, sizes = self.share.n_processes, self.share.rank, self.share.sizes
        other = (rank - n // 2) % n
        groups = range(1, (n + 1) // 2), range(n // 2, n // 2 + 1 - n % 2)
        for whose, some in columns.visit(*groups):
            block = Block(self.rows, some, self.own_places, self._places_of(whose))
            if whose == [other] and n % 2 == 0:
                lower = rank < other
                block = block.top(sizes[other] // 2) if lower else block
                block = block if lower else block.rest(sizes[rank] // 2)
            yield block

    def _places_of(self, whose: Sequence[int]) -> Tensor:
        return torch.cat([self.places[rank] for rank in whose])


class Others:
    """Rows of the other processes, those of the process before this one first.

    Args:
        share: How rows are shared out.
        rows: This process's.
        kept: The others', where an earlier pass has gathered them.
        halves: Whether they travel in 16 bits.
    """

    def __init__(
        self,
        share: Share,
        rows: Rows,
        kept: Rows | None = None,
        halves: bool = False,
    ) -> None:
        self.share, self.dtype, self.gathered = share, rows.z.dtype, kept
        rows = rows._replace(z=rows.z.half()) if halves else rows
        if share.ring:
            self.coming = pass_on(rows, share, 1)  # on its way from now on
        elif kept is None:
            whose = self._whose(range(1, share.n_processes))
            each = rows._asdict().items()
            parts = {k: exchange(x, share) for k, x in each if x is not None}
            self.gathered = Rows(
                **{k: torch.cat([x[r] for r in whose]) for k, x in parts.items()}
            )

    def visit(self, *groups: range) -> Iterator[tuple[list[int], Rows]]:
        """Whose, and these: those so many processes away, or in a ring one by one."""
        groups = tuple(hops for hops in groups if hops)
        if self.gathered is None:
            last = groups[-1][-1]
            for rank, tensors in circulate(self.coming, self.share, last):
                z, *rest = tensors
                assert z is not None
                yield [rank], self._restore(Rows(z, *rest))
            return
        for hops in groups:
            whose = self._whose(hops)
            start = self._count(range(1, hops.start))
            some = slice(start, start + self._count(hops))
            yield whose, self._restore(self.gathered.part(some))

    def _restore(self, rows: Rows) -> Rows:
        return rows._replace(z=rows.z.to(self.dtype))

    def _whose(self, hops: range) -> list[int]:
        return [(self.share.rank - hop) % self.share.n_processes for hop in hops]

    def _count(self, hops: range) -> int:
        return sum(self.share.sizes[rank] for rank in self._whose(hops))


# ---------------------------------------------------------------- log-partitions


def log_partitions(inputs: Any) -> tuple[Maybe, ...]:
    """Log-partitions of all rows (k, n), of all columns if asked, and others' rows."""
    matrix = Matrix(inputs, inputs.low, inputs.high)
    columns = Others(
        matrix.share, matrix.columns, halves=_operations.travels_in_halves(inputs)
    )
    k = 1 if inputs.scales is None else len(inputs.scales)
    by_row = inputs.x.new_full((k, matrix.share.total), -torch.inf)
    by_column = torch.full_like(by_row, -torch.inf) if inputs.with_columns else None
    blocks = matrix.nearest if matrix.symmetric else matrix.across
    for block in chain([matrix.own_block()], blocks(columns)):
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
            _add_logs(by_row, block.column_places, sides)
        elif by_column is not None:
            _add_logs(by_column, block.column_places, sides)
    kept = columns.gathered or (None, None)
    if by_column is None:
        return log_sum_over_processes(by_row), None, *kept[:2]
    both = log_sum_over_processes(torch.cat([by_row, by_column]))
    return *both.chunk(2), *kept[:2]


def _add_logs(sums: Tensor, places: Tensor, more: Tensor) -> None:
    """Add to the logarithms of some sums."""
    sums[:, places] = torch.logaddexp(sums[:, places], more)


def log_partition_gradients(
    saved: Any, gradients: Sequence[Maybe], shapes: Any, wanted: Sequence[bool]
) -> tuple[Maybe, Maybe, Maybe]:
    """Gradients of own rows and columns, P times, and of the scales, where wanted."""
    matrix = Matrix(saved, saved.low, saved.high)
    sides = [(saved.rows, _or_zeros(gradients[0], saved.rows))]
    sides.append(sides[0])
    if saved.with_columns:
        sides[1] = saved.columns, _or_zeros(gradients[1], saved.columns)

    def differentiate(block: Block, wanted: Sequence[bool]) -> tuple:
        mirrored = matrix.symmetric and block.columns is not None
        both = saved.with_columns or mirrored
        places = (block.row_places, block.column_places)
        (p, g), (q, h) = (
            [x[:, at] for x in side] for side, at in zip(sides, places, strict=True)
        )
        return _operations.log_partitions.run_gradient(
            (
                *(*block.inputs(), *block.bands(), saved.scales, saved.scale),
                *(saved.longest, both, saved.backend, saved.exact),
            ),
            (p, q if both else None, None, None, None),
            (g, h if both else None),
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
    kept = None if saved.ring else Rows(saved.others, saved.other_ids)
    if kept is not None and saved.row_ids is None:  # empty in a graph
        kept = Rows(kept.z)
    total: list[Maybe] = [
        torch.zeros_like(side.z) if want else None
        for side, want in ((matrix.rows, want_x), (matrix.columns, want_y))
    ]
    total += [None for _ in by_scale]

    def add(block: Block, want_x: bool, want_y: bool, scale_factor: float) -> None:
        wanted = (want_x, want_y, *[want and scale_factor > 0 for want in by_scale])
        if block.is_empty or not any(wanted):
            return
        factors = (1.0, 1.0, *[scale_factor for _ in by_scale])
        parts = zip(differentiate(block, wanted), factors, strict=True)
        for i, (part, factor) in enumerate(parts):
            if wanted[i] and part is not None:
                part = part if factor == 1 else part * factor
                total[i] = part if total[i] is None else total[i] + part

    # a symmetric matrix has every other pair twice: own rows, and own columns
    each = 0.5 if matrix.symmetric else 1.0
    columns = None
    if want_x or any(by_scale):  # first: they are on their way while others compute
        columns = Others(matrix.share, matrix.columns, kept, halves)
    add(matrix.own_block(), want_x, want_y, 1.0)
    if columns is not None:
        for block in matrix.across(columns):
            add(block, want_x, False, each)
    if want_y:
        rows = Others(matrix.share, matrix.rows, halves=halves)
        for block in matrix.down(rows):
            add(block, False, True, 0.0)
    for gradient in total[:2]:
        if gradient is not None:
            gradient *= matrix.share.n_processes
    return tuple(total)


# ---------------------------------------------------------------- other sums


def row_sums(inputs: Any) -> tuple[Maybe, ...]:
    """Each row's sum of a function of its scores, of all rows, and others' rows."""
    matrix = Matrix(inputs)
    columns = Others(matrix.share, matrix.columns)
    sums = inputs.x.new_zeros(len(inputs.x))
    for block in chain([matrix.own_block()], matrix.across(columns)):
        if not block.is_empty:
            sums += _operations.row_sums.run(*block.inputs(), *_how(inputs))[0]
    kept = columns.gathered or (None, None)
    return torch.cat(exchange(sums, matrix.share)), *kept[:2]


def row_sum_gradients(
    saved: Any, gradients: Sequence[Maybe], shapes: Any, wanted: Sequence[bool]
) -> tuple[Maybe, ...]:
    """Gradients of own rows and columns, P times, where wanted."""
    matrix, (gradient,) = Matrix(saved), gradients
    assert gradient is not None

    def differentiate(block: Block, wanted: Sequence[bool]) -> tuple:
        mirrored = matrix.symmetric and block.columns is not None
        by_row = gradient.index_select(0, block.row_places)
        by_column = gradient.index_select(0, block.column_places)
        return _operations.row_sums.run_gradient(
            (*block.inputs(), *_how(saved)),
            (None, None, None, None),
            (by_row, by_column if mirrored else None),
            wanted,
        )

    return _add_up_gradients(matrix, saved, differentiate, wanted)


def _how(inputs: Any) -> tuple:
    """The settings of a sum of another function."""
    function = inputs.function, inputs.parameter, inputs.offset
    return *function, inputs.backend, inputs.exact
