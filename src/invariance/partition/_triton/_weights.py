"""The weights of pairs, written out tile by tile for rows too wide to be held.

From them the gradient is two plain products, which are the matrix library's: beyond a
width of about 256 it beats a fused kernel, and rows and columns share one set of
weights. Only a patch of the matrix has its weights written out at a time.
"""

from typing import no_type_check

import triton
import triton.language as tl

from ._gradient import slope_weight, vector, weight_of
from ._numbers import (
    LOG2E,
    exponent_to,
    lift_of,
    power_of_two,
    reach_of,
    score_factor,
    shift_of,
)
from ._scores import in_band, inside_and_apart, samples_meet, wide_scores


@triton.jit(do_not_specialize=["top", "left", "n", "m", "period", "across"])
@no_type_check
def write_weights(
    x, x_low, y, y_low, bounds, scales, row_ids, column_ids, first, last, low, high,
    row_addend, row_apart, row_shared, column_addend, column_apart, column_shared,
    guard, largest, back, out, out_low,
    top, left, n, m, period, across, room, parameter, offset, steepness,
    FUNCTION: tl.constexpr, SCALES: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, SHARED: tl.constexpr, GUARDED: tl.constexpr,
    STRIDE: tl.constexpr, STEP: tl.constexpr, IDS: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One tile of a patch of G, as float16 (and the rest if EXACT).

    The patch begins at row ``top`` and column ``left``, which is a multiple of BN, and
    is ``across`` columns wide.

    ``back`` is what the products of G with y and with x are to be multiplied with.
    """
    # neighbours in time share rows and columns, so that the cache serves them
    across = tl.multiple_of(across, 256)  # the padding of _layout
    width = tl.cdiv(across, BN)
    program = tl.program_id(0)
    each = GROUP * width
    head = program // each * GROUP
    height = tl.minimum(tl.num_programs(0) // width - head, GROUP)
    block, nth = head + program % each % height, program % each // height
    local, beside = block * BM + tl.arange(0, BM), nth * BN + tl.arange(0, BN)
    first_row, tile = top + block * BM, left // BN + nth
    rows, columns = top + local, left + beside
    s = wide_scores(
        x, x_low, y, y_low, first_row, tile * BN, STRIDE, STEP, EXACT, BM, BN
    )
    factor = score_factor(bounds)
    lift = lift_of(largest, scales, steepness, SCALES)
    more = lift.to(tl.float32)
    if program == 0:
        for side in tl.static_range(2):
            rounding = power_of_two(-exponent_to(tl.load(bounds + 1 - side), 9))
            tl.store(back + side, power_of_two(-lift) * rounding)
    at_row, at_column = tl.minimum(rows, n - 1), tl.minimum(columns, m - 1)
    weight = tl.zeros([BM, BN], tl.float32)
    if FUNCTION == 0:
        for k in tl.static_range(SCALES):
            scale = tl.load(scales + k)
            slope = scale * factor * LOG2E
            shift = shift_of(reach_of(scale, bounds), room) * LOG2E - more
            if SHARED:
                row_weight = tl.load(row_shared + k * n + at_row)
                column_weight = tl.load(column_shared + k * m + at_column)
                term = weight_of(
                    s, slope, shift, rows, row_weight, columns, column_weight,
                    ROWS, COLUMNS, True,
                )  # fmt: skip
                if GUARDED:  # noqa: SIM102 (one is known when compiling)
                    if tl.load(guard) != 0:
                        term = weight_of(
                            s, slope, shift,
                            tl.load(row_addend + k * n + at_row) + more,
                            tl.load(row_apart + k * n + at_row),
                            tl.load(column_addend + k * m + at_column) + more,
                            tl.load(column_apart + k * m + at_column),
                            ROWS, COLUMNS, False,
                        )  # fmt: skip
            else:
                term = weight_of(
                    s, slope, shift,
                    vector(row_addend + k * n, at_row, ROWS) + more,
                    vector(row_apart + k * n, at_row, ROWS),
                    vector(column_addend + k * m, at_column, COLUMNS) + more,
                    vector(column_apart + k * m, at_column, COLUMNS),
                    ROWS, COLUMNS, False,
                )  # fmt: skip
            weight += term
    else:
        lifted = power_of_two(lift)
        weight = slope_weight(
            s * factor - offset, parameter,
            vector(row_apart, at_row, ROWS) * lifted,
            vector(column_apart, at_column, COLUMNS) * lifted,
            FUNCTION, ROWS, COLUMNS,
        )  # fmt: skip
    if LOW + HIGH > 0:
        keep = in_band(s * factor, rows, columns, low, high, n, m, LOW, HIGH)
        weight = tl.where(keep, weight, 0.0)
    row_id = rows
    touched = ((tile + 1) * BN > m) | (first_row + BM > n)
    if IDS == 2:
        touched = touched | samples_meet(first_row, tile * BN, period, BM, BN)
    if IDS == 1:
        row_id = tl.load(row_ids + at_row)
        first_id, last_id = tl.min(row_id, 0), tl.max(row_id, 0)
        meet = (tl.load(first + tile) <= last_id) & (tl.load(last + tile) >= first_id)
        touched = touched | meet
    if touched:
        keep = inside_and_apart(
            rows, columns, row_id, column_ids, n, m, period, IDS, True
        )
        weight = tl.where(keep, weight, 0.0)
    high16 = weight.to(tl.float16)
    at = local.to(tl.int64)[:, None] * across + beside[None, :]
    tl.store(out + at, high16)
    if EXACT:
        tl.store(out_low + at, (weight - high16.to(tl.float32)).to(tl.float16))
