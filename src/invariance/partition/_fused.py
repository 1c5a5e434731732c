"""The fused kernels as PyTorch operators.

One opaque node each to torch.compile and to a CUDA graph. The forward operator hands
its rounded rows on, so that the backward pass needs nothing of the float32 ones and
those can be freed. Triton is imported when an operator runs, not before.
"""

from typing import Any

import torch
from torch import Tensor

from ._layout import tile_shape
from ._operation import Code, Operation

_MASKS = "Tensor? row_ids, Tensor? column_ids, Tensor? low, Tensor? high"
_TILES = "Tensor x_tiles, Tensor y_tiles, Tensor bounds, SymInt m, SymInt d"
_FUNCTION = "str function, float parameter, float offset"


def _problem(
    tiles: tuple[Tensor, Tensor, Tensor], sides: tuple[int, int, int], masks: Any
) -> Any:
    from ._triton import Problem

    x, y, bounds = tiles
    return Problem(x, y if y.numel() else x, bounds, *sides, *masks)


def _rounded(
    x: Tensor, y: Tensor, symmetric: bool, exact: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Rounded rows of x, of y unless that is x, and the two bounds."""
    from ._triton import round_to_tiles

    x_tiles, x_bound = round_to_tiles(x, exact)
    if symmetric:
        return x_tiles, x_tiles.new_empty(0), torch.stack([x_bound, x_bound])
    y_tiles, y_bound = round_to_tiles(y, exact)
    return x_tiles, y_tiles, torch.stack([x_bound, y_bound])


def _fake_rounded(
    x: Tensor, y: Tensor, symmetric: bool, exact: bool
) -> tuple[Tensor, ...]:
    def half(*shape: int) -> Tensor:
        return x.new_empty(shape, dtype=torch.float16)

    (n, d), m = x.shape, y.shape[0]
    x_tiles = half(*tile_shape(n, d, exact))
    y_tiles = half(0) if symmetric else half(*tile_shape(m, d, exact))
    return x_tiles, y_tiles, x.new_empty(2)


# ---------------------------------------------------------------- log-partitions


def _partitions(
    x, y, row_ids, column_ids, low, high, scales, symmetric, columns, exact
):
    from ._triton import log_partitions

    tiles = _rounded(x, y, symmetric, exact)
    sides = (x.shape[0], y.shape[0], x.shape[1])
    problem = _problem(tiles, sides, (row_ids, column_ids, low, high))
    return *log_partitions(problem, scales, columns), *tiles


def _partition_shapes(
    x, y, row_ids, column_ids, low, high, scales, symmetric, columns, exact
):
    k, n, m = scales.shape[0], x.shape[0], y.shape[0]
    sums = x.new_empty(k, n), x.new_empty(k, m if columns else 0)
    return *sums, *_fake_rounded(x, y, symmetric, exact)


def _partitions_backward(
    x_tiles, y_tiles, bounds, m, d, row_ids, column_ids, low, high,
    scales, rows, columns, d_rows, d_columns, symmetric, want_x, want_y, want_scales,
):  # fmt: skip
    masks = row_ids, column_ids, low, high
    sides = (rows.shape[1], m, d)
    problem = _problem((x_tiles, y_tiles, bounds), sides, masks)
    wanted = want_x, want_y and not symmetric, want_scales
    both = (rows, d_rows), (columns, d_columns)
    return _partition_gradients(problem, scales, *both, symmetric, wanted)


def _partition_gradients(
    problem: Any,
    scales: Tensor,
    by_row: tuple[Tensor, Tensor],
    by_column: tuple[Tensor, Tensor],
    symmetric: bool,
    wanted: tuple[bool, bool, bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, y and the scales, two scales a pass."""
    from . import _triton

    want_x, want_y, want_scales = wanted
    nothing = problem.bounds.new_empty(0)
    dx, dy = nothing, nothing
    d_scales = torch.empty_like(scales) if want_scales else nothing
    # a learned scale needs the gradient at that scale alone
    each = 1 if want_scales else 2
    for a in range(0, len(scales), each):
        part = slice(a, a + each)
        rows = by_row[0][part], by_row[1][part]
        columns = rows if symmetric else None
        if by_column[0].numel():
            columns = by_column[0][part], by_column[1][part]
        weights = _triton.softmax_weights(
            problem, scales[part], rows, columns, want_scales
        )
        more_x, more_y = _gradients(problem, weights, want_x or want_scales, want_y)
        if want_scales:
            # a score is linear in x: the sum of G s is the product of x with G y
            x = _triton.restored(problem.x, problem.bounds[0], problem.n, problem.d)
            d_scales[a] = x.mul_(more_x).sum() / (2 if symmetric else 1)
            more_x, more_y = more_x.mul_(scales[a]), more_y.mul_(scales[a])
        dx = dx.add_(more_x) if a else more_x
        dy = dy.add_(more_y) if a else more_y
    return dx if want_x else nothing, dy, d_scales


def _gradients(
    problem: Any, weights: Any, want_x: bool, want_y: bool
) -> tuple[Tensor, Tensor]:
    from . import _triton

    if problem.shape.wide:
        return _triton.wide_gradients(problem, weights, want_x, want_y)
    nothing = problem.bounds.new_empty(0)
    return (
        _triton.row_gradient(problem, weights) if want_x else nothing,
        _triton.row_gradient(problem.turned(), weights.turned()) if want_y else nothing,
    )


def _partitions_backward_shapes(
    x_tiles, y_tiles, bounds, m, d, row_ids, column_ids, low, high,
    scales, rows, columns, d_rows, d_columns, symmetric, want_x, want_y, want_scales,
):  # fmt: skip
    return (
        rows.new_empty(rows.shape[1], d) if want_x else rows.new_empty(0),
        rows.new_empty(m, d) if want_y and not symmetric else rows.new_empty(0),
        torch.empty_like(scales) if want_scales else rows.new_empty(0),
    )


def _keep_partitions(ctx: Any, inputs: tuple, output: tuple) -> None:
    x, y, *masks, scales, ctx.symmetric, _, _ = inputs
    rows, columns, *tiles = output
    ctx.m, ctx.d = y.shape[0], x.shape[1]
    ctx.save_for_backward(*tiles, *masks, scales, rows, columns)


def _partitions_gradient(
    backward: Any, ctx: Any, d_rows: Tensor | None, d_columns: Tensor | None, *_: Any
) -> tuple:
    *tiles, row_ids, column_ids, low, high, scales, rows, columns = ctx.saved_tensors
    want_x, want_y, want_scales = (ctx.needs_input_grad[i] for i in (0, 1, 6))
    if d_rows is None:
        d_rows = torch.zeros_like(rows)
    if d_columns is None:
        d_columns = torch.zeros_like(columns)
    dx, dy, d_scales = backward(
        *tiles, ctx.m, ctx.d, row_ids, column_ids, low, high, scales, rows, columns,
        d_rows, d_columns, ctx.symmetric, want_x, want_y, want_scales,
    )  # fmt: skip
    return (
        dx if want_x else None,
        dy if want_y and not ctx.symmetric else None,
        *(None,) * 4,
        d_scales if want_scales else None,
        *(None,) * 3,
    )


fused_log_partitions = Operation(
    "fused_log_partitions",
    Code(
        f"(Tensor x, Tensor y, {_MASKS}, Tensor scales, bool symmetric, "
        "bool columns, bool exact) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        _partitions,
        _partition_shapes,
    ),
    Code(
        f"({_TILES}, {_MASKS}, Tensor scales, Tensor rows, Tensor columns, "
        "Tensor d_rows, Tensor d_columns, bool symmetric, bool want_x, bool want_y, "
        "bool want_scales) -> (Tensor, Tensor, Tensor)",
        _partitions_backward,
        _partitions_backward_shapes,
    ),
    keep=_keep_partitions,
    gradient=_partitions_gradient,
    results=2,
)


# ---------------------------------------------------------------- other sums


def _sums(x, y, row_ids, column_ids, symmetric, exact, function, parameter, offset):
    from ._triton import row_sums

    tiles = _rounded(x, y, symmetric, exact)
    sides = (x.shape[0], y.shape[0], x.shape[1])
    problem = _problem(tiles, sides, (row_ids, column_ids))
    return row_sums(problem, function, parameter, offset), *tiles


def _sum_shapes(
    x, y, row_ids, column_ids, symmetric, exact, function, parameter, offset
):
    return x.new_empty(x.shape[0]), *_fake_rounded(x, y, symmetric, exact)


def _sums_backward(
    x_tiles, y_tiles, bounds, m, d, row_ids, column_ids, gradient, symmetric, want_y,
    function, parameter, offset,
):  # fmt: skip
    from . import _triton

    sides = (gradient.shape[0], m, d)
    problem = _problem((x_tiles, y_tiles, bounds), sides, (row_ids, column_ids))
    weights = _triton.slope_weights(
        problem, function, parameter, offset, gradient, symmetric
    )
    return _gradients(problem, weights, True, want_y and not symmetric)


def _sums_backward_shapes(
    x_tiles, y_tiles, bounds, m, d, row_ids, column_ids, gradient, symmetric, want_y,
    function, parameter, offset,
):  # fmt: skip
    has_y = want_y and not symmetric
    return (
        gradient.new_empty(gradient.shape[0], d),
        gradient.new_empty(m, d) if has_y else gradient.new_empty(0),
    )


def _keep_sums(ctx: Any, inputs: tuple, output: tuple) -> None:
    x, y, *ids, ctx.symmetric, _, ctx.function, ctx.parameter, ctx.offset = inputs
    ctx.m, ctx.d = y.shape[0], x.shape[1]
    ctx.save_for_backward(*output, *ids)


def _sums_gradient(backward: Any, ctx: Any, gradient: Tensor, *_: Any) -> tuple:
    want_x, want_y = ctx.needs_input_grad[:2]
    _, *tiles, row_ids, column_ids = ctx.saved_tensors
    dx, dy = backward(
        *tiles, ctx.m, ctx.d, row_ids, column_ids, gradient, ctx.symmetric, want_y,
        ctx.function, ctx.parameter, ctx.offset,
    )  # fmt: skip
    return (
        dx if want_x else None,
        dy if want_y and not ctx.symmetric else None,
        *(None,) * 7,
    )


fused_row_sums = Operation(
    "fused_row_sums",
    Code(
        "(Tensor x, Tensor y, Tensor? row_ids, Tensor? column_ids, bool symmetric, "
        f"bool exact, {_FUNCTION}) -> (Tensor, Tensor, Tensor, Tensor)",
        _sums,
        _sum_shapes,
    ),
    Code(
        f"({_TILES}, Tensor? row_ids, Tensor? column_ids, Tensor gradient, "
        f"bool symmetric, bool want_y, {_FUNCTION}) -> (Tensor, Tensor)",
        _sums_backward,
        _sums_backward_shapes,
    ),
    keep=_keep_sums,
    gradient=_sums_gradient,
)
