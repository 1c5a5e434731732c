"""Every operation on pairs of rows, declared once for all its backends.

A sum over pairs runs tile by tile or in fused kernels (``fused``); a loss of two views,
class sums and unit rows in fused kernels alone. Each is declared with what runs, the
shapes that come out, what is kept, and the gradient; ``Operation`` makes of it a node
for torch.compile and a function for eager mode. Triton is imported when a fused
operation runs, not before.

The fused sums keep their rounded rows, so that the backward pass needs nothing of the
float32 ones and those can be freed.
"""

from typing import Any

import torch
from torch import Tensor

from . import _tiled
from ._layout import tile_shape
from ._operator import Code, Gradient, Operation, refuse
from ._plan import keeps_scores

_IDS = "Tensor? row_ids, Tensor? column_ids"
_MASKS = f"{_IDS}, Tensor? low, Tensor? high"
# what a sum keeps: scores, or rounded rows x and y with their bounds
_KEPT = "Tensor? kept, Tensor? y_tiles, Tensor? bounds"
_FUNCTION = "str function, float parameter, float offset"


def _make_problem(
    tiles: tuple, n: int, m: int, d: int, symmetric: bool, *masks: Tensor | None
) -> Any:
    from . import triton

    return triton.make_problem(tiles, (n, m, d), symmetric, *masks)


def _round(x: Tensor, y: Tensor, symmetric: bool, exact: bool) -> tuple:
    from . import triton

    return triton.round_pairs(x, y, symmetric, exact)


def _rounded_shapes(x: Tensor, y: Tensor, symmetric: bool, exact: bool) -> tuple:
    def half(*shape: int) -> Tensor:
        return x.new_empty(shape, dtype=torch.float16)

    (n, d), m = x.shape, y.shape[0]
    x_tiles = half(*tile_shape(n, d, exact))
    y_tiles = half(0) if symmetric else half(*tile_shape(m, d, exact))
    return x_tiles, y_tiles, x.new_empty(2)


# ---------------------------------------------------------------- log-partitions
# scales are a tensor, or None where there is one and it is known: the number scale


def _partitions(
    x, y, row_ids, column_ids, low, high, scales, scale, longest, symmetric, columns,
    fused, exact,
):  # fmt: skip
    masks = row_ids, column_ids, low, high
    if fused:
        from . import triton

        tiles = _round(x, y, symmetric, exact)
        problem = _make_problem(tiles, x.shape[0], *y.shape, symmetric, *masks)
        return *triton.log_partitions(problem, scales, columns), *tiles
    pairs = _tiled.Pairs(x, y, *masks, symmetric, longest)
    return *_tiled.log_partitions(pairs, scales, scale, columns), None, None


def _partition_shapes(
    x, y, row_ids, column_ids, low, high, scales, scale, longest, symmetric, columns,
    fused, exact,
):  # fmt: skip
    k, n, m = 1 if scales is None else scales.shape[0], x.shape[0], y.shape[0]
    rows, sides = x.new_empty(k, n), x.new_empty(k, m) if columns else None
    if fused:
        return rows, sides, *_rounded_shapes(x, y, symmetric, exact)
    kept = x.new_empty(n, m) if keeps_scores(x, y, scales) else None
    return rows, sides, kept, None, None


def _partitions_backward(
    rows, columns, x, y, row_ids, column_ids, low, high, scales, kept, y_tiles, bounds,
    d_rows, d_columns, scale, longest, m, d, symmetric, want_x, want_y, want_scales,
    fused,
):  # fmt: skip
    masks = row_ids, column_ids, low, high
    if columns is None or not columns.numel():  # they are not asked for
        columns = d_columns = None
        d_rows = torch.zeros_like(rows) if d_rows is None else d_rows
    wanted = (want_x, want_y and not symmetric, want_scales)
    if fused:
        from . import triton

        tiles = (kept, y_tiles, bounds)
        problem = _make_problem(tiles, rows.shape[1], m, d, symmetric, *masks)
        d_rows = torch.zeros_like(rows) if d_rows is None else d_rows
        sides = None
        if columns is not None:
            d_columns = torch.zeros_like(columns) if d_columns is None else d_columns
            sides = columns, d_columns
        return triton.log_partition_gradients(
            problem, scales, (rows, d_rows), sides, wanted
        )
    pairs = _tiled.Pairs(x, y, *masks, symmetric, longest)
    outputs, gradients = (rows, columns), (d_rows, d_columns)
    return _tiled.log_partition_gradients(
        pairs, scales, scale, kept, outputs, gradients, wanted
    )


def _partitions_backward_shapes(
    rows, columns, x, y, row_ids, column_ids, low, high, scales, kept, y_tiles, bounds,
    d_rows, d_columns, scale, longest, m, d, symmetric, want_x, want_y, want_scales,
    fused,
):  # fmt: skip
    return (
        rows.new_empty(rows.shape[1], d) if want_x else None,
        rows.new_empty(m, d) if want_y and not symmetric else None,
        torch.empty_like(scales) if want_scales else None,
    )


def _keep_partitions(ctx: Any, inputs: tuple, output: tuple) -> None:
    x, y, *masks, scales, scale, longest, symmetric, _, fused, _ = inputs
    rows, columns, *kept = output
    ctx.settings = scale, longest, y.shape[0], x.shape[1], symmetric
    ctx.symmetric, ctx.fused = symmetric, fused
    if fused:
        x = y = None
    ctx.save_for_backward(rows, columns, x, y, *masks, scales, *kept)


def _partitions_gradient(
    backward: Any, ctx: Any, d_rows: Tensor | None, d_columns: Tensor | None, *_: Any
) -> tuple:
    want_x, want_y, want_scales = wanted = [ctx.needs_input_grad[i] for i in (0, 1, 6)]
    settings = (*ctx.settings, *wanted, ctx.fused)
    dx, dy, d_scales = backward(*ctx.saved_tensors, d_rows, d_columns, *settings)
    return (
        dx if want_x else None,
        dy if want_y and not ctx.symmetric else None,
        *(None,) * 4,
        d_scales if want_scales else None,
        *(None,) * 6,
    )


log_partitions = Operation(
    "log_partitions",
    Code(
        _partitions,
        f"(Tensor x, Tensor y, {_MASKS}, Tensor? scales, float scale, float longest, "
        "bool symmetric, bool columns, bool fused, bool exact) "
        "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        _partition_shapes,
    ),
    Gradient(
        _keep_partitions,
        _partitions_gradient,
        Code(
            _partitions_backward,
            f"(Tensor rows, Tensor? columns, Tensor? x, Tensor? y, {_MASKS}, "
            f"Tensor? scales, {_KEPT}, Tensor? d_rows, Tensor? d_columns, float scale, "
            "float longest, SymInt m, SymInt d, bool symmetric, bool want_x, "
            "bool want_y, bool want_scales, bool fused) -> (Tensor, Tensor, Tensor)",
            _partitions_backward_shapes,
        ),
    ),
    results=2,
)


# ---------------------------------------------------------------- other sums


def _sums(
    x, y, row_ids, column_ids, symmetric, function, parameter, offset, fused, exact
):
    summed = function, parameter, offset
    if fused:
        from . import triton

        tiles = _round(x, y, symmetric, exact)
        ids = row_ids, column_ids
        problem = _make_problem(tiles, x.shape[0], *y.shape, symmetric, *ids)
        return triton.row_sums(problem, summed), *tiles
    pairs = _tiled.Pairs(x, y, row_ids, column_ids, symmetric=symmetric)
    return _tiled.row_sums(pairs, summed), None, None, None


def _sum_shapes(
    x, y, row_ids, column_ids, symmetric, function, parameter, offset, fused, exact
):
    kept = _rounded_shapes(x, y, symmetric, exact) if fused else (None,) * 3
    return x.new_empty(x.shape[0]), *kept


def _sums_backward(
    gradient, x, y, row_ids, column_ids, kept, y_tiles, bounds, m, d, symmetric,
    function, parameter, offset, want_y, fused,
):  # fmt: skip
    summed = function, parameter, offset
    if fused:
        from . import triton

        tiles, ids = (kept, y_tiles, bounds), (row_ids, column_ids)
        problem = _make_problem(tiles, gradient.shape[0], m, d, symmetric, *ids)
        want_y = want_y and not symmetric
        return triton.row_sum_gradients(problem, summed, gradient, want_y)
    pairs = _tiled.Pairs(x, y, row_ids, column_ids, symmetric=symmetric)
    return _tiled.row_sum_gradients(pairs, summed, gradient, want_y)


def _sums_backward_shapes(
    gradient, x, y, row_ids, column_ids, kept, y_tiles, bounds, m, d, symmetric,
    function, parameter, offset, want_y, fused,
):  # fmt: skip
    has_y = want_y and not symmetric
    dx = gradient.new_empty(gradient.shape[0], d)
    return dx, gradient.new_empty(m, d) if has_y else None


def _keep_sums(ctx: Any, inputs: tuple, output: tuple) -> None:
    x, y, *ids, symmetric, function, parameter, offset, fused, _ = inputs
    sums, *kept = output
    ctx.settings = y.shape[0], x.shape[1], symmetric, function, parameter, offset
    ctx.symmetric, ctx.fused = symmetric, fused
    # the sums are kept to notice a second derivative by them
    rows = (None, None) if fused else (x, y)
    ctx.save_for_backward(*rows, *ids, *kept, sums)


def _sums_gradient(backward: Any, ctx: Any, gradient: Tensor, *_: Any) -> tuple:
    want_x, want_y = ctx.needs_input_grad[:2]
    *kept, _ = ctx.saved_tensors
    dx, dy = backward(gradient, *kept, *ctx.settings, want_y, ctx.fused)
    return (
        dx if want_x else None,
        dy if want_y and not ctx.symmetric else None,
        *(None,) * 8,
    )


row_sums = Operation(
    "row_sums",
    Code(
        _sums,
        f"(Tensor x, Tensor y, {_IDS}, bool symmetric, {_FUNCTION}, bool fused, "
        "bool exact) -> (Tensor, Tensor, Tensor, Tensor)",
        _sum_shapes,
    ),
    Gradient(
        _keep_sums,
        _sums_gradient,
        Code(
            _sums_backward,
            f"(Tensor gradient, Tensor? x, Tensor? y, {_IDS}, {_KEPT}, SymInt m, "
            f"SymInt d, bool symmetric, {_FUNCTION}, bool want_y, bool fused) "
            "-> (Tensor, Tensor)",
            _sums_backward_shapes,
        ),
    ),
)


# ---------------------------------------------------------------- a loss of two views
# In eager mode what is kept are terms whose number depends on the device. Inside
# torch.compile the gradient is computed with the loss, in float32 and of the rows'
# shape; the compiler fuses its multiplication with what comes from outside.


def _loss(
    u, v, anchors, extra, learned, kind, parameters, scale, scales, log_count,
    negatives, exact, want_u, want_v,
):  # fmt: skip
    from . import triton

    how = triton.PairLoss(
        kind, tuple(parameters), scale, tuple(scales), log_count, negatives, exact
    )
    anchors = None if anchors is None else anchors.contiguous()
    views = u.contiguous(), v.contiguous()
    return triton.pair_loss(*views, anchors, learned, how, want_u, want_v)


def _loss_backward(u, v, extra, learned, vectors, terms, outer, scale, dtype):
    from . import triton

    du, dv = (torch.empty(u.shape, dtype=dtype, device=u.device) for _ in "uv")
    extra = None if extra is None else extra.contiguous()
    d_scale = triton.pair_loss_gradients(
        *(u.contiguous(), v.contiguous(), extra, learned, (vectors, terms), scale),
        *(outer.contiguous(), (du, dv)),
    )
    return du, dv, d_scale


def _keep_loss(ctx: Any, inputs: tuple, output: tuple) -> None:
    u, v, _, extra, learned, *settings = inputs
    _, vectors, terms = output
    ctx.scale = settings[2]
    ctx.save_for_backward(u, v, extra, learned, vectors, terms)


def _loss_gradient(backward: Any, ctx: Any, outer: Tensor) -> tuple:
    saved = ctx.saved_tensors
    du, dv, d_scale = backward(*saved, outer, ctx.scale, saved[0].dtype)
    return _loss_gradients(ctx, du, dv, d_scale)


def _loss_gradients(ctx: Any, du: Tensor, dv: Tensor, d_scale: Tensor | None) -> tuple:
    """One per input, for those that are wanted."""
    want_u, want_v, _, _, want_scale, *_ = ctx.needs_input_grad
    return (
        du if want_u else None,
        dv if want_v else None,
        *(None, None),
        d_scale if want_scale else None,
        *(None,) * 9,
    )


def _loss_ahead(*inputs):
    u, v, _, extra, learned, *settings = inputs
    loss, vectors, terms = _loss(*inputs)
    if terms is None:
        return loss, None, None
    one = torch.ones_like(loss)
    kept = vectors, terms, one, settings[2], torch.float32
    du, dv, d_scale = _loss_backward(u, v, extra, learned, *kept)
    return loss, torch.stack([du, dv]), d_scale


def _loss_ahead_shapes(u, v, anchors, extra, learned, *settings):
    def float32(*shape: int) -> Tensor:
        return u.new_empty(shape, dtype=torch.float32)

    if not any(settings[-2:]):
        return float32(), None, None
    return float32(), float32(2, *u.shape), None if learned is None else float32()


def _keep_ahead(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.save_for_backward(*output[1:])
    ctx.dtype = inputs[0].dtype


def _ahead_gradient(_: Any, ctx: Any, outer: Tensor | None, *second: Any) -> tuple:
    if any(gradient is not None for gradient in second):
        refuse(ctx)  # someone differentiates the gradient
    assert outer is not None
    gradients, d_scale = ctx.saved_tensors
    du, dv = (gradients * outer).to(ctx.dtype).unbind()
    return _loss_gradients(ctx, du, dv, d_scale * outer if d_scale.ndim == 0 else None)


pair_loss = Operation(
    "pair_loss",
    Code(_loss),
    Gradient(_keep_loss, _loss_gradient, Code(_loss_backward)),
    compiled=(
        Code(
            _loss_ahead,
            "(Tensor u, Tensor v, Tensor? anchors, Tensor? extra, Tensor? learned, "
            "str kind, float[] parameters, float scale, float[] scales, "
            "float log_count, str negatives, bool exact, bool want_u, bool want_v) "
            "-> (Tensor, Tensor, Tensor)",
            _loss_ahead_shapes,
        ),
        Gradient(_keep_ahead, _ahead_gradient),
    ),
)


# ---------------------------------------------------------------- classes


def _class_pull(z, labels, factor):
    from . import triton

    return triton.class_pull(z.contiguous(), labels, factor)


def _class_pull_shapes(z, labels, factor):
    gradient = z.new_empty(z.shape, dtype=torch.float32)
    return gradient, gradient.new_empty(z.shape[0]), gradient.new_empty(())


class_pull = Operation(
    "class_pull",
    Code(
        _class_pull,
        "(Tensor z, Tensor labels, float factor) -> (Tensor, Tensor, Tensor)",
        _class_pull_shapes,
    ),
    results=3,
)


# ---------------------------------------------------------------- unit rows


def _unit_rows(x, least):
    from . import triton

    return triton.unit_rows(x.contiguous(), least)


def _unit_row_shapes(x, least):
    unit = x.new_empty(x.shape, dtype=torch.float32)
    return unit, unit.new_empty(x.shape[0])


def _unit_rows_backward(x, lengths, gradient):
    from . import triton

    return triton.unit_rows_backward(x.contiguous(), lengths, gradient.contiguous())


def _keep_unit_rows(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.save_for_backward(inputs[0], output[1])


def _unit_rows_gradient(backward: Any, ctx: Any, gradient: Tensor, *_: Any) -> tuple:
    return backward(*ctx.saved_tensors, gradient), None


unit_rows = Operation(
    "unit_rows",
    Code(_unit_rows, "(Tensor x, float least) -> (Tensor, Tensor)", _unit_row_shapes),
    Gradient(
        _keep_unit_rows,
        _unit_rows_gradient,
        Code(
            _unit_rows_backward,
            "(Tensor x, Tensor lengths, Tensor gradient) -> Tensor",
            lambda x, lengths, gradient: torch.empty_like(x),
        ),
    ),
)
