r"""What kernels share: exponents, functions of a score, tiles of scores.

Rows are stored as float16 times a power of two that puts the longest row's length in
[2^9, 2^10): no overflow whatever the input, and no underflow of what matters. With
$B = \max|x|\max|y|$ no logit exceeds |a| B (``logit_bound``), so terms are summed as
$e^{a s - c}$ with one constant c for all rows (``shift``): |a| B itself while e^-2|a|B
is an ordinary number, and otherwise as low as the range of a sum allows. That range is
``exponent_budget``, 80 - log(number of terms).
"""

from typing import no_type_check

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
ROW_EXPONENT = tl.constexpr(9)  # the longest row is rounded at a length of 2^9 or more
WEIGHT_EXPONENT = tl.constexpr(13)  # the largest weight fills a float16 up to 2^14
MODERATE_BOUND = tl.constexpr(43.5)  # e^(-2 * 43.5) is the smallest normal float32
LOST_TERMS = tl.constexpr(7.2)  # a sum below e^(7.2 - exponent_budget) has lost terms
SAME_POINT = tl.constexpr(1e-12)
FLOAT16_MAX = tl.constexpr(65504.0)

# FUNCTION: what is summed over pairs. The exponential is written out by the kernels.
EXP, SOFTPLUS, LOG, IMQ, RIESZ = (tl.constexpr(code) for code in range(5))
FUNCTIONS = {
    "exp": EXP.value,
    "softplus": SOFTPLUS.value,
    "log": LOG.value,
    "imq": IMQ.value,
    "riesz": RIESZ.value,
}
# IDS: how rows of one sample are recognized. By equal ids, or because they are 0 or
# `period` rows apart in the matrix (two views of a batch one after the other).
NO_IDS, EQUAL_IDS, PERIODIC_IDS = (tl.constexpr(code) for code in range(3))
# LOW, HIGH: whose band of scores it is.
NO_BAND, ROW_BAND, COLUMN_BAND = (tl.constexpr(code) for code in range(3))


# ---------------------------------------------------------------- exponents


@triton.jit
@no_type_check
def power_of_two(exponent):
    """2 to an integer, exactly."""
    bounded = tl.minimum(tl.maximum(exponent, -100), 100)
    return ((bounded + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
@no_type_check
def exponent_to(bound, TOP: tl.constexpr):
    """The e with bound * 2^e in [2^TOP, 2^(TOP + 1))."""
    bits = bound.to(tl.int32, bitcast=True)
    return TOP + 127 - ((bits >> 23) & 255)


@triton.jit
@no_type_check
def row_factor(bound):
    """What rows no longer than ``bound`` are multiplied with before rounding."""
    return power_of_two(exponent_to(bound, ROW_EXPONENT))


@triton.jit
@no_type_check
def undo_row_factor(bound):
    """What turns rounded rows into rows again."""
    return power_of_two(-exponent_to(bound, ROW_EXPONENT))


@triton.jit
@no_type_check
def score_factor(bounds):
    """What turns a product of rounded rows into a score."""
    return undo_row_factor(tl.load(bounds)) * undo_row_factor(tl.load(bounds + 1))


@triton.jit
@no_type_check
def bound_logits(scale, bounds):
    """The logit bound: no logit exceeds it."""
    return tl.abs(scale) * tl.load(bounds) * tl.load(bounds + 1)


@triton.jit
@no_type_check
def choose_shift(logit_bound, exponent_budget):
    """The constant taken off every logit before its exponential."""
    moderate = logit_bound <= MODERATE_BOUND
    return tl.where(moderate, logit_bound, logit_bound - exponent_budget)


@triton.jit
@no_type_check
def choose_weight_exponent(largest, scales, steepness, SCALES: tl.constexpr):
    """The e for which weights of pairs times 2^e fill a float16's range.

    No weight exceeds twice the largest gradient of a row times the steepness, which for
    a softmax (marked by a steepness of 0) is the sum of its scales.
    """
    total = tl.abs(tl.load(scales))
    for k in tl.static_range(1, SCALES):
        total += tl.abs(tl.load(scales + k))
    most = tl.where(steepness > 0, steepness, total)
    exponent = exponent_to(2.0 * tl.load(largest) * most, WEIGHT_EXPONENT)
    return tl.minimum(tl.maximum(exponent, -100), 100)


# ---------------------------------------------------------------- functions of a score


@triton.jit
@no_type_check
def log_of_one_plus(x):
    """log(1 + x) for x >= 0, also where 1 + x is rounded to 1."""
    series = x * (1.0 - x * (0.5 - x * (0.33333333 - 0.25 * x)))
    return tl.where(x < 0.015625, series, tl.log2(1.0 + x) * LN2)


@triton.jit
@no_type_check
def value_of(score, parameter, FUNCTION: tl.constexpr):
    """A function of a score; the same as in ``_tiled``."""
    square = tl.maximum(-2.0 * score, SAME_POINT)
    if FUNCTION == SOFTPLUS:
        tail = log_of_one_plus(tl.exp2(-tl.abs(score) * LOG2E))
        value = tl.maximum(score, 0.0) + tail
    if FUNCTION == LOG:
        value = -0.5 * log_of_one_plus(parameter * square)
    if FUNCTION == IMQ:
        value = parameter * tl.rsqrt(parameter * parameter + square)
    if FUNCTION == RIESZ:
        sign = tl.where(parameter > 0, 1.0, -1.0)
        value = sign * tl.exp2(-0.5 * parameter * tl.log2(square))
    return value


@triton.jit
@no_type_check
def slope_of(score, parameter, FUNCTION: tl.constexpr):
    """Its derivative in the score; none where a kernel has a cusp."""
    square = tl.maximum(-2.0 * score, SAME_POINT)
    if FUNCTION == SOFTPLUS:
        small = tl.exp2(-tl.abs(score) * LOG2E)
        slope = tl.where(score >= 0, 1.0, small) / (1.0 + small)
    if FUNCTION == LOG:
        slope = parameter / (1.0 + parameter * square)
    if FUNCTION == IMQ:
        inverse = tl.rsqrt(parameter * parameter + square)
        slope = parameter * inverse * inverse * inverse
    if FUNCTION == RIESZ:
        sign = tl.where(parameter > 0, 1.0, -1.0)
        power = tl.exp2((-0.5 * parameter - 1.0) * tl.log2(square))
        slope = sign * parameter * power
    if FUNCTION != SOFTPLUS:
        slope = tl.where(-2.0 * score > SAME_POINT, slope, 0.0)
    return slope


# ---------------------------------------------------------------- tiles of scores


@triton.jit
@no_type_check
def load_part(
    base, first, ROWS: tl.constexpr, STRIDE: tl.constexpr, begin, WIDTH: tl.constexpr
):
    """Part of ROWS rows. They are padded with zeros, so nothing is masked."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    # one 64-bit number for the tile, 32-bit ones inside it
    start = (tl.zeros([], tl.int64) + first) * STRIDE + begin
    return tl.load(base + start + (rows[:, None] * STRIDE + columns[None, :]))


@triton.jit
@no_type_check
def load_both(
    base, base_low, first, ROWS: tl.constexpr, STRIDE: tl.constexpr, begin,
    WIDTH: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Part of ROWS rows, and what rounding left of it (if EXACT; else itself)."""
    high = load_part(base, first, ROWS, STRIDE, begin, WIDTH)
    low = high
    if EXACT:
        low = load_part(base_low, first, ROWS, STRIDE, begin, WIDTH)
    return high, low


@triton.jit
@no_type_check
def add_product(total, a, a_low, b, b_low, EXACT: tl.constexpr):
    """Total + a b^T; EXACT adds what rounding left of either, smallest terms first."""
    if EXACT:
        total = tl.dot(a_low, tl.trans(b), total)
        total = tl.dot(a, tl.trans(b_low), total)
    return tl.dot(a, tl.trans(b), total)


@triton.jit
@no_type_check
def wide_scores(
    x, x_low, y, y_low, first_row, first_column,
    STRIDE: tl.constexpr, STEP: tl.constexpr, EXACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """A tile of products of rows too wide to be held: step by step."""
    scores = tl.zeros([BM, BN], tl.float32)
    inner = tl.arange(0, STEP)[None, :]
    x_start = (tl.zeros([], tl.int64) + first_row) * STRIDE
    y_start = (tl.zeros([], tl.int64) + first_column) * STRIDE
    x_at = tl.arange(0, BM)[:, None] * STRIDE + inner
    y_at = tl.arange(0, BN)[:, None] * STRIDE + inner
    for k in range(0, STRIDE, STEP):
        a, b = tl.load(x + x_start + k + x_at), tl.load(y + y_start + k + y_at)
        if EXACT:
            a_low = tl.load(x_low + x_start + k + x_at)
            b_low = tl.load(y_low + y_start + k + y_at)
            # a fresh sum for each step: a matrix unit truncates as it accumulates
            part = tl.dot(a_low, tl.trans(b))
            part = tl.dot(a, tl.trans(b_low), part)
            scores += tl.dot(a, tl.trans(b), part)
        else:
            scores = add_product(scores, a, a, b, b, False)
    return scores


@triton.jit
@no_type_check
def samples_meet(first_row, first_column, period, BM: tl.constexpr, BN: tl.constexpr):
    """Whether a tile can hold two rows of one sample (PERIODIC_IDS)."""
    least = first_row - first_column - (BN - 1)
    most = first_row - first_column + (BM - 1)
    meet = (least <= 0) & (most >= 0)
    meet = meet | ((least <= period) & (most >= period))
    return meet | ((least <= -period) & (most >= -period))


@triton.jit
@no_type_check
def inside_and_apart(
    rows, columns, row_id, column_ids, n, m, period,
    IDS: tl.constexpr, CHECK_ROWS: tl.constexpr,
):  # fmt: skip
    """Pairs within the matrix, of different samples."""
    allowed = (columns < m)[None, :] & ((rows >= 0)[:, None])
    if CHECK_ROWS:
        allowed = allowed & (rows < n)[:, None]
    if IDS == EQUAL_IDS:
        column_id = tl.load(column_ids + tl.minimum(columns, m - 1))
        allowed = allowed & (row_id[:, None] != column_id[None, :])
    if IDS == PERIODIC_IDS:
        apart = rows[:, None] - columns[None, :]
        allowed = allowed & (apart != 0) & (apart != period) & (apart != -period)
    return allowed


@triton.jit
@no_type_check
def in_band(
    scores, rows, columns, low, high, n, m, LOW: tl.constexpr, HIGH: tl.constexpr
):
    """Which scores lie in the band of their row or of their column."""
    allowed = scores == scores
    if LOW == ROW_BAND:
        allowed = allowed & (scores >= tl.load(low + tl.minimum(rows, n - 1))[:, None])
    if LOW == COLUMN_BAND:
        least = tl.load(low + tl.minimum(columns, m - 1))[None, :]
        allowed = allowed & (scores >= least)
    if HIGH == ROW_BAND:
        allowed = allowed & (scores <= tl.load(high + tl.minimum(rows, n - 1))[:, None])
    if HIGH == COLUMN_BAND:
        most = tl.load(high + tl.minimum(columns, m - 1))[None, :]
        allowed = allowed & (scores <= most)
    return allowed
