"""The pairs of a contrast, and the walk over them tile by tile.

Every streaming computation of the package visits the score matrix ``x @ y.T`` in
tiles and never holds more than one. A symmetric matrix (``y`` is ``x``) is visited on
and above its diagonal only: a tile (i, j) then speaks for (j, i) as well.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ._planner import spans, tile_sides


@dataclass(frozen=True)
class Pairs:
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
    scaled: bool = False  # the one scale is already inside x (or x and y): use it as 1
    longest: float = math.inf  # what the length of a row is known not to exceed

    def of(self, rows: slice, columns: slice, *, with_ids: bool) -> "Pairs":
        """A block of them; without ids where those cannot be equal."""
        whole = slice(0, len(self.x)), slice(0, len(self.y))
        if with_ids and (rows, columns) == whole:
            return self
        on_side = (self.row_ids, rows), (self.column_ids, columns)
        row_ids, column_ids = (
            ids[side] if with_ids and ids is not None else None for ids, side in on_side
        )
        low, high = (b if b is None else b[rows] for b in (self.low, self.high))
        return Pairs(self.x[rows], self.y[columns], row_ids, column_ids, low, high)


@dataclass(frozen=True)
class Tile:
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


def tiles(pairs: Pairs) -> Iterator[Tile]:
    """All tiles of the score matrix, or its upper triangle if it is symmetric."""
    x, y = pairs.x, pairs.y
    sides = tile_sides(len(x), len(y), x.element_size(), x.device)
    if pairs.symmetric:
        sides = (min(sides), min(sides))
    row_spans = list(spans(len(x), sides[0]))
    column_spans = list(spans(len(y), sides[1]))
    may_meet = _id_ranges_meet(pairs, row_spans, column_spans)
    for r, rows in enumerate(row_spans):
        for c, columns in enumerate(column_spans):
            if pairs.symmetric and c < r:
                continue
            part = pairs.of(rows, columns, with_ids=may_meet[r][c])
            scores = part.x @ part.y.T
            excluded = excluded_pairs(part, scores)
            on_diagonal = pairs.symmetric and r == c
            yield Tile(
                *(part.x, part.y, rows, columns),
                *(scores, excluded, pairs.scaled, on_diagonal),
            )


def excluded_pairs(pairs: Pairs, scores: Tensor) -> Tensor | None:
    """Which of the pairs are left out, or None if none can be."""
    excluded = None
    if pairs.row_ids is not None and pairs.column_ids is not None:
        excluded = pairs.row_ids[:, None] == pairs.column_ids
    if pairs.low is not None:
        below = scores < pairs.low[:, None]
        excluded = below if excluded is None else excluded | below
    if pairs.high is not None:
        above = scores > pairs.high[:, None]
        excluded = above if excluded is None else excluded | above
    return excluded


def _id_ranges_meet(
    pairs: Pairs, row_spans: list[slice], column_spans: list[slice]
) -> list[list[bool]]:
    """Whether a tile can hold equal ids at all: most cannot, and skip the mask.

    Asking costs a wait for the device, so only a CPU is asked; a single tile is not.
    """
    asked = len(row_spans) + len(column_spans) > 2 and pairs.x.device.type == "cpu"
    if pairs.row_ids is None or pairs.column_ids is None or not asked:
        return [[True] * len(column_spans) for _ in row_spans]
    rows = [_range(pairs.row_ids[span]) for span in row_spans]
    columns = rows
    if pairs.column_ids is not pairs.row_ids or column_spans != row_spans:
        columns = [_range(pairs.column_ids[span]) for span in column_spans]
    return [[a <= d and c <= b for c, d in columns] for a, b in rows]


def _range(ids: Tensor) -> tuple[int, int]:
    low, high = torch.aminmax(ids)
    return int(low), int(high)
