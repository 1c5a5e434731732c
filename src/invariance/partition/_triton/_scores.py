"""A tile of scores, and which of its pairs count: what all kernels begin with."""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def load_part(
    base, rows, STRIDE: tl.constexpr, START: tl.constexpr, WIDTH: tl.constexpr
):
    """Part of some rows. They are padded with zeros, so nothing is masked."""
    columns = START + tl.arange(0, WIDTH)
    return tl.load(base + rows.to(tl.int64)[:, None] * STRIDE + columns[None, :])


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
    x, x_low, y, y_low, rows, columns,
    STRIDE: tl.constexpr, STEP: tl.constexpr, EXACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """A tile of products of rows too wide to be held: step by step."""
    s = tl.zeros([BM, BN], tl.float32)
    inner = tl.arange(0, STEP)[None, :]
    x_at = rows.to(tl.int64)[:, None] * STRIDE + inner
    y_at = columns.to(tl.int64)[:, None] * STRIDE + inner
    for k in range(0, STRIDE, STEP):
        a, b = tl.load(x + x_at + k), tl.load(y + y_at + k)
        if EXACT:
            a_low, b_low = tl.load(x_low + x_at + k), tl.load(y_low + y_at + k)
            s = add_product(s, a, a_low, b, b_low, True)
        else:
            s = add_product(s, a, a, b, b, False)
    return s


@triton.jit
@no_type_check
def inside_and_apart(
    rows, columns, row_id, column_ids, n, m, IDS: tl.constexpr, ROWS: tl.constexpr
):
    """Pairs within the matrix whose ids differ. ROWS: rows past the end count too."""
    keep = (columns < m)[None, :] & ((rows >= 0)[:, None])
    if ROWS:
        keep = keep & (rows < n)[:, None]
    if IDS:
        column_id = tl.load(column_ids + tl.minimum(columns, m - 1))
        keep = keep & (row_id[:, None] != column_id[None, :])
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
