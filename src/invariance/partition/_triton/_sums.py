r"""Forward kernels: every program owns some rows and walks over all columns.

``sum_rows`` adds up $e^{a s_{ij} - c}$ with one constant c, or another function of
the scores; the same terms give the columns' sums where they are asked for. ``finish``
adds partial sums in a fixed order and takes the logarithm, or writes +inf for a sum
that left float32's range; ``repair`` computes those rows again, following each row's
own maximum, and does nothing where there are none. No atomics: every number is written
by one program, and runs repeat bit for bit.
"""

from typing import no_type_check

import triton
import triton.language as tl

from ._functions import value_of
from ._numbers import LEAST, LN2, LOG2E, MODERATE, reach_of, score_factor, shift_of
from ._scores import add_product, in_band, inside_and_apart, load_part, wide_scores


@triton.jit(do_not_specialize=["n", "m", "row_stride", "n_tiles", "tiles_each"])
@no_type_check
def sum_rows(
    x, x_low, y, y_low, bounds, scales, row_ids, column_ids, first, last, low, high,
    row_sums, column_sums, n, m, row_stride, room, parameter, offset,
    n_tiles, tiles_each,
    FUNCTION: tl.constexpr, SCALES: tl.constexpr, WIDTH: tl.constexpr,
    REST: tl.constexpr, STRIDE: tl.constexpr, STEP: tl.constexpr, IDS: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr, COLUMNS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Sums of a block of rows over a span of columns."""
    block, span = tl.program_id(0), tl.program_id(1)
    rows = block * BM + tl.arange(0, BM)
    begin = span * tiles_each
    end = tl.minimum(begin + tiles_each, n_tiles)
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
    if IDS:
        row_id = tl.load(row_ids + tl.minimum(rows, n - 1))
        first_row, last_row = tl.min(row_id, 0), tl.max(row_id, 0)
        next_first = tl.load(first + tl.minimum(begin, n_tiles - 1))
        next_last = tl.load(last + tl.minimum(begin, n_tiles - 1))
    if WIDTH:
        x0 = load_part(x, rows, STRIDE, 0, WIDTH)
        x1 = x0
        if EXACT:
            x1 = load_part(x_low, rows, STRIDE, 0, WIDTH)
        if REST:
            x2 = load_part(x, rows, STRIDE, WIDTH, REST)
            x3 = x2
            if EXACT:
                x3 = load_part(x_low, rows, STRIDE, WIDTH, REST)
    for tile in range(begin, end):
        columns = tile * BN + tl.arange(0, BN)
        if WIDTH:
            y0 = load_part(y, columns, STRIDE, 0, WIDTH)
            y1 = y0
            if EXACT:
                y1 = load_part(y_low, columns, STRIDE, 0, WIDTH)
            s = tl.zeros([BM, BN], tl.float32)
            if REST:
                y2 = load_part(y, columns, STRIDE, WIDTH, REST)
                y3 = y2
                if EXACT:
                    y3 = load_part(y_low, columns, STRIDE, WIDTH, REST)
                s = add_product(s, x2, x3, y2, y3, EXACT)
            s = add_product(s, x0, x1, y0, y1, EXACT)
        else:
            s = wide_scores(
                x, x_low, y, y_low, rows, columns, STRIDE, STEP, EXACT, BM, BN
            )
        # ids and edges are looked at only where equal ids, or an edge, can be
        touched = (tile + 1) * BN > m
        if COLUMNS:
            touched = touched | ((block + 1) * BM > n)
        if IDS:
            touched = touched | ((next_first <= last_row) & (next_last >= first_row))
            ahead = tl.minimum(tile + 1, n_tiles - 1)
            next_first, next_last = tl.load(first + ahead), tl.load(last + ahead)
        if FUNCTION == 0:
            term0 = tl.exp2(s * slope0 - shift0)
        else:
            term0 = value_of(s * factor - offset, parameter, FUNCTION)
        if SCALES == 2:
            term1 = tl.exp2(s * slope1 - shift1)
        if LOW + HIGH > 0:
            keep = in_band(s * factor, rows, columns, low, high, n, m, LOW, HIGH)
            term0 = tl.where(keep, term0, 0.0)
            if SCALES == 2:
                term1 = tl.where(keep, term1, 0.0)
        if touched:
            keep = inside_and_apart(
                rows, columns, row_id, column_ids, n, m, IDS, COLUMNS
            )
            term0 = tl.where(keep, term0, 0.0)
            if SCALES == 2:
                term1 = tl.where(keep, term1, 0.0)
        total0 += tl.sum(term0, 1)
        if SCALES == 2:
            total1 += tl.sum(term1, 1)
        if COLUMNS:
            at = column_sums + block.to(tl.int64) * m + columns
            tl.store(at, tl.sum(term0, 0), mask=columns < m)
    out = row_sums + span.to(tl.int64) * SCALES * row_stride + rows
    tl.store(out, total0, mask=rows < n)
    if SCALES == 2:
        tl.store(out + row_stride, total1, mask=rows < n)


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
    tl.store(out + k * n + at, tl.where(safe, value, float("inf")), mask=at < n)


@triton.jit(do_not_specialize=["n", "m", "n_tiles"])
@no_type_check
def repair(
    x, x_low, y, y_low, bounds, scales, row_ids, column_ids, low, high, out, n, m,
    n_tiles,
    WIDTH: tl.constexpr, REST: tl.constexpr, STRIDE: tl.constexpr, STEP: tl.constexpr,
    IDS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Rows left at +inf once more, each with its own maximum; the others stay."""
    k = tl.program_id(1)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    at = out + k * n + rows
    broken = tl.load(at, mask=rows < n, other=0.0) == float("inf")
    end = tl.where(tl.max(broken.to(tl.int32), 0) > 0, n_tiles, 0)
    factor = score_factor(bounds)
    slope = tl.load(scales + k) * factor * LOG2E
    row_id = rows
    if IDS:
        row_id = tl.load(row_ids + tl.minimum(rows, n - 1))
    highest = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    for tile in range(0, end):
        columns = tile * BN + tl.arange(0, BN)
        if WIDTH:
            s = tl.zeros([BM, BN], tl.float32)
            y0 = load_part(y, columns, STRIDE, 0, WIDTH)
            x0 = load_part(x, rows, STRIDE, 0, WIDTH)
            y1, x1 = y0, x0
            if EXACT:
                y1 = load_part(y_low, columns, STRIDE, 0, WIDTH)
                x1 = load_part(x_low, rows, STRIDE, 0, WIDTH)
            s = add_product(s, x0, x1, y0, y1, EXACT)
            if REST:
                y2 = load_part(y, columns, STRIDE, WIDTH, REST)
                x2 = load_part(x, rows, STRIDE, WIDTH, REST)
                y3, x3 = y2, x2
                if EXACT:
                    y3 = load_part(y_low, columns, STRIDE, WIDTH, REST)
                    x3 = load_part(x_low, rows, STRIDE, WIDTH, REST)
                s = add_product(s, x2, x3, y2, y3, EXACT)
        else:
            s = wide_scores(
                x, x_low, y, y_low, rows, columns, STRIDE, STEP, EXACT, BM, BN
            )
        keep = inside_and_apart(rows, columns, row_id, column_ids, n, m, IDS, False)
        if LOW + HIGH > 0:
            band = in_band(s * factor, rows, columns, low, high, n, m, LOW, HIGH)
            keep = keep & band
        logit = tl.where(keep, s * slope, float("-inf"))
        now = tl.maximum(highest, tl.max(logit, 1))
        base = tl.where(now == float("-inf"), 0.0, now)
        total = total * tl.exp2(highest - base)
        total += tl.sum(tl.exp2(logit - base[:, None]), 1)
        highest = now
    base = tl.where(highest == float("-inf"), 0.0, highest)
    value = (base + tl.log2(total)) * LN2
    tl.store(at, value, mask=broken & (rows < n))
