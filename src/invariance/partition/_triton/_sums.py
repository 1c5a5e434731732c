r"""Forward kernels: every program owns some rows and walks over columns.

``sum_rows`` adds up $e^{a s_{ij} - c}$ with one constant c, or another function of
the scores; the same terms give the columns' sums where they are asked for. Of a
symmetric matrix it visits the tiles on and above the diagonal (UPPER): a row's sum is
then its own and its column's. ``add_columns`` and ``finish`` add partial sums in a
fixed order; ``finish`` takes the logarithm, or writes +inf for a sum that left
float32's range, which ``repair`` computes again. No sum is atomic: every number is
written by one program, and runs repeat bit for bit.
"""

from typing import no_type_check

import triton
import triton.language as tl

from ._functions import value_of
from ._numbers import LEAST, LN2, LOG2E, MODERATE, reach_of, score_factor, shift_of
from ._scores import (
    add_product,
    in_band,
    inside_and_apart,
    load_part,
    samples_meet,
    wide_scores,
)


@triton.jit(do_not_specialize=["n", "m", "period", "start", "n_tiles", "spans"])
@no_type_check
def sum_rows(
    x, x_low, y, y_low, bounds, scales, row_ids, column_ids, first, last, low, high,
    row_sums, column_sums,
    n, m, period, start, room, parameter, offset, n_tiles, spans,
    FUNCTION: tl.constexpr, SCALES: tl.constexpr, RATIO: tl.constexpr,
    WIDTH: tl.constexpr, REST: tl.constexpr, STRIDE: tl.constexpr, STEP: tl.constexpr,
    IDS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr,
    COLUMNS: tl.constexpr, UPPER: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Sums of a block of rows over a span of columns, rows from ``start`` on.

    RATIO: the first scale is so many times the second, so that its terms are powers.
    """
    block, span = tl.program_id(0), tl.program_id(1)
    first_row = start + block * BM
    rows = first_row + tl.arange(0, BM)
    begin = first_row * 0
    if UPPER:
        begin = first_row // BN
    each = tl.cdiv(n_tiles - begin, spans)
    begin += span * each
    end = tl.minimum(begin + each, n_tiles)
    factor = score_factor(bounds)
    scale0 = tl.load(scales)
    slope0 = scale0 * factor * LOG2E
    shift0 = shift_of(reach_of(scale0, bounds), room) * LOG2E
    total0 = tl.zeros([BM], tl.float32)
    if SCALES == 2:
        scale1 = tl.load(scales + 1)
        slope1 = scale1 * factor * LOG2E
        shift1 = shift_of(reach_of(scale1, bounds), room) * LOG2E
        total1 = tl.zeros([BM], tl.float32)
    row_id = rows
    if IDS == 1:
        row_id = tl.load(row_ids + tl.minimum(rows, n - 1))
        first_id, last_id = tl.min(row_id, 0), tl.max(row_id, 0)
        next_first = tl.load(first + tl.minimum(begin, n_tiles - 1))
        next_last = tl.load(last + tl.minimum(begin, n_tiles - 1))
    if WIDTH:
        x0 = load_part(x, first_row, BM, STRIDE, 0, WIDTH)
        x1 = x0
        if EXACT:
            x1 = load_part(x_low, first_row, BM, STRIDE, 0, WIDTH)
        if REST:
            x2 = load_part(x, first_row, BM, STRIDE, WIDTH, REST)
            x3 = x2
            if EXACT:
                x3 = load_part(x_low, first_row, BM, STRIDE, WIDTH, REST)
    for tile in range(begin, end):
        columns = tile * BN + tl.arange(0, BN)
        if WIDTH:
            y0 = load_part(y, tile * BN, BN, STRIDE, 0, WIDTH)
            y1 = y0
            if EXACT:
                y1 = load_part(y_low, tile * BN, BN, STRIDE, 0, WIDTH)
            s = tl.zeros([BM, BN], tl.float32)
            if REST:
                y2 = load_part(y, tile * BN, BN, STRIDE, WIDTH, REST)
                y3 = y2
                if EXACT:
                    y3 = load_part(y_low, tile * BN, BN, STRIDE, WIDTH, REST)
                s = add_product(s, x2, x3, y2, y3, EXACT)
            s = add_product(s, x0, x1, y0, y1, EXACT)
        else:
            s = wide_scores(
                x, x_low, y, y_low, first_row, tile * BN, STRIDE, STEP, EXACT, BM, BN
            )
        # ids and edges are looked at only where equal ids, or an edge, can be
        touched = (tile + 1) * BN > m
        if COLUMNS:
            touched = touched | (first_row + BM > n)
        if UPPER:
            touched = touched | (tile * BN < first_row)
        if IDS == 1:
            touched = touched | ((next_first <= last_id) & (next_last >= first_id))
            ahead = tl.minimum(tile + 1, n_tiles - 1)
            next_first, next_last = tl.load(first + ahead), tl.load(last + ahead)
        if IDS == 2:
            touched = touched | samples_meet(first_row, tile * BN, period, BM, BN)
        if SCALES == 2:
            term1 = tl.exp2(s * slope1 - shift1)
        if RATIO == 2:
            term0 = term1 * term1
        elif RATIO == 3:
            term0 = term1 * term1 * term1
        elif FUNCTION == 0:
            term0 = tl.exp2(s * slope0 - shift0)
        else:
            term0 = value_of(s * factor - offset, parameter, FUNCTION)
        if LOW + HIGH > 0:
            keep = in_band(s * factor, rows, columns, low, high, n, m, LOW, HIGH)
            term0 = tl.where(keep, term0, 0.0)
            if SCALES == 2:
                term1 = tl.where(keep, term1, 0.0)
        if touched:
            keep = inside_and_apart(
                rows, columns, row_id, column_ids, n, m, period, IDS, COLUMNS
            )
            if UPPER:
                keep = keep & (columns >= first_row)[None, :]
            term0 = tl.where(keep, term0, 0.0)
            if SCALES == 2:
                term1 = tl.where(keep, term1, 0.0)
        total0 += tl.sum(term0, 1)
        if SCALES == 2:
            total1 += tl.sum(term1, 1)
        if COLUMNS:
            there = columns < m
            if UPPER:  # what lies on the diagonal is in the rows' sums already
                there = there & (columns >= first_row + BM)
            at = column_sums + (block.to(tl.int64) * SCALES) * m + columns
            tl.store(at, tl.sum(term0, 0), mask=there)
            if SCALES == 2:
                tl.store(at + m, tl.sum(term1, 0), mask=there)
    out = row_sums + span.to(tl.int64) * SCALES * n + rows
    tl.store(out, total0, mask=rows < n)
    if SCALES == 2:
        tl.store(out + n, total1, mask=rows < n)


@triton.jit(do_not_specialize=["m", "blocks", "start", "began"])
@no_type_check
def add_columns(
    partial, out, m, blocks, start, began,
    SCALES: tl.constexpr, UPPER: tl.constexpr, BM: tl.constexpr, BLOCK: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Add the blocks' column sums to ``out``, or write them if nothing has begun.

    UPPER: a block has written only the columns behind its own rows.
    """
    k = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    last = tl.minimum(tl.program_id(0) * BLOCK + BLOCK, m)
    end = blocks
    if UPPER:
        end = tl.minimum(tl.maximum((last - start) // BM, 0), blocks)
    there = tl.where(began > 0, m, 0)
    total = tl.load(out + k * m + at, mask=at < there, other=0.0)
    for first in range(0, end, PARTS):
        part = first + tl.arange(0, PARTS)
        inside = (part < blocks)[:, None] & (at < m)[None, :]
        if UPPER:
            inside = inside & ((start + (part + 1) * BM)[:, None] <= at[None, :])
        line = (part.to(tl.int64) * SCALES + k)[:, None] * m
        total += tl.sum(tl.load(partial + line + at, mask=inside, other=0.0), 0)
    tl.store(out + k * m + at, total, mask=at < m)


@triton.jit(do_not_specialize=["n", "parts"])
@no_type_check
def finish(
    partial, out, bounds, scales, n, parts, room,
    SCALES: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Log of the sum of partial sums, or +inf where it left the safe range."""
    k = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, parts, PARTS):
        part = start + tl.arange(0, PARTS)
        line = (part.to(tl.int64) * SCALES + k)[:, None] * n
        inside = (part < parts)[:, None] & (at < n)[None, :]
        total += tl.sum(tl.load(partial + line + at, mask=inside, other=0.0), 0)
    reach = reach_of(tl.load(scales + k), bounds)
    least = tl.where(reach <= MODERATE, 1.2e-38, tl.exp2((LEAST - room) * LOG2E))
    safe = (total >= least) & (total < 1e38)
    value = tl.log2(total) * LN2 + shift_of(reach, room)
    value = tl.where(safe, value, float("inf"))
    value = tl.where(total == total, value, total)  # NaN stays NaN
    tl.store(out + k * n + at, value, mask=at < n)
