r"""Sums over rows and columns where rows are too wide to be held: read step by step.

A matrix unit spreads the rows of a product over a program's threads and gives every
thread whole stretches of a row. So sums along a row are cheap, and sums down a column
cost more than the exponentials they add up. ``sum_wide_rows`` turns the tile around: a
tile's rows are the columns it walks over, whose sums are due at every tile, and the
rows that it owns lie along a tile's rows and are added up across threads once, at the
end. Steps of all tiles are one loop, so that the next tile is being read while the
terms of this one are computed.
"""

from typing import no_type_check

import triton
import triton.language as tl

from ._device import (
    EQUAL_IDS,
    LOG2E,
    PERIODIC_IDS,
    add_step,
    bound_logits,
    choose_shift,
    in_band,
    inside_and_apart,
    samples_meet,
    score_factor,
    terms_of,
)

# A warp has 16 rows of a product, and a thread of it two of them, 8 apart.
GROUP_ROWS, THREAD_ROWS = tl.constexpr(16), tl.constexpr(2)


@triton.jit
@no_type_check
def add_in_threads(
    total, terms, GROUPS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """Add those terms of each column that are in one thread; GROUPS at least remain."""
    repeats: tl.constexpr = BN // (GROUPS * GROUP_ROWS)
    apart: tl.constexpr = GROUP_ROWS // THREAD_ROWS
    terms = tl.reshape(terms, [repeats, GROUPS, THREAD_ROWS, apart, BM])
    return total + tl.sum(tl.sum(terms, 2), 0)


@triton.jit(do_not_specialize=["n", "m", "period", "start", "n_tiles", "spans"])
@no_type_check
def sum_wide_rows(
    x, x_low, y, y_low, bounds, scales, row_ids, column_ids, least_ids, most_ids,
    low, high, row_sums, column_sums,
    n, m, period, exponent_budget, parameter, offset, start, n_tiles, spans,
    FUNCTION: tl.constexpr, SCALES: tl.constexpr, RATIO: tl.constexpr,
    STRIDE: tl.constexpr, STEP: tl.constexpr, IDS: tl.constexpr, LOW: tl.constexpr,
    HIGH: tl.constexpr, EXACT: tl.constexpr, COLUMNS: tl.constexpr,
    UPPER: tl.constexpr, GROUPS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """What ``sum_rows`` computes. GROUPS: of a tile's rows, one per warp."""
    block, span = tl.program_id(0), tl.program_id(1)
    first_row = start + block * BM
    rows = first_row + tl.arange(0, BM)
    begin = first_row * 0
    if UPPER:
        begin = first_row // BN
    tiles_each = tl.cdiv(n_tiles - begin, spans)
    begin += span * tiles_each
    end = tl.minimum(begin + tiles_each, n_tiles)
    factor = score_factor(bounds)
    scale0 = tl.load(scales)
    slope0 = scale0 * factor * LOG2E
    shift0 = choose_shift(bound_logits(scale0, bounds), exponent_budget) * LOG2E
    slope1, shift1 = slope0, shift0
    if SCALES == 2:
        scale1 = tl.load(scales + 1)
        slope1 = scale1 * factor * LOG2E
        shift1 = choose_shift(bound_logits(scale1, bounds), exponent_budget) * LOG2E
        # what threads hold of two scales' terms would not fit their registers
        total0 = tl.zeros([BM], tl.float32)
        total1 = tl.zeros([BM], tl.float32)
    else:
        total0 = tl.zeros([GROUPS, GROUP_ROWS // THREAD_ROWS, BM], tl.float32)
    row_id = rows
    if IDS == EQUAL_IDS:
        row_id = tl.load(row_ids + tl.minimum(rows, n - 1))
        least_id, most_id = tl.min(row_id, 0), tl.max(row_id, 0)
    inner = tl.arange(0, STEP)[None, :]
    x_start = (tl.zeros([], tl.int64) + first_row) * STRIDE
    x_at = tl.arange(0, BM)[:, None] * STRIDE + inner
    y_at = tl.arange(0, BN)[:, None] * STRIDE + inner
    STEPS: tl.constexpr = STRIDE // STEP
    s = tl.zeros([BN, BM], tl.float32)
    for step in range(0, tl.maximum(end - begin, 0) * STEPS):
        tile, k = begin + step // STEPS, step % STEPS * STEP
        y_start = (tl.zeros([], tl.int64) + tile * BN) * STRIDE
        a, b = tl.load(y + y_start + k + y_at), tl.load(x + x_start + k + x_at)
        a_low, b_low = a, b
        if EXACT:
            a_low = tl.load(y_low + y_start + k + y_at)
            b_low = tl.load(x_low + x_start + k + x_at)
        s = add_step(s, a, a_low, b, b_low, EXACT)
        if k == STRIDE - STEP:
            columns = tile * BN + tl.arange(0, BN)
            term0, term1 = terms_of(
                s, factor, slope0, shift0, slope1, shift1, parameter, offset,
                FUNCTION, SCALES, RATIO,
            )  # fmt: skip
            if LOW + HIGH > 0:
                allowed = in_band(
                    tl.trans(s) * factor, rows, columns, low, high, n, m, LOW, HIGH
                )
                term0 = tl.where(tl.trans(allowed), term0, 0.0)
                if SCALES == 2:
                    term1 = tl.where(tl.trans(allowed), term1, 0.0)
            # ids and edges are looked at only where equal ids, or an edge, can be
            needs_mask = (tile + 1) * BN > m
            if COLUMNS:
                needs_mask = needs_mask | (first_row + BM > n)
            if UPPER:
                needs_mask = needs_mask | (tile * BN < first_row)
            if IDS == EQUAL_IDS:
                needs_mask = needs_mask | (
                    (tl.load(least_ids + tile) <= most_id)
                    & (tl.load(most_ids + tile) >= least_id)
                )
            if IDS == PERIODIC_IDS:
                meet = samples_meet(first_row, tile * BN, period, BM, BN)
                needs_mask = needs_mask | meet
            if needs_mask:
                allowed = inside_and_apart(
                    rows, columns, row_id, column_ids, n, m, period, IDS, COLUMNS
                )
                if UPPER:
                    allowed = allowed & (columns >= first_row)[None, :]
                term0 = tl.where(tl.trans(allowed), term0, 0.0)
                if SCALES == 2:
                    term1 = tl.where(tl.trans(allowed), term1, 0.0)
            if SCALES == 2:
                total0 += tl.sum(term0, 0)
                total1 += tl.sum(term1, 0)
            else:
                total0 = add_in_threads(total0, term0, GROUPS, BM, BN)
            if COLUMNS:
                stored = columns < m
                if UPPER:  # what lies on the diagonal is in the rows' sums already
                    stored = stored & (columns >= first_row + BM)
                at = column_sums + (block.to(tl.int64) * SCALES) * m + columns
                tl.store(at, tl.sum(term0, 1), mask=stored)
                if SCALES == 2:
                    tl.store(at + m, tl.sum(term1, 1), mask=stored)
            s = tl.zeros([BN, BM], tl.float32)
    out = row_sums + span.to(tl.int64) * SCALES * n + rows
    if SCALES == 2:
        tl.store(out, total0, mask=rows < n)
        tl.store(out + n, total1, mask=rows < n)
    else:
        tl.store(out, tl.sum(tl.sum(total0, 0), 0), mask=rows < n)
