"""The streaming computations on any device: what runs, what is kept, the gradient.

``Operation`` makes of each a node for torch.compile and a function for eager mode.
"""

from typing import Any

import torch
from torch import Tensor

from . import _blockwise, _elementwise, _whole
from ._operation import Code, Operation
from ._planner import keeps_scores
from ._tiles import Pairs

_PAIRS = "Tensor x, Tensor y, Tensor? row_ids, Tensor? column_ids"
# scales are a tensor, or None where there is one and it is known: the number scale
_BANDED = (
    f"{_PAIRS}, Tensor? low, Tensor? high, Tensor? scales, float scale, float longest, "
    "bool symmetric"
)
_SUMMED = f"{_PAIRS}, bool symmetric, str function, float parameter, float offset"


# ---------------------------------------------------------------- log-partitions


def _keeps(x: Tensor, y: Tensor, scales: Tensor | None) -> bool:
    """Whether scores are kept: small ones, at a single scale that is known."""
    return scales is None and keeps_scores(
        x.shape[0], y.shape[0], x.element_size(), x.device
    )


def _partitions(
    x, y, row_ids, column_ids, low, high, scales, scale, longest, symmetric, columns
):
    pairs = Pairs(x, y, row_ids, column_ids, low, high, symmetric, longest=longest)
    if _keeps(x, y, scales):
        return _whole.forward(pairs, scale, columns)
    if scales is None:
        pairs, scales, _ = _blockwise.scaled(pairs, scale)
    return *_blockwise.forward(pairs, scales, columns), None


def _partition_shapes(
    x, y, row_ids, column_ids, low, high, scales, scale, longest, symmetric, columns
):
    k, n, m = 1 if scales is None else scales.shape[0], x.shape[0], y.shape[0]
    return (
        x.new_empty(k, n),
        x.new_empty(k, m) if columns else None,
        x.new_empty(n, m) if _keeps(x, y, scales) else None,
    )


def _partitions_backward(
    x, y, row_ids, column_ids, low, high, scales, scale, longest, symmetric,
    rows, columns, kept, d_rows, d_columns, want_x, want_y, want_scales,
):  # fmt: skip
    pairs = Pairs(x, y, row_ids, column_ids, low, high, symmetric, longest=longest)
    if columns is None or not columns.numel():  # they are not asked for
        columns = d_columns = None
        d_rows = torch.zeros_like(rows) if d_rows is None else d_rows
    outputs, gradients = (rows, columns), (d_rows, d_columns)
    wanted = (want_x, want_y and not symmetric, want_scales)
    if _keeps(x, y, scales):
        return _whole.backward(pairs, scale, kept, outputs, gradients, wanted)
    if scales is not None:
        return _blockwise.backward(pairs, scales, outputs, gradients, wanted)
    pairs, one, (by_x, by_y) = _blockwise.scaled(pairs, scale)
    dx, dy, _ = _blockwise.backward(pairs, one, outputs, gradients, wanted)
    if dx is not None:
        dx.mul_(by_x)
    if dy is not None:
        dy.mul_(by_y)
    return dx, dy, None


def _partitions_backward_shapes(
    x, y, row_ids, column_ids, low, high, scales, scale, longest, symmetric,
    rows, columns, kept, d_rows, d_columns, want_x, want_y, want_scales,
):  # fmt: skip
    return (
        torch.empty_like(x) if want_x else None,
        torch.empty_like(y) if want_y and not symmetric else None,
        torch.empty_like(scales) if want_scales else None,
    )


def _keep_partitions(ctx: Any, inputs: tuple, output: tuple) -> None:
    *tensors, ctx.scale, ctx.longest, ctx.symmetric, _ = inputs
    ctx.save_for_backward(*tensors, *output)


def _partitions_gradient(
    backward: Any, ctx: Any, d_rows: Tensor | None, d_columns: Tensor | None, *_: Any
) -> tuple:
    *pairs, rows, columns, kept = ctx.saved_tensors
    want_x, want_y, want_scales = (ctx.needs_input_grad[i] for i in (0, 1, 6))
    dx, dy, d_scales = backward(
        *pairs, ctx.scale, ctx.longest, ctx.symmetric, rows, columns, kept,
        d_rows, d_columns, want_x, want_y, want_scales,
    )  # fmt: skip
    return (
        dx if want_x else None,
        dy if want_y and not ctx.symmetric else None,
        *(None,) * 4,
        d_scales if want_scales else None,
        *(None,) * 4,
    )


log_partitions = Operation(
    "log_partitions",
    Code(
        f"({_BANDED}, bool columns) -> (Tensor, Tensor, Tensor)",
        _partitions,
        _partition_shapes,
    ),
    Code(
        f"({_BANDED}, Tensor rows, Tensor? columns, Tensor? kept, Tensor? d_rows, "
        "Tensor? d_columns, bool want_x, bool want_y, bool want_scales) "
        "-> (Tensor, Tensor, Tensor)",
        _partitions_backward,
        _partitions_backward_shapes,
    ),
    keep=_keep_partitions,
    gradient=_partitions_gradient,
    results=2,
)


# ---------------------------------------------------------------- other sums


def _sums(x, y, row_ids, column_ids, symmetric, function, parameter, offset):
    pairs = Pairs(x, y, row_ids, column_ids, symmetric=symmetric)
    return _elementwise.forward(pairs, function, parameter, offset)


def _sum_shapes(x, y, row_ids, column_ids, symmetric, function, parameter, offset):
    return x.new_empty(x.shape[0])


def _sums_backward(
    x, y, row_ids, column_ids, symmetric, function, parameter, offset, gradient, want_y
):
    pairs = Pairs(x, y, row_ids, column_ids, symmetric=symmetric)
    return _elementwise.backward(pairs, function, parameter, offset, gradient, want_y)


def _sums_backward_shapes(
    x, y, row_ids, column_ids, symmetric, function, parameter, offset, gradient, want_y
):
    has_y = want_y and not symmetric
    return torch.empty_like(x), torch.empty_like(y) if has_y else None


def _keep_sums(ctx: Any, inputs: tuple, output: Tensor) -> None:
    *tensors, ctx.symmetric, ctx.function, ctx.parameter, ctx.offset = inputs
    ctx.save_for_backward(*tensors)


def _sums_gradient(backward: Any, ctx: Any, gradient: Tensor) -> tuple:
    want_x, want_y = ctx.needs_input_grad[:2]
    dx, dy = backward(
        *ctx.saved_tensors, ctx.symmetric, ctx.function, ctx.parameter, ctx.offset,
        gradient, want_y,
    )  # fmt: skip
    return (
        dx if want_x else None,
        dy if want_y and not ctx.symmetric else None,
        *(None,) * 6,
    )


row_sums = Operation(
    "row_sums",
    Code(f"({_SUMMED}) -> Tensor", _sums, _sum_shapes),
    Code(
        f"({_SUMMED}, Tensor gradient, bool want_y) -> (Tensor, Tensor)",
        _sums_backward,
        _sums_backward_shapes,
    ),
    keep=_keep_sums,
    gradient=_sums_gradient,
)
