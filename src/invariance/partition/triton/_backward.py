r"""Gradients of rows: every program owns the gradient of some of them.

The weights $G_{ij}$ of ``_weights`` go into a second product as float16, lifted by a
power of two so that its range is used: as part of the exponent, which costs nothing and
keeps the rows' weights ordinary numbers. A symmetric matrix has weights of rows and of
columns, and one product gives its whole gradient.

Of rows too wide for its registers a program owns CHUNK columns, and every one computes
the scores again: good for few rows. Many go another way (``_wide``).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from ._device import (
    EQUAL_IDS,
    EXP,
    LOG2E,
    PERIODIC_IDS,
    add_product,
    bound_logits,
    choose_shift,
    choose_weight_exponent,
    in_band,
    inside_and_apart,
    load_both,
    power_of_two,
    samples_meet,
    score_factor,
    undo_row_factor,
    wide_scores,
)
from ._launch import Config, Launch, choose_config, kept_by_shape
from ._problem import (
    Form,
    Problem,
    make_problem,
    new_float32,
    restore_rows,
    round_pairs,
)
from ._weights import (
    Kind,
    Weights,
    load_numbers,
    power_weight,
    slope_weight,
    slope_weights,
    softmax_weight,
    softmax_weights,
)
from ._wide import write_wide_gradients

SPAN_BYTES = 32 * 2**20  # for partial gradients of few rows
# Pairs up to which a wide gradient is computed chunk by chunk, in one launch: 2,048 of
# either view take the device 0.13 ms longer than with products, the host 0.7 ms less.
CHUNKED_UP_TO, WIDEST_CHUNK = 2**22, 128


@triton.jit(
    do_not_specialize=[
        "n", "m", "period", "n_tiles", "tiles_each", "expected_flag", "part_rows"
    ]
)  # fmt: skip
@no_type_check
def row_gradient_kernel(
    x, x_low, y, y_low, bounds, scales, row_ids, column_ids, least_ids, most_ids,
    low, high, row_shift, row_weight, column_shift, column_weight, overflow_flag,
    largest, out,
    n, m, period, exponent_budget, parameter, offset, steepness,
    n_tiles, tiles_each, expected_flag, part_rows,
    FUNCTION: tl.constexpr, SCALES: tl.constexpr, RATIO: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SHARED: tl.constexpr,
    GUARDED: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, REST: tl.constexpr,
    STRIDE: tl.constexpr, STEP: tl.constexpr, CHUNK: tl.constexpr, IDS: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """Gradient of a block of rows from a span of columns.

    SHARED: weights go with the constant shift, not with shifts of their own. GUARDED:
    does nothing unless ``overflow_flag`` is as expected. RATIO (if SHARED): the first
    scale is so many times the second.
    """
    block, span = tl.program_id(0), tl.program_id(1)
    first_row = block * BM
    rows = first_row + tl.arange(0, BM)
    begin = span * tiles_each
    end = tl.minimum(begin + tiles_each, n_tiles)
    limit = n
    if GUARDED:
        meant = tl.load(overflow_flag) == expected_flag
        end = tl.where(meant, end, begin)
        limit = tl.where(meant, n, 0)
    written = rows < limit
    OWN_SHIFTS: tl.constexpr = (FUNCTION == EXP) and not SHARED
    # the lift is in the exponent, unless a weight is more than one exponential
    LIFT_WEIGHTS: tl.constexpr = (FUNCTION != EXP) or RATIO > 0
    exponent = choose_weight_exponent(largest, scales, steepness, SCALES)
    factor = score_factor(bounds)
    weight_lift0 = power_of_two(exponent)
    weight_lift1, logit_lift = weight_lift0, exponent.to(tl.float32)
    if FUNCTION != EXP:
        logit_lift = 0.0
    if RATIO > 0:
        # then the exponential's powers multiply it: a weight over a tiny sum has no
        # room for all of the lift
        each = exponent // RATIO
        logit_lift = each.to(tl.float32)
        weight_lift0 = power_of_two(exponent - RATIO * each)
        weight_lift1 = power_of_two(exponent - each)
    scale0 = tl.load(scales)
    slope0 = scale0 * factor * LOG2E
    shift0 = choose_shift(bound_logits(scale0, bounds), exponent_budget)
    shift0 = shift0 * LOG2E - logit_lift
    at_row = tl.minimum(rows, n - 1)
    row_weight0 = load_numbers(row_weight, at_row, ROWS)
    row_shift0 = load_numbers(row_shift, at_row, ROWS and OWN_SHIFTS)
    if OWN_SHIFTS and ROWS:
        row_shift0 += logit_lift
    if LIFT_WEIGHTS and ROWS:
        row_weight0 *= weight_lift0
    if SCALES == 2:
        scale1 = tl.load(scales + 1)
        slope1 = scale1 * factor * LOG2E
        shift1 = choose_shift(bound_logits(scale1, bounds), exponent_budget)
        shift1 = shift1 * LOG2E - logit_lift
        row_weight1 = load_numbers(row_weight + n, at_row, ROWS)
        row_shift1 = load_numbers(row_shift + n, at_row, ROWS and OWN_SHIFTS)
        if OWN_SHIFTS and ROWS:
            row_shift1 += logit_lift
        if LIFT_WEIGHTS and ROWS:
            row_weight1 *= weight_lift1
    row_id = rows
    if IDS == EQUAL_IDS:
        row_id = tl.load(row_ids + at_row)
        least_id, most_id = tl.min(row_id, 0), tl.max(row_id, 0)
        tile_least = tl.load(least_ids + tl.minimum(begin, n_tiles - 1))
        tile_most = tl.load(most_ids + tl.minimum(begin, n_tiles - 1))
    # the columns of the gradient that a program owns: all, unless rows are wide
    OWNED: tl.constexpr = WIDTH + CHUNK
    first_owned = tl.program_id(2) * CHUNK
    total_main = tl.zeros([BM, OWNED], tl.float32)
    if WIDTH:
        x_main, x_main_low = load_both(x, x_low, first_row, BM, STRIDE, 0, WIDTH, EXACT)
    if REST:
        x_rest, x_rest_low = load_both(
            x, x_low, first_row, BM, STRIDE, WIDTH, REST, EXACT
        )
        total_rest = tl.zeros([BM, REST], tl.float32)
    for tile in range(begin, end):
        columns = tile * BN + tl.arange(0, BN)
        at_column = tl.minimum(columns, m - 1)
        y_main, y_main_low = load_both(
            y, y_low, tile * BN, BN, STRIDE, first_owned, OWNED, EXACT
        )
        s = tl.zeros([BM, BN], tl.float32)
        if CHUNK:
            s = wide_scores(
                x, x_low, y, y_low, first_row, tile * BN, STRIDE, STEP, EXACT, BM, BN
            )
        if REST:
            y_rest, y_rest_low = load_both(
                y, y_low, tile * BN, BN, STRIDE, WIDTH, REST, EXACT
            )
            s = add_product(s, x_rest, x_rest_low, y_rest, y_rest_low, EXACT)
        if WIDTH:
            s = add_product(s, x_main, x_main_low, y_main, y_main_low, EXACT)
        column_weight0 = load_numbers(column_weight, at_column, COLUMNS)
        column_shift0 = load_numbers(column_shift, at_column, COLUMNS and OWN_SHIFTS)
        if OWN_SHIFTS and COLUMNS:
            column_shift0 += logit_lift
        if LIFT_WEIGHTS and COLUMNS:
            column_weight0 *= weight_lift0
        if SCALES == 2:
            column_weight1 = load_numbers(column_weight + m, at_column, COLUMNS)
            column_shift1 = load_numbers(
                column_shift + m, at_column, COLUMNS and OWN_SHIFTS
            )
            if OWN_SHIFTS and COLUMNS:
                column_shift1 += logit_lift
            if LIFT_WEIGHTS and COLUMNS:
                column_weight1 *= weight_lift1
        if RATIO > 0:
            weight = power_weight(
                s, slope1, shift1, row_weight0, column_weight0,
                row_weight1, column_weight1, RATIO,
            )  # fmt: skip
        elif FUNCTION == EXP:
            weight = softmax_weight(
                s, slope0, shift0, row_shift0, row_weight0,
                column_shift0, column_weight0, ROWS, COLUMNS, SHARED,
            )  # fmt: skip
            if SCALES == 2:
                weight += softmax_weight(
                    s, slope1, shift1, row_shift1, row_weight1,
                    column_shift1, column_weight1, ROWS, COLUMNS, SHARED,
                )  # fmt: skip
        else:
            weight = slope_weight(
                s * factor - offset, parameter, row_weight0, column_weight0,
                FUNCTION, ROWS, COLUMNS,
            )  # fmt: skip
        if LOW + HIGH > 0:
            allowed = in_band(s * factor, rows, columns, low, high, n, m, LOW, HIGH)
            weight = tl.where(allowed, weight, 0.0)
        needs_mask = (tile + 1) * BN > m
        if IDS == PERIODIC_IDS:
            meet = samples_meet(first_row, tile * BN, period, BM, BN)
            needs_mask = needs_mask | meet
        if IDS == EQUAL_IDS:
            needs_mask = needs_mask | (
                (tile_least <= most_id) & (tile_most >= least_id)
            )
            ahead = tl.minimum(tile + 1, n_tiles - 1)
            tile_least, tile_most = (
                tl.load(least_ids + ahead),
                tl.load(most_ids + ahead),
            )
        if needs_mask:
            allowed = inside_and_apart(
                rows, columns, row_id, column_ids, n, m, period, IDS, False
            )
            weight = tl.where(allowed, weight, 0.0)
        high16 = weight.to(tl.float16)
        if EXACT:
            # a fresh sum for each tile: a matrix unit truncates as it accumulates
            low16 = (weight - high16.to(tl.float32)).to(tl.float16)
            part = tl.dot(low16, y_main)
            part = tl.dot(high16, y_main_low, part)
            total_main += tl.dot(high16, y_main, part)
            if REST:
                part = tl.dot(low16, y_rest)
                part = tl.dot(high16, y_rest_low, part)
                total_rest += tl.dot(high16, y_rest, part)
        else:
            total_main = tl.dot(high16, y_main, total_main)
            if REST:
                total_rest = tl.dot(high16, y_rest, total_rest)
    undo = power_of_two(-exponent) * undo_row_factor(tl.load(bounds + 1))
    at = out + (span.to(tl.int64) * part_rows + rows)[:, None] * D
    owned = first_owned + tl.arange(0, OWNED)
    inside = written[:, None] & (owned < D)[None, :]
    tl.store(at + owned[None, :], total_main * undo, mask=inside)
    if REST:
        owned = WIDTH + tl.arange(0, REST)
        inside = written[:, None] & (owned < D)[None, :]
        tl.store(at + owned[None, :], total_rest * undo, mask=inside)


class RowGradient(NamedTuple):
    """How a gradient of rows is computed: once, or once per value of the flag."""

    tile_columns: int
    launches: tuple[tuple[bool, Launch], ...]  # whether its weights are shared ones


@kept_by_shape
def plan_row_gradient(form: Form, kind: Kind, part_rows: int) -> RowGradient:
    """For weights of a kind; the terms of the gradient are ``part_rows`` apart."""
    config = _choose_config(form)
    tiles, tiles_each, parts = _spans(form, config)
    chunk = 0  # columns of a wide gradient that a program owns; they divide the stride
    if form.layout.wide:
        chunk = math.gcd(form.layout.stride, WIDEST_CHUNK)
    constants = form.constants(config) | kind.constants()
    constants |= {"GUARDED": kind.can_share and not form.safe, "CHUNK": chunk}
    chunks = form.layout.stride // chunk if chunk else 1
    ways = (True,) if kind.can_share and form.safe else (kind.can_share, False)
    launches = [
        (
            shared,
            Launch(
                row_gradient_kernel,
                (-(-form.n // config.rows), parts, chunks),
                {**form.numbers(), **kind.numbers()}
                | {"n_tiles": tiles, "tiles_each": tiles_each}
                | {"expected_flag": 0 if shared else 1, "part_rows": part_rows},
                constants | {"SHARED": shared},
                config,
            ),
        )
        for shared in dict.fromkeys(ways)
    ]
    return RowGradient(config.columns, tuple(launches))


def _choose_config(form: Form) -> Config:
    kernel = "chunks" if form.layout.wide else "gradient"
    return choose_config(kernel, form.layout, form.exact, form.device)


def _spans(form: Form, config: Config) -> tuple[int, int, int]:
    return form.spans(config, max(SPAN_BYTES // (4 * form.n * form.d), 1))


@kept_by_shape
def count_gradient_parts(form: Form) -> int:
    """How many terms ``write_gradients`` writes a gradient as."""
    return 1 if _many_and_wide(form) else _spans(form, _choose_config(form))[2]


@kept_by_shape
def _many_and_wide(form: Form) -> bool:
    """Whether weights are better written out than scores computed for every chunk."""
    return form.layout.wide and form.n * form.m > CHUNKED_UP_TO


def write_gradients(
    problem: Problem,
    weights: Weights,
    dx: Tensor | None,
    dy: Tensor | None,
    part_rows: int,
) -> None:
    """Gradients of rows and columns into tensors that are given, if they are.

    As ``count_gradient_parts`` terms of a sum, each ``part_rows`` behind the last.
    """
    if dx is None and dy is None:
        return
    if _many_and_wide(problem.form):
        write_wide_gradients(problem, weights, dx, dy)
        return
    if dx is not None:
        _write_row_gradient(problem, weights, dx, part_rows)
    if dy is not None:
        _write_row_gradient(problem.transpose(), weights.transpose(), dy, part_rows)


def _write_row_gradient(
    problem: Problem, weights: Weights, out: Tensor, part_rows: int
) -> None:
    plan = plan_row_gradient(problem.form, weights.kind, part_rows)
    rows, columns = weights.rows, weights.columns
    masks = problem.masks(plan.tile_columns)
    for shared, launch in plan.launches:
        launch(
            **problem.arrays(),
            scales=weights.scales,
            **masks,
            row_shift=rows.own_shift,
            row_weight=rows.shared_weight if shared else rows.own_weight,
            column_shift=columns.own_shift,
            column_weight=columns.shared_weight if shared else columns.own_weight,
            overflow_flag=weights.overflow_flag,
            largest=weights.largest,
            out=out,
        )


# ---------------------------------------------------------------- of an operation


def log_partition_gradients(
    saved: Any,
    gradients: tuple[Tensor | None, Tensor | None],
    shapes: Sequence[Any],
    wanted: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of x, y and the scales, two scales per pass.

    Of a symmetric matrix x's gradient is the whole.
    """
    problem = _restore_problem(saved, shapes, saved.low, saved.high)
    (want_x, want_y, want_scales), scales = wanted, saved.scales
    d_rows, d_columns = gradients
    d_rows = torch.zeros_like(saved.rows) if d_rows is None else d_rows
    if saved.with_columns and d_columns is None:
        d_columns = torch.zeros_like(saved.columns)
    dx = dy = None
    d_scales = torch.empty_like(scales) if want_scales else None
    # a learned scale needs the gradient at that scale alone
    each = 1 if want_scales else 2
    for a in range(0, len(scales), each):
        part = slice(a, a + each)
        rows = saved.rows[part], d_rows[part]
        columns = rows if problem.form.symmetric else None
        if d_columns is not None and saved.with_columns:
            columns = saved.columns[part], d_columns[part]
        weights = softmax_weights(problem, scales[part], rows, columns, want_scales)
        more_x, more_y = compute_gradients(
            problem, weights, want_x or want_scales, want_y
        )
        if d_scales is not None:
            assert more_x is not None
            # a score is linear in x: the sum of G s is the product of x with G y
            total = restore_rows(problem).mul_(more_x).sum()
            d_scales[a] = total / (2 if problem.form.symmetric else 1)
            more_x = more_x.mul_(scales[a])
            more_y = None if more_y is None else more_y.mul_(scales[a])
        dx = more_x if dx is None or more_x is None else dx.add_(more_x)
        dy = more_y if dy is None or more_y is None else dy.add_(more_y)
    return dx if want_x else None, dy, d_scales


def row_sum_gradients(
    saved: Any,
    gradients: Sequence[Tensor | None],
    shapes: Sequence[Any],
    wanted: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of x and y; of a symmetric matrix x's gradient is the whole.

    A part of a symmetric matrix has gradients of its columns' sums as well.
    """
    problem = _restore_problem(saved, shapes)
    function = (saved.function, saved.parameter, saved.offset)
    by_row, *of_columns = gradients
    assert by_row is not None
    by_column = by_row if problem.form.symmetric else next(iter(of_columns), None)
    weights = slope_weights(problem, function, by_row, by_column)
    return compute_gradients(problem, weights, *wanted)


def _restore_problem(
    saved: Any, shapes: Sequence[Any], *bands: Tensor | None
) -> Problem:
    """From the rounded rows that the forward pass kept; y has no shape if it is x."""
    (n, d), y_shape, *_ = shapes
    sides = (n, y_shape[0] if y_shape else n, d)
    tiles = (saved.kept, saved.y_tiles, saved.bounds)
    if saved.kept is None:
        tiles = round_pairs(saved.x, saved.y, saved.exact)
    return make_problem(saved, sides, tiles, *bands)


def compute_gradients(
    problem: Problem, weights: Weights, want_x: bool, want_y: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of x and y where nothing is known of the logits."""
    form, device = problem.form, problem.form.device
    if form.layout.wide:
        dx = new_float32(device, form.n, form.d) if want_x else None
        dy = new_float32(device, form.m, form.d) if want_y else None
        write_wide_gradients(problem, weights, dx, dy)
        return dx, dy

    def row_gradient(problem: Problem, weights: Weights) -> Tensor:
        n, d = problem.form.n, problem.form.d
        parts = count_gradient_parts(problem.form)
        out = new_float32(device, parts, n, d)
        _write_row_gradient(problem, weights, out, n)
        return out[0] if parts == 1 else out.sum(0)

    return (
        row_gradient(problem, weights) if want_x else None,
        row_gradient(problem.transpose(), weights.transpose()) if want_y else None,
    )
