"""The forward kernel for rows whose sums left float32's range: with a maximum each."""

from typing import no_type_check

import triton
import triton.language as tl

from ._numbers import LN2, LOG2E, score_factor
from ._scores import add_product, in_band, inside_and_apart, load_part, wide_scores


@triton.jit(do_not_specialize=["n", "m", "period", "n_tiles"])
@no_type_check
def repair(
    x, x_low, y, y_low, bounds, scales, row_ids, column_ids, low, high, out,
    n, m, period, n_tiles,
    WIDTH: tl.constexpr, REST: tl.constexpr, STRIDE: tl.constexpr, STEP: tl.constexpr,
    IDS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Rows left at +inf once more, each with its own maximum; the others stay."""
    k = tl.program_id(1)
    first_row = tl.program_id(0) * BM
    rows = first_row + tl.arange(0, BM)
    at = out + k * n + rows
    broken = tl.load(at, mask=rows < n, other=0.0) == float("inf")
    end = tl.where(tl.max(broken.to(tl.int32), 0) > 0, n_tiles, 0)
    factor = score_factor(bounds)
    slope = tl.load(scales + k) * factor * LOG2E
    row_id = rows
    if IDS == 1:
        row_id = tl.load(row_ids + tl.minimum(rows, n - 1))
    highest = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    for tile in range(0, end):
        columns = tile * BN + tl.arange(0, BN)
        if WIDTH:
            s = tl.zeros([BM, BN], tl.float32)
            y0 = load_part(y, tile * BN, BN, STRIDE, 0, WIDTH)
            x0 = load_part(x, first_row, BM, STRIDE, 0, WIDTH)
            y1, x1 = y0, x0
            if EXACT:
                y1 = load_part(y_low, tile * BN, BN, STRIDE, 0, WIDTH)
                x1 = load_part(x_low, first_row, BM, STRIDE, 0, WIDTH)
            s = add_product(s, x0, x1, y0, y1, EXACT)
            if REST:
                y2 = load_part(y, tile * BN, BN, STRIDE, WIDTH, REST)
                x2 = load_part(x, first_row, BM, STRIDE, WIDTH, REST)
                y3, x3 = y2, x2
                if EXACT:
                    y3 = load_part(y_low, tile * BN, BN, STRIDE, WIDTH, REST)
                    x3 = load_part(x_low, first_row, BM, STRIDE, WIDTH, REST)
                s = add_product(s, x2, x3, y2, y3, EXACT)
        else:
            s = wide_scores(
                x, x_low, y, y_low, first_row, tile * BN, STRIDE, STEP, EXACT, BM, BN
            )
        keep = inside_and_apart(
            rows, columns, row_id, column_ids, n, m, period, IDS, False
        )
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
