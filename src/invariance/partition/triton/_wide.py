"""Gradients of many wide rows: weights are written out, and multiplied by products.

The products are the matrix library's: beyond a width of about 256 it beats a fused
kernel, and rows and columns share one set of weights. Weights exist for a patch of the
matrix at a time: as large as a fixed budget of memory allows, and neither flat nor
thin, since every patch reads its rows and columns and adds to their sums anew. Of a
symmetric matrix about half of the patches are written.
"""

from collections.abc import Iterator
from functools import cache
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from .._layout import ROW_PADDING, padded
from ._device import (
    EQUAL_IDS,
    EXP,
    LOG2E,
    PERIODIC_IDS,
    bound_logits,
    choose_shift,
    choose_weight_exponent,
    in_band,
    inside_and_apart,
    power_of_two,
    samples_meet,
    score_factor,
    undo_row_factor,
    wide_scores,
)
from ._launch import Config, Launch, choose_config, kept_by_shape
from ._problem import Form, Problem, new_float32
from ._weights import (
    Kind,
    Weights,
    load_numbers,
    slope_weight,
    softmax_weight,
)

WEIGHT_BYTES = 384 * 2**20  # for the weights of a patch
PATCH_ROWS = 8192  # at least, if there are as many
GROUP = 8
EXACT_DEPTH = 1024  # a matrix unit truncates as it adds: longer sums lose digits


@triton.jit(do_not_specialize=["top", "left", "n", "m", "period", "across"])
@no_type_check
def write_weights(
    x, x_low, y, y_low, bounds, scales, row_ids, column_ids, least_ids, most_ids,
    low, high, row_shift, row_own, row_shared, column_shift, column_own, column_shared,
    overflow_flag, largest, undo, out, out_low,
    n, m, period, exponent_budget, parameter, offset, steepness, top, left, across,
    FUNCTION: tl.constexpr, SCALES: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, SHARED: tl.constexpr, GUARDED: tl.constexpr,
    STRIDE: tl.constexpr, STEP: tl.constexpr, IDS: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, EXACT: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One tile of a patch of G, as float16 (and the rest if EXACT).

    The patch begins at row ``top`` and column ``left``, which is a multiple of BN, and
    is ``across`` columns wide. ``undo`` is what the products of G with y and with x are
    to be multiplied with.
    """
    # a hint (multiple_of) has no effect on an argument, and stores would be of one
    # number each; 256 is ROW_PADDING of _layout
    across = across // 256 * 256
    # neighbors in time share rows and columns, so that the cache serves them
    width = tl.cdiv(across, BN)
    program = tl.program_id(0)
    each = GROUP * width
    head = program // each * GROUP
    height = tl.minimum(tl.num_programs(0) // width - head, GROUP)
    block, nth = head + program % each % height, program % each // height
    patch_rows, patch_columns = (
        block * BM + tl.arange(0, BM),
        nth * BN + tl.arange(0, BN),
    )
    first_row, tile = top + block * BM, left // BN + nth
    rows, columns = top + patch_rows, left + patch_columns
    factor = score_factor(bounds)
    exponent = choose_weight_exponent(largest, scales, steepness, SCALES)
    logit_lift = exponent.to(tl.float32)
    if program == 0:
        for side in tl.static_range(2):
            rounding = undo_row_factor(tl.load(bounds + 1 - side))
            tl.store(undo + side, power_of_two(-exponent) * rounding)
    s = wide_scores(
        x, x_low, y, y_low, first_row, tile * BN, STRIDE, STEP, EXACT, BM, BN
    )
    at_row, at_column = tl.minimum(rows, n - 1), tl.minimum(columns, m - 1)
    if FUNCTION == EXP:
        for k in tl.static_range(SCALES):
            scale = tl.load(scales + k)
            slope = scale * factor * LOG2E
            shift = choose_shift(bound_logits(scale, bounds), exponent_budget)
            shift = shift * LOG2E - logit_lift
            if SHARED:
                row_weight = tl.load(row_shared + k * n + at_row)
                column_weight = tl.load(column_shared + k * m + at_column)
                term = softmax_weight(
                    s, slope, shift, rows, row_weight, columns, column_weight,
                    ROWS, COLUMNS, True,
                )  # fmt: skip
                if GUARDED:  # noqa: SIM102 (one is known when compiling)
                    if tl.load(overflow_flag) != 0:
                        term = softmax_weight(
                            s, slope, shift,
                            tl.load(row_shift + k * n + at_row) + logit_lift,
                            tl.load(row_own + k * n + at_row),
                            tl.load(column_shift + k * m + at_column) + logit_lift,
                            tl.load(column_own + k * m + at_column),
                            ROWS, COLUMNS, False,
                        )  # fmt: skip
            else:
                term = softmax_weight(
                    s, slope, shift,
                    load_numbers(row_shift + k * n, at_row, ROWS) + logit_lift,
                    load_numbers(row_own + k * n, at_row, ROWS),
                    load_numbers(column_shift + k * m, at_column, COLUMNS) + logit_lift,
                    load_numbers(column_own + k * m, at_column, COLUMNS),
                    ROWS, COLUMNS, False,
                )  # fmt: skip
            weight = term if k == 0 else weight + term
    else:
        weight_lift = power_of_two(exponent)
        weight = slope_weight(
            s * factor - offset, parameter,
            load_numbers(row_own, at_row, ROWS) * weight_lift,
            load_numbers(column_own, at_column, COLUMNS) * weight_lift,
            FUNCTION, ROWS, COLUMNS,
        )  # fmt: skip
    if LOW + HIGH > 0:
        allowed = in_band(s * factor, rows, columns, low, high, n, m, LOW, HIGH)
        weight = tl.where(allowed, weight, 0.0)
    row_id = rows
    needs_mask = ((tile + 1) * BN > m) | (first_row + BM > n)
    if IDS == PERIODIC_IDS:
        needs_mask = needs_mask | samples_meet(first_row, tile * BN, period, BM, BN)
    if IDS == EQUAL_IDS:
        row_id = tl.load(row_ids + at_row)
        least_id, most_id = tl.min(row_id, 0), tl.max(row_id, 0)
        tile_least, tile_most = tl.load(least_ids + tile), tl.load(most_ids + tile)
        needs_mask = needs_mask | ((tile_least <= most_id) & (tile_most >= least_id))
    if needs_mask:
        allowed = inside_and_apart(
            rows, columns, row_id, column_ids, n, m, period, IDS, True
        )
        weight = tl.where(allowed, weight, 0.0)
    high16 = weight.to(tl.float16)
    at = patch_rows.to(tl.int64)[:, None] * across + patch_columns[None, :]
    tl.store(out + at, high16)
    if EXACT:
        tl.store(out_low + at, (weight - high16.to(tl.float32)).to(tl.float16))


@kept_by_shape
def _patch_launch(
    form: Form, kind: Kind, config: Config, top: int, left: int, across: int, rows: int
) -> Launch:
    """The weights of a patch of so many rows, ``across`` columns wide."""
    shared = kind.can_share
    return Launch(
        write_weights,
        (-(-rows // config.rows) * (across // config.columns),),
        {
            **form.numbers(),
            **kind.numbers(),
            "top": top,
            "left": left,
            "across": across,
        },
        form.constants(config)
        | kind.constants()
        | {"SHARED": shared, "GUARDED": shared and not form.safe, "GROUP": GROUP},
        config,
    )


def write_wide_gradients(
    problem: Problem, weights: Weights, dx: Tensor | None, dy: Tensor | None
) -> None:
    """Gradients of x and y into tensors that are given, if they are.

    Of a symmetric G only what is not left of a strip's diagonal block is written: a
    patch's product with y is of its rows, that of its transpose of the rows it mirrors.
    """
    form, x, y = problem.form, problem.x, problem.y
    n, m, d, device = form.n, form.m, form.d, form.device
    config = choose_config("gradient", form.layout, form.exact, device)
    height, width = _choose_patch(form)
    same_weights = weights.kind.columns and weights.rows is weights.columns
    mirrored = form.symmetric and same_weights and dy is None
    by_column = dx if mirrored else dy
    for total in (dx, dy):
        if total is not None:
            total.zero_()
    undo = new_float32(device, 2)
    memory = torch.empty((len(x), height * width), dtype=x.dtype, device=device)
    rows, columns = weights.rows, weights.columns
    fixed = {
        **problem.arrays(),
        "scales": weights.scales,
        **problem.masks(config.columns),
        "row_shift": rows.own_shift,
        "row_own": rows.own_weight,
        "row_shared": rows.shared_weight,
        "column_shift": columns.own_shift,
        "column_own": columns.own_weight,
        "column_shared": columns.shared_weight,
        "overflow_flag": weights.overflow_flag,
        "largest": weights.largest,
        "undo": undo,
    }
    for top in range(0, n, height):
        bottom = min(top + height, n)
        for left in range(top if mirrored else 0, padded(m), width):
            right = min(left + width, padded(m))
            extent = right - left, bottom - top
            patch = memory[:, : height * extent[0]].view(len(x), height, -1)
            launch = _patch_launch(form, weights.kind, config, top, left, *extent)
            launch(**fixed, out=patch[0], out_low=patch[-1])
            patch = patch[:, : extent[1]]
            if dx is not None:
                _add_product(dx[top:bottom], patch, y[:, left:right, :d])
            begin, end = max(left, bottom) if mirrored else left, min(right, m)
            if by_column is not None and begin < end:
                turned = patch[:, :, begin - left : end - left].mT
                _add_product(by_column[begin:end], turned, x[:, top:bottom, :d])
    for total, factor in zip((dx, dy), undo, strict=True):
        if total is not None:
            total.mul_(factor)


def _choose_patch(form: Form) -> tuple[int, int]:
    """Rows and columns whose weights are written out at a time."""
    most = WEIGHT_BYTES // (2 * (1 + form.exact))
    n, m = padded(form.n), padded(form.m)
    height = min(padded(max(most // m, PATCH_ROWS)), n)
    return height, min(max(most // height // ROW_PADDING, 1) * ROW_PADDING, m)


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add the product of rounded matrices, with the remainders' if there are any.

    Where the matrix library can, without a copy of the sum's size.
    """
    in_place = _adds_in_place(total.device)
    for left, right in _factors(a, b):
        if in_place:
            torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
        else:
            total.add_(_float32_product(left, right))


def _factors(a: Tensor, b: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """What is multiplied and added up, one by one."""
    if len(a) == 1:
        yield a[0], b[0]
        return
    for start in range(0, a.shape[2], EXACT_DEPTH):
        part = slice(start, start + EXACT_DEPTH)
        for i, j in ((1, 0), (0, 1), (0, 0)):
            yield a[i][:, part], b[j][part]


@cache
def _adds_in_place(device: torch.device) -> bool:
    """Whether PyTorch adds a product of float16 matrices to a float32 one."""
    if device.type == "cpu":
        return False
    total = torch.zeros((16, 16), dtype=torch.float32, device=device)
    part = torch.zeros((16, 16), dtype=torch.float16, device=device)
    try:
        torch.addmm(total, part.T, part, out_dtype=torch.float32, out=total)
    except (RuntimeError, TypeError):
        return False
    return True


def _float32_product(a: Tensor, b: Tensor) -> Tensor:
    if a.device.type == "cpu":
        return a.float() @ b.float()
    return torch.mm(a, b, out_dtype=torch.float32)
