r"""Sums over rows and columns: every program owns some rows and walks over columns.

``sum_rows`` adds up $e^{a s_{ij} - c}$ with one constant c, or another function of
the scores; the same terms give the columns' sums where they are asked for. Of a
symmetric matrix it visits the tiles on and above the diagonal (UPPER): a row's sum is
then its own and its column's. ``add_columns`` and ``finish`` add partial sums in a
fixed order; ``finish`` takes the logarithm, or writes +inf for a sum that left
float32's range, which ``repair`` computes again. No sum is atomic: every number is
written by one program, and runs repeat bit for bit.
"""

import math
from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from .._layout import tile_shape
from ._device import (
    EQUAL_IDS,
    EXP,
    FUNCTIONS,
    LN2,
    LOG2E,
    LOST_TERMS,
    MODERATE_BOUND,
    PERIODIC_IDS,
    add_product,
    bound_logits,
    choose_shift,
    in_band,
    inside_and_apart,
    load_both,
    samples_meet,
    score_factor,
    value_of,
    wide_scores,
)
from ._launch import Config, Launch, choose_config, count_processors, kept_by_shape
from ._problem import Form, Problem, make_problem, new_float32, round_pairs

COLUMN_SUM_BYTES = 96 * 2**20  # for columns' partial sums, or as many as the rows take
MOST_SPANS = 64
# Of half a matrix some rows have much to do and others little: many small programs per
# processor even that out, if each has enough tiles to be worth its start.
PROGRAMS, LEAST_TILES = 16, 8
# Rows from which half of a symmetric matrix, with sums of both its sides, is faster
# than the whole with one.
TRIANGLE_FROM = {"cpu": 64, "cuda": 8192}
FINISH_BLOCK, FINISH_PARTS = 128, 32
Code = tuple[int, float, float]  # number of a function, its parameter, the offset
SOFTMAX: Code = (EXP.value, 0.0, 0.0)


# ---------------------------------------------------------------- sums


@triton.jit(do_not_specialize=["n", "m", "period", "start", "n_tiles", "spans"])
@no_type_check
def sum_rows(
    x, x_low, y, y_low, bounds, scales, row_ids, column_ids, least_ids, most_ids,
    low, high, row_sums, column_sums,
    n, m, period, exponent_budget, parameter, offset, start, n_tiles, spans,
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
    tiles_each = tl.cdiv(n_tiles - begin, spans)
    begin += span * tiles_each
    end = tl.minimum(begin + tiles_each, n_tiles)
    factor = score_factor(bounds)
    scale0 = tl.load(scales)
    slope0 = scale0 * factor * LOG2E
    shift0 = choose_shift(bound_logits(scale0, bounds), exponent_budget) * LOG2E
    total0 = tl.zeros([BM], tl.float32)
    if SCALES == 2:
        scale1 = tl.load(scales + 1)
        slope1 = scale1 * factor * LOG2E
        shift1 = choose_shift(bound_logits(scale1, bounds), exponent_budget) * LOG2E
        total1 = tl.zeros([BM], tl.float32)
    row_id = rows
    if IDS == EQUAL_IDS:
        row_id = tl.load(row_ids + tl.minimum(rows, n - 1))
        least_id, most_id = tl.min(row_id, 0), tl.max(row_id, 0)
        tile_least = tl.load(least_ids + tl.minimum(begin, n_tiles - 1))
        tile_most = tl.load(most_ids + tl.minimum(begin, n_tiles - 1))
    if WIDTH:
        x_main, x_main_low = load_both(x, x_low, first_row, BM, STRIDE, 0, WIDTH, EXACT)
        if REST:
            x_rest, x_rest_low = load_both(
                x, x_low, first_row, BM, STRIDE, WIDTH, REST, EXACT
            )
    for tile in range(begin, end):
        columns = tile * BN + tl.arange(0, BN)
        if WIDTH:
            y_main, y_main_low = load_both(
                y, y_low, tile * BN, BN, STRIDE, 0, WIDTH, EXACT
            )
            s = tl.zeros([BM, BN], tl.float32)
            if REST:
                y_rest, y_rest_low = load_both(
                    y, y_low, tile * BN, BN, STRIDE, WIDTH, REST, EXACT
                )
                s = add_product(s, x_rest, x_rest_low, y_rest, y_rest_low, EXACT)
            s = add_product(s, x_main, x_main_low, y_main, y_main_low, EXACT)
        else:
            s = wide_scores(
                x, x_low, y, y_low, first_row, tile * BN, STRIDE, STEP, EXACT, BM, BN
            )
        # ids and edges are looked at only where equal ids, or an edge, can be
        needs_mask = (tile + 1) * BN > m
        if COLUMNS:
            needs_mask = needs_mask | (first_row + BM > n)
        if UPPER:
            needs_mask = needs_mask | (tile * BN < first_row)
        if IDS == EQUAL_IDS:
            needs_mask = needs_mask | (
                (tile_least <= most_id) & (tile_most >= least_id)
            )
            ahead = tl.minimum(tile + 1, n_tiles - 1)
            tile_least, tile_most = (
                tl.load(least_ids + ahead),
                tl.load(most_ids + ahead),
            )
        if IDS == PERIODIC_IDS:
            meet = samples_meet(first_row, tile * BN, period, BM, BN)
            needs_mask = needs_mask | meet
        if SCALES == 2:
            term1 = tl.exp2(s * slope1 - shift1)
        if RATIO == 2:
            term0 = term1 * term1
        elif RATIO == 3:
            term0 = term1 * term1 * term1
        elif FUNCTION == EXP:
            term0 = tl.exp2(s * slope0 - shift0)
        else:
            term0 = value_of(s * factor - offset, parameter, FUNCTION)
        if LOW + HIGH > 0:
            allowed = in_band(s * factor, rows, columns, low, high, n, m, LOW, HIGH)
            term0 = tl.where(allowed, term0, 0.0)
            if SCALES == 2:
                term1 = tl.where(allowed, term1, 0.0)
        if needs_mask:
            allowed = inside_and_apart(
                rows, columns, row_id, column_ids, n, m, period, IDS, COLUMNS
            )
            if UPPER:
                allowed = allowed & (columns >= first_row)[None, :]
            term0 = tl.where(allowed, term0, 0.0)
            if SCALES == 2:
                term1 = tl.where(allowed, term1, 0.0)
        total0 += tl.sum(term0, 1)
        if SCALES == 2:
            total1 += tl.sum(term1, 1)
        if COLUMNS:
            stored = columns < m
            if UPPER:  # what lies on the diagonal is in the rows' sums already
                stored = stored & (columns >= first_row + BM)
            at = column_sums + (block.to(tl.int64) * SCALES) * m + columns
            tl.store(at, tl.sum(term0, 0), mask=stored)
            if SCALES == 2:
                tl.store(at + m, tl.sum(term1, 0), mask=stored)
    out = row_sums + span.to(tl.int64) * SCALES * n + rows
    tl.store(out, total0, mask=rows < n)
    if SCALES == 2:
        tl.store(out + n, total1, mask=rows < n)


@triton.jit(do_not_specialize=["m", "blocks", "start", "begun"])
@no_type_check
def add_columns(
    partial, out, m, blocks, start, begun,
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
    written = tl.where(begun > 0, m, 0)
    total = tl.load(out + k * m + at, mask=at < written, other=0.0)
    for first in range(0, end, PARTS):
        part = first + tl.arange(0, PARTS)
        inside = (part < blocks)[:, None] & (at < m)[None, :]
        if UPPER:
            inside = inside & ((start + (part + 1) * BM)[:, None] <= at[None, :])
        line = (part.to(tl.int64) * SCALES + k)[:, None] * m
        total += tl.sum(tl.load(partial + line + at, mask=inside, other=0.0), 0)
    tl.store(out + k * m + at, total, mask=at < m)


class Pass(NamedTuple):
    """Sums of some blocks of rows; ``add`` puts their column sums to the others."""

    blocks: int
    sum: Launch
    add: Launch | None


class Sums(NamedTuple):
    """How sums are computed: in spans of columns, and in passes over the rows."""

    tile_columns: int
    spans: int
    both: bool  # sums over rows and over columns
    upper: bool  # of half a symmetric matrix
    passes: tuple[Pass, ...]

    @property
    def row_parts(self) -> int:
        """How many partial sums a row has."""
        return self.spans + self.upper

    @property
    def column_parts(self) -> int:
        """How many partial sums a column has, where columns were asked for."""
        return self.passes[0].blocks if self.passes[0].add is None else 1


@kept_by_shape
def plan_sums(form: Form, k: int, columns: bool, code: Code = SOFTMAX) -> Sums:
    """Of k scales, over rows and, if asked, over columns."""
    n, m = form.n, form.m
    upper = not columns and form.symmetric and n >= TRIANGLE_FROM[form.device.type]
    both = columns or upper
    kernel = "triangle" if both else "sums"
    config = choose_config(kernel, form.layout, form.exact, form.device)
    tiles, _, spans = form.spans(config, MOST_SPANS)
    step = n
    if both:
        step = _rows_at_once(form, config, k)
        blocks = -(-min(step, n) // config.rows)
        wanted = -(-PROGRAMS * count_processors(form.device) // blocks)
        spans = min(max(spans, wanted), MOST_SPANS, -(-tiles // LEAST_TILES))
    function, parameter, offset = code
    passes = []
    for start in range(0, n, step):
        blocks = -(-(min(start + step, n) - start) // config.rows)
        sum_launch = Launch(
            sum_rows,
            (blocks, spans),
            {**form.numbers(), "parameter": parameter, "offset": offset}
            | {"start": start, "n_tiles": tiles, "spans": spans},
            form.constants(config)
            | {"FUNCTION": function, "SCALES": k, "COLUMNS": both, "UPPER": upper},
            config,
        )
        add_launch = None
        if upper or (both and blocks * config.rows < n):
            add_launch = Launch(
                add_columns,
                (-(-m // FINISH_BLOCK), k),
                {"m": m, "blocks": blocks, "start": start, "begun": int(start > 0)},
                {"SCALES": k, "UPPER": upper, "BM": config.rows}
                | {"BLOCK": FINISH_BLOCK, "PARTS": FINISH_PARTS},
            )
        passes.append(Pass(blocks, sum_launch, add_launch))
    return Sums(config.columns, spans, both, upper, tuple(passes))


def _rows_at_once(form: Form, config: Config, k: int) -> int:
    """Rows whose blocks' column sums fit the budget."""
    rounded_rows = 2 * math.prod(tile_shape(form.n, form.d, form.exact))
    budget = max(COLUMN_SUM_BYTES, rounded_rows)
    return max(budget // (4 * k * max(form.m, 1)), 1) * config.rows


def sums(
    problem: Problem, scales: Tensor, columns: bool, code: Code = SOFTMAX
) -> tuple[Tensor, Tensor | None]:
    """Partial sums of rows (parts, k, n) and, if asked, of columns (parts, k, m)."""
    form, k = problem.form, scales.shape[0]
    plan = plan_sums(form, k, columns, code)
    fixed = {**problem.arrays(), "scales": scales, **problem.masks(plan.tile_columns)}
    out = new_float32(form.device, plan.row_parts, k, form.n)
    if not plan.both:
        (only,) = plan.passes
        only.sum(**fixed, row_sums=out, column_sums=out)
        return out, None
    side = out[plan.spans :] if plan.upper else None
    for part in plan.passes:
        partial = new_float32(form.device, part.blocks, k, form.m)
        part.sum(**fixed, row_sums=out, column_sums=partial)
        if part.add is None:
            return out, partial
        if side is None:
            side = new_float32(form.device, 1, k, form.m)
        part.add(partial=partial, out=side)
    return out, None if plan.upper else side


# ---------------------------------------------------------------- logarithms


@triton.jit(do_not_specialize=["n", "parts"])
@no_type_check
def finish(
    partial, out, bounds, scales, n, parts, exponent_budget,
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
    logit_bound = bound_logits(tl.load(scales + k), bounds)
    lost = tl.exp2((LOST_TERMS - exponent_budget) * LOG2E)
    least = tl.where(logit_bound <= MODERATE_BOUND, 1.2e-38, lost)
    safe = (total >= least) & (total < 1e38)
    value = tl.log2(total) * LN2 + choose_shift(logit_bound, exponent_budget)
    value = tl.where(safe, value, float("inf"))
    value = tl.where(total == total, value, total)  # NaN stays NaN
    tl.store(out + k * n + at, value, mask=at < n)


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
    if IDS == EQUAL_IDS:
        row_id = tl.load(row_ids + tl.minimum(rows, n - 1))
    highest = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    for tile in range(0, end):
        columns = tile * BN + tl.arange(0, BN)
        if WIDTH:
            s = tl.zeros([BM, BN], tl.float32)
            b, b_low = load_both(y, y_low, tile * BN, BN, STRIDE, 0, WIDTH, EXACT)
            a, a_low = load_both(x, x_low, first_row, BM, STRIDE, 0, WIDTH, EXACT)
            s = add_product(s, a, a_low, b, b_low, EXACT)
            if REST:
                d, d_low = load_both(
                    y, y_low, tile * BN, BN, STRIDE, WIDTH, REST, EXACT
                )
                c, c_low = load_both(
                    x, x_low, first_row, BM, STRIDE, WIDTH, REST, EXACT
                )
                s = add_product(s, c, c_low, d, d_low, EXACT)
        else:
            s = wide_scores(
                x, x_low, y, y_low, first_row, tile * BN, STRIDE, STEP, EXACT, BM, BN
            )
        allowed = inside_and_apart(
            rows, columns, row_id, column_ids, n, m, period, IDS, False
        )
        if LOW + HIGH > 0:
            band = in_band(s * factor, rows, columns, low, high, n, m, LOW, HIGH)
            allowed = allowed & band
        logit = tl.where(allowed, s * slope, float("-inf"))
        now = tl.maximum(highest, tl.max(logit, 1))
        base = tl.where(now == float("-inf"), 0.0, now)
        total = total * tl.exp2(highest - base)
        total += tl.sum(tl.exp2(logit - base[:, None]), 1)
        highest = now
    base = tl.where(highest == float("-inf"), 0.0, highest)
    value = (base + tl.log2(total)) * LN2
    tl.store(at, value, mask=broken & (rows < n))


@kept_by_shape
def _finish_launches(form: Form, k: int, parts: int) -> tuple[Launch, Launch]:
    n, m = form.n, form.m
    config = choose_config("repair", form.layout, form.exact, form.device)
    tiles = -(-m // config.columns)
    return (
        Launch(
            finish,
            (-(-n // FINISH_BLOCK), k),
            {"n": n, "parts": parts, "exponent_budget": form.exponent_budget},
            {"SCALES": k, "BLOCK": FINISH_BLOCK, "PARTS": FINISH_PARTS},
        ),
        Launch(
            repair,
            (-(-n // config.rows), k),
            {"n": n, "m": m, "period": form.period, "n_tiles": tiles},
            form.constants(config),
            config,
        ),
    )


def _finish(problem: Problem, scales: Tensor, partial: Tensor, out: Tensor) -> None:
    """Logarithms of sums, and the rows that left float32's range computed again."""
    finish_sums, repair_rows = _finish_launches(
        problem.form, scales.shape[0], partial.shape[0]
    )
    finish_sums(partial=partial, out=out, bounds=problem.bounds, scales=scales)
    repair_rows(**problem.arrays(), scales=scales, **problem.masks(), out=out)


def log_partitions(inputs: Any) -> tuple[Tensor | None, ...]:
    """The operation: of rows (k, n) and, if asked, of columns (1, m); rounded rows."""
    x, y, scales = inputs.x, inputs.y, inputs.scales
    tiles, columns = round_pairs(x, y, inputs.exact), inputs.with_columns
    sides = (x.shape[0], (x if y is None else y).shape[0], x.shape[1])
    problem = make_problem(inputs, sides, tiles, inputs.low, inputs.high)
    form, k = problem.form, scales.shape[0]
    rows = new_float32(form.device, k, form.n)
    by_columns = new_float32(form.device, k, form.m) if columns else None
    for a in range(0, k, 2):  # two scales per pass
        some = scales if k <= 2 else scales[a : a + 2]
        row_parts, column_parts = sums(problem, some, columns)
        _finish(problem, some, row_parts, rows[a : a + 2])
        if column_parts is not None and by_columns is not None:
            _finish(problem.transpose(), some, column_parts, by_columns[a : a + 2])
    return rows, by_columns, *tiles


def row_sums(inputs: Any) -> tuple[Tensor | None, ...]:
    """The operation: sums of another function over each row (n,); rounded rows."""
    x, y = inputs.x, inputs.y
    tiles = round_pairs(x, y, inputs.exact)
    sides = (x.shape[0], (x if y is None else y).shape[0], x.shape[1])
    problem = make_problem(inputs, sides, tiles)
    one = torch.ones(1, dtype=torch.float32, device=x.device)
    code = (FUNCTIONS[inputs.function], inputs.parameter, inputs.offset)
    parts, _ = sums(problem, one, False, code)
    return parts[:, 0].sum(0) if len(parts) > 1 else parts[0, 0], *tiles
