r"""Backward kernels: every program owns the gradient of some rows.

The pair (i, j) weighs $G_{ij} = a\,(g_i e^{a s_{ij} - P_i} + g_j e^{a s_{ij} - P_j})$,
with the first part for row sums and the second for column sums; a symmetric matrix has
both, and one product gives its whole gradient. Under a constant shift c both parts
share one exponential, $e^{a s - c}(w_i + w_j)$. G goes into the second product as
float16, lifted by a power of two so that its range is used (``lift_of``): as part of
the exponent, which costs nothing and keeps the weights w ordinary numbers.

Of rows too wide for its registers a program owns CHUNK columns, and every one computes
the scores again: good for few rows. Many go another way (``_weights``).
"""

from typing import no_type_check

import triton
import triton.language as tl

from ._functions import slope_of
from ._numbers import (
    LOG2E,
    exponent_to,
    lift_of,
    power_of_two,
    reach_of,
    score_factor,
    shift_of,
)
from ._scores import (
    add_product,
    in_band,
    inside_and_apart,
    load_part,
    samples_meet,
    wide_scores,
)

FLOAT16_MAX = tl.constexpr(65504.0)


@triton.jit
@no_type_check
def vector(base, at, USED: tl.constexpr):
    """Numbers of some rows, or anything where they are not used."""
    numbers = at
    if USED:
        numbers = tl.load(base + at)
    return numbers


@triton.jit
@no_type_check
def weight_of(
    s, slope, shift, row_addend, row_weight, column_addend, column_weight,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """Softmax weights of a tile of pairs at one scale."""
    logit = s * slope
    if SHARED:
        both = row_weight[:, None] + column_weight[None, :]
        weight = tl.exp2(logit - shift) * both
    elif ROWS:
        weight = tl.exp2(logit + row_addend[:, None]) * row_weight[:, None]
        if COLUMNS:
            weight += tl.exp2(logit + column_addend[None, :]) * column_weight[None, :]
    else:
        weight = tl.exp2(logit + column_addend[None, :]) * column_weight[None, :]
    return weight


@triton.jit
@no_type_check
def power_weights(
    s, slope, shift, row_weight0, column_weight0, row_weight1, column_weight1,
    RATIO: tl.constexpr,
):  # fmt: skip
    """Softmax weights at two scales, from the second's exponential alone."""
    small = tl.exp2(s * slope - shift)
    large = small
    if RATIO == 3:
        large = small * small
    # e^RATIO w0 + e w1 = e (e^(RATIO - 1) w0 + w1)
    weight = large * (row_weight0[:, None] + column_weight0[None, :])
    weight += row_weight1[:, None] + column_weight1[None, :]
    return small * weight


@triton.jit
@no_type_check
def slope_weight(
    score, parameter, row_weight, column_weight,
    FUNCTION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Weights of a tile of pairs for another function of the scores."""
    weight = slope_of(score, parameter, FUNCTION)
    if ROWS and COLUMNS:
        weight = weight * (row_weight[:, None] + column_weight[None, :])
    elif ROWS:
        weight = weight * row_weight[:, None]
    else:
        weight = weight * column_weight[None, :]
    if FUNCTION == 4:  # a cusp is steeper than scores are resolved
        weight = tl.minimum(tl.maximum(weight, -FLOAT16_MAX), FLOAT16_MAX)
    return weight


@triton.jit(
    do_not_specialize=[
        "n", "m", "period", "n_tiles", "tiles_each", "wanted", "part_rows"
    ]
)  # fmt: skip
@no_type_check
def gradient(
    x, x_low, y, y_low, bounds, scales, row_ids, column_ids, first, last, low, high,
    row_addend, row_weight, column_addend, column_weight, guard, largest, out,
    n, m, period, room, parameter, offset, steepness,
    n_tiles, tiles_each, wanted, part_rows,
    FUNCTION: tl.constexpr, SCALES: tl.constexpr, RATIO: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SHARED: tl.constexpr,
    GUARDED: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, REST: tl.constexpr,
    STRIDE: tl.constexpr, STEP: tl.constexpr, CHUNK: tl.constexpr, IDS: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """Gradient of a block of rows from a span of columns.

    GUARDED: does nothing unless ``guard`` holds the wanted value. RATIO (if SHARED):
    the first scale is so many times the second.
    """
    block, span = tl.program_id(0), tl.program_id(1)
    first_row = block * BM
    rows = first_row + tl.arange(0, BM)
    begin = span * tiles_each
    end = tl.minimum(begin + tiles_each, n_tiles)
    limit = n
    if GUARDED:
        meant = tl.load(guard) == wanted
        end = tl.where(meant, end, begin)
        limit = tl.where(meant, n, 0)
    write = rows < limit
    OWN: tl.constexpr = (FUNCTION == 0) and not SHARED
    # the lift is in the exponent, unless a weight is more than one exponential
    IN_WEIGHTS: tl.constexpr = FUNCTION > 0 or RATIO > 0
    lift = lift_of(largest, scales, steepness, SCALES)
    lifted0, factor = power_of_two(lift), score_factor(bounds)
    lifted1, more = lifted0, lift.to(tl.float32)
    if FUNCTION > 0:
        more = 0.0
    if RATIO > 0:
        # then the exponential's powers multiply it: a weight over a tiny sum has no
        # room for all of the lift
        each = lift // RATIO
        more = each.to(tl.float32)
        lifted0 = power_of_two(lift - RATIO * each)
        lifted1 = power_of_two(lift - each)
    scale0 = tl.load(scales)
    slope0 = scale0 * factor * LOG2E
    shift0 = shift_of(reach_of(scale0, bounds), room) * LOG2E - more
    at_row = tl.minimum(rows, n - 1)
    row_weight0 = vector(row_weight, at_row, ROWS)
    row_addend0 = vector(row_addend, at_row, ROWS and OWN)
    if OWN and ROWS:
        row_addend0 += more
    if IN_WEIGHTS and ROWS:
        row_weight0 *= lifted0
    if SCALES == 2:
        scale1 = tl.load(scales + 1)
        slope1 = scale1 * factor * LOG2E
        shift1 = shift_of(reach_of(scale1, bounds), room) * LOG2E - more
        row_weight1 = vector(row_weight + n, at_row, ROWS)
        row_addend1 = vector(row_addend + n, at_row, ROWS and OWN)
        if OWN and ROWS:
            row_addend1 += more
        if IN_WEIGHTS and ROWS:
            row_weight1 *= lifted1
    row_id = rows
    if IDS == 1:
        row_id = tl.load(row_ids + at_row)
        first_id, last_id = tl.min(row_id, 0), tl.max(row_id, 0)
        next_first = tl.load(first + tl.minimum(begin, n_tiles - 1))
        next_last = tl.load(last + tl.minimum(begin, n_tiles - 1))
    # the columns of the gradient that a program owns: all, unless rows are wide
    OWNED: tl.constexpr = WIDTH + CHUNK
    owned = tl.program_id(2) * CHUNK
    total0 = tl.zeros([BM, OWNED], tl.float32)
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
        total2 = tl.zeros([BM, REST], tl.float32)
    for tile in range(begin, end):
        columns = tile * BN + tl.arange(0, BN)
        at_column = tl.minimum(columns, m - 1)
        y0 = load_part(y, tile * BN, BN, STRIDE, owned, OWNED)
        y1 = y0
        if EXACT:
            y1 = load_part(y_low, tile * BN, BN, STRIDE, owned, OWNED)
        s = tl.zeros([BM, BN], tl.float32)
        if CHUNK:
            s = wide_scores(
                x, x_low, y, y_low, first_row, tile * BN, STRIDE, STEP, EXACT, BM, BN
            )
        if REST:
            y2 = load_part(y, tile * BN, BN, STRIDE, WIDTH, REST)
            y3 = y2
            if EXACT:
                y3 = load_part(y_low, tile * BN, BN, STRIDE, WIDTH, REST)
            s = add_product(s, x2, x3, y2, y3, EXACT)
        if WIDTH:
            s = add_product(s, x0, x1, y0, y1, EXACT)
        column_weight0 = vector(column_weight, at_column, COLUMNS)
        column_addend0 = vector(column_addend, at_column, COLUMNS and OWN)
        if OWN and COLUMNS:
            column_addend0 += more
        if IN_WEIGHTS and COLUMNS:
            column_weight0 *= lifted0
        if SCALES == 2:
            column_weight1 = vector(column_weight + m, at_column, COLUMNS)
            column_addend1 = vector(column_addend + m, at_column, COLUMNS and OWN)
            if OWN and COLUMNS:
                column_addend1 += more
            if IN_WEIGHTS and COLUMNS:
                column_weight1 *= lifted1
        if RATIO > 0:
            weight = power_weights(
                s, slope1, shift1, row_weight0, column_weight0,
                row_weight1, column_weight1, RATIO,
            )  # fmt: skip
        elif FUNCTION == 0:
            weight = weight_of(
                s, slope0, shift0, row_addend0, row_weight0,
                column_addend0, column_weight0, ROWS, COLUMNS, SHARED,
            )  # fmt: skip
            if SCALES == 2:
                weight += weight_of(
                    s, slope1, shift1, row_addend1, row_weight1,
                    column_addend1, column_weight1, ROWS, COLUMNS, SHARED,
                )  # fmt: skip
        else:
            weight = slope_weight(
                s * factor - offset, parameter, row_weight0, column_weight0,
                FUNCTION, ROWS, COLUMNS,
            )  # fmt: skip
        if LOW + HIGH > 0:
            keep = in_band(s * factor, rows, columns, low, high, n, m, LOW, HIGH)
            weight = tl.where(keep, weight, 0.0)
        touched = (tile + 1) * BN > m
        if IDS == 2:
            touched = touched | samples_meet(first_row, tile * BN, period, BM, BN)
        if IDS == 1:
            touched = touched | ((next_first <= last_id) & (next_last >= first_id))
            ahead = tl.minimum(tile + 1, n_tiles - 1)
            next_first, next_last = tl.load(first + ahead), tl.load(last + ahead)
        if touched:
            keep = inside_and_apart(
                rows, columns, row_id, column_ids, n, m, period, IDS, False
            )
            weight = tl.where(keep, weight, 0.0)
        high16 = weight.to(tl.float16)
        if EXACT:
            # a fresh sum for each tile: a matrix unit truncates as it accumulates
            low16 = (weight - high16.to(tl.float32)).to(tl.float16)
            part = tl.dot(low16, y0)
            part = tl.dot(high16, y1, part)
            total0 += tl.dot(high16, y0, part)
            if REST:
                part = tl.dot(low16, y2)
                part = tl.dot(high16, y3, part)
                total2 += tl.dot(high16, y2, part)
        else:
            total0 = tl.dot(high16, y0, total0)
            if REST:
                total2 = tl.dot(high16, y2, total2)
    back = power_of_two(-lift) * power_of_two(-exponent_to(tl.load(bounds + 1), 9))
    at = out + (span.to(tl.int64) * part_rows + rows)[:, None] * D
    here = owned + tl.arange(0, OWNED)
    inside = write[:, None] & (here < D)[None, :]
    tl.store(at + here[None, :], total0 * back, mask=inside)
    if REST:
        here = WIDTH + tl.arange(0, REST)
        inside = write[:, None] & (here < D)[None, :]
        tl.store(at + here[None, :], total2 * back, mask=inside)
