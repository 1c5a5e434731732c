r"""Kernels around a loss of two views: unit rows in, gradients of the rows out.

``enter`` reads each pair of rows once and leaves what everything else needs: rounded
unit rows, lengths, and the positive's logit $a\,\hat u_i\cdot\hat v_i$ in float32.
``leave`` turns gradients of unit rows and positives into those of the rows:
$du = (g - \hat u\,(\hat u\cdot g)) / |u|$.
"""

from typing import no_type_check

import triton
import triton.language as tl

from ._numbers import row_factor

# Places in ``state``; before them the bounds of both sides, which are 1.
FIRST_SCALE = tl.constexpr(4)
SECOND_SCALE = tl.constexpr(5)
LARGEST_SLOPE = tl.constexpr(6)


@triton.jit
@no_type_check
def unit_row(base, at, inside, least):
    """Some rows divided by their length, and the lengths; a short row stays."""
    row = tl.load(base + at, mask=inside, other=0.0).to(tl.float32)
    length = tl.sqrt_rn(tl.sum(row * row, 1))
    length = tl.where(length > least, length, 1.0)
    return tl.div_rn(row, length[:, None]), length


@triton.jit
@no_type_check
def store_rounded(tiles, rows, there, unit, padded, EXACT: tl.constexpr):
    """Rows of length one as the kernels take them."""
    value = unit * row_factor(tl.full([], 1.0, tl.float32))
    high = value.to(tl.float16)
    tl.store(tiles + rows, high, mask=there)
    if EXACT:
        low = (value - high.to(tl.float32)).to(tl.float16)
        tl.store(tiles + padded + rows, low, mask=there)


@triton.jit(do_not_specialize=["n", "u_end", "v_end", "v_start", "padded"])
@no_type_check
def enter(
    u, v, tiles, lengths, positive, state,
    n, u_end, v_end, v_start, padded, scale, scale0, scale1, least,
    D: tl.constexpr, STRIDE: tl.constexpr, EXACT: tl.constexpr,
    DISTANCE: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Rounded unit rows of both views (zeros up to ``end``), and their products.

    DISTANCE: $1 - |a - b|^2 / 2$ for a product, which differs if a row has no length.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    long = rows.to(tl.int64)
    inside = (rows < n)[:, None] & (columns < D)[None, :]
    at = long[:, None] * D + columns[None, :]
    a, a_length = unit_row(u, at, inside, least)
    b, b_length = unit_row(v, at, inside, least)
    across = (columns < STRIDE)[None, :]
    behind = (tl.zeros([], tl.int64) + padded) * STRIDE
    to = long[:, None] * STRIDE + columns[None, :]
    store_rounded(tiles, to, (rows < u_end)[:, None] & across, a, behind, EXACT)
    to = (long + v_start)[:, None] * STRIDE + columns[None, :]
    store_rounded(tiles, to, (rows < v_end)[:, None] & across, b, behind, EXACT)
    product = tl.sum(a * b, 1)
    if DISTANCE:
        product = 1.0 - 0.5 * tl.sum((a - b) * (a - b), 1)
    tl.store(positive + rows, product * scale, mask=rows < n)
    tl.store(lengths + rows, a_length, mask=rows < n)
    tl.store(lengths + n + rows, b_length, mask=rows < n)
    if tl.program_id(0) == 0:
        places = tl.arange(0, 8)
        scales = tl.where(places == SECOND_SCALE, scale1, scale0)
        # behind the scales the largest gradient of a row, none so far
        numbers = tl.where(places < FIRST_SCALE, 1.0,
                           tl.where(places <= SECOND_SCALE, scales, 0.0))  # fmt: skip
        tl.store(state + places, numbers)


@triton.jit
@no_type_check
def through_length(unit, other, g, length, along):
    """Gradient of a row from that of its unit row and of its positive's logit."""
    g += along[:, None] * other
    kept = tl.sum(unit * unit, 1) > 0.5  # a row left as it was has no length to keep
    inward = tl.where(kept, tl.sum(unit * g, 1), 0.0)
    return (g - unit * inward[:, None]) / length[:, None]


@triton.jit(do_not_specialize=["n", "parts"])
@no_type_check
def leave(
    u, v, vectors, terms, extra, outer, du, dv, n, parts, scale,
    EXTRA: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Gradients of both views' rows from the terms of their unit rows' gradients.

    ``vectors`` begins with 2 n lengths and 2 n derivatives by the positives; ``extra``
    is one more term if EXTRA; ``outer`` is what comes from outside, multiplied before
    anything is rounded.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    there = rows < n
    inside = there[:, None] & (columns < D)[None, :]
    at = rows.to(tl.int64)[:, None] * D + columns[None, :]
    behind = (tl.zeros([], tl.int64) + n) * D
    a_length = tl.load(vectors + rows, mask=there, other=1.0)
    b_length = tl.load(vectors + n + rows, mask=there, other=1.0)
    a = tl.load(u + at, mask=inside, other=0.0).to(tl.float32) / a_length[:, None]
    b = tl.load(v + at, mask=inside, other=0.0).to(tl.float32) / b_length[:, None]
    a_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    b_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    for part in range(0, parts):
        skip = 2 * behind * part
        a_sum += tl.load(terms + skip + at, mask=inside, other=0.0)
        b_sum += tl.load(terms + skip + behind + at, mask=inside, other=0.0)
    if EXTRA:
        a_sum += tl.load(extra + at, mask=inside, other=0.0)
        b_sum += tl.load(extra + behind + at, mask=inside, other=0.0)
    along = tl.load(vectors + 2 * n + rows, mask=there, other=0.0)
    along += tl.load(vectors + 3 * n + rows, mask=there, other=0.0)
    times = tl.load(outer)
    a_sum = through_length(a, b, a_sum, a_length, along * scale) * times
    b_sum = through_length(b, a, b_sum, b_length, along * scale) * times
    tl.store(du + at, a_sum.to(du.dtype.element_ty), mask=inside)
    tl.store(dv + at, b_sum.to(dv.dtype.element_ty), mask=inside)
