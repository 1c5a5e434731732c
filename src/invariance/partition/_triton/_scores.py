"""A tile of scores, and which of its pairs count: what all kernels begin with.

Pairs are left out by ids (IDS 1), or because the two rows are of one sample of two
views (IDS 2): those whose distance in the matrix is 0 or ``period`` either way, which
needs no ids at all.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def load_part(
    base, first, ROWS: tl.constexpr, STRIDE: tl.constexpr, begin, WIDTH: tl.constexpr
):
    """Part of ROWS rows. They are padded with zeros, so nothing is masked."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    # one long number for the tile and short ones inside it
    start = (tl.zeros([], tl.int64) + first) * STRIDE + begin
    return tl.load(base + start + (rows[:, None] * STRIDE + columns[None, :]))


@triton.jit
@no_type_check
def add_product(s, a, a_low, b, b_low, EXACT: tl.constexpr):
    """S + a b^T; EXACT adds what rounding left of either, smallest terms first."""
    if EXACT:
        s = tl.dot(a_low, tl.trans(b), s)
        s = tl.dot(a, tl.trans(b_low), s)
    return tl.dot(a, tl.trans(b), s)


@triton.jit
@no_type_check
def wide_scores(
    x, x_low, y, y_low, first_row, first_column,
    STRIDE: tl.constexpr, STEP: tl.constexpr, EXACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """A tile of products of rows too wide to be held: step by step."""
    s = tl.zeros([BM, BN], tl.float32)
    inner = tl.arange(0, STEP)[None, :]
    x_at = (tl.zeros([], tl.int64) + first_row) * STRIDE
    y_at = (tl.zeros([], tl.int64) + first_column) * STRIDE
    x_in = tl.arange(0, BM)[:, None] * STRIDE + inner
    y_in = tl.arange(0, BN)[:, None] * STRIDE + inner
    for k in range(0, STRIDE, STEP):
        a, b = tl.load(x + x_at + k + x_in), tl.load(y + y_at + k + y_in)
        if EXACT:
            a_low = tl.load(x_low + x_at + k + x_in)
            b_low = tl.load(y_low + y_at + k + y_in)
            # a fresh sum for each step: a matrix unit truncates as it accumulates
            part = tl.dot(a_low, tl.trans(b))
            part = tl.dot(a, tl.trans(b_low), part)
            s += tl.dot(a, tl.trans(b), part)
        else:
            s = add_product(s, a, a, b, b, False)
    return s


@triton.jit
@no_type_check
def samples_meet(first_row, first_column, period, BM: tl.constexpr, BN: tl.constexpr):
    """Whether a tile can hold two rows of one sample."""
    least = first_row - first_column - (BN - 1)
    most = first_row - first_column + (BM - 1)
    meet = (least <= 0) & (most >= 0)
    meet = meet | ((least <= period) & (most >= period))
    return meet | ((least <= -period) & (most >= -period))


@triton.jit
@no_type_check
def inside_and_apart(
    rows, columns, row_id, column_ids, n, m, period,
    IDS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Pairs within the matrix, of different samples. ROWS: not past the last row."""
    keep = (columns < m)[None, :] & ((rows >= 0)[:, None])
    if ROWS:
        keep = keep & (rows < n)[:, None]
    if IDS == 1:
        column_id = tl.load(column_ids + tl.minimum(columns, m - 1))
        keep = keep & (row_id[:, None] != column_id[None, :])
    if IDS == 2:
        apart = rows[:, None] - columns[None, :]
        keep = keep & (apart != 0) & (apart != period) & (apart != -period)
    return keep


@triton.jit
@no_type_check
def in_band(s, rows, columns, low, high, n, m, LOW: tl.constexpr, HIGH: tl.constexpr):
    """Scores within their band: 1, the band of their row; 2, of their column."""
    keep = s == s
    if LOW == 1:
        keep = keep & (s >= tl.load(low + tl.minimum(rows, n - 1))[:, None])
    if LOW == 2:
        keep = keep & (s >= tl.load(low + tl.minimum(columns, m - 1))[None, :])
    if HIGH == 1:
        keep = keep & (s <= tl.load(high + tl.minimum(rows, n - 1))[:, None])
    if HIGH == 2:
        keep = keep & (s <= tl.load(high + tl.minimum(columns, m - 1))[None, :])
    return keep
