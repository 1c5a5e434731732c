"""The streaming computations as PyTorch operators.

As custom operators with a shape-only twin they are one opaque node to torch.compile,
switch autocast off inside, and refuse to be differentiated twice.
"""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op, register_autograd, register_fake

from ..errors import InvarianceError
from . import _blockwise, _elementwise, _whole
from ._planner import keeps_scores
from ._tiles import Pairs

_PAIRS = "Tensor x, Tensor y, Tensor? row_ids, Tensor? column_ids"
_BANDED = f"{_PAIRS}, Tensor? low, Tensor? high, bool symmetric, bool scaled"
_SUMMED = f"{_PAIRS}, bool symmetric, str function, float parameter, float offset"


def _without_autocast(x: Tensor) -> Any:
    return torch.autocast(x.device.type, enabled=False)


# ---------------------------------------------------------------- log-partitions


def _keeps(x: Tensor, y: Tensor, scaled: bool) -> bool:
    """Whether scores are kept: small ones, with their single scale already inside."""
    return scaled and keeps_scores(len(x), len(y), x.element_size(), x.device)


@custom_op(
    "invariance::log_partitions",
    mutates_args=(),
    schema=f"({_BANDED}, Tensor scales, bool columns) -> (Tensor, Tensor, Tensor)",
)
def log_partitions(
    x, y, row_ids, column_ids, low, high, symmetric, scaled, scales, columns
):
    pairs = Pairs(x, y, row_ids, column_ids, low, high, symmetric, scaled)
    with _without_autocast(x):
        if _keeps(x, y, scaled):
            return _whole.forward(pairs, columns)
        return *_blockwise.forward(pairs, scales, columns), x.new_empty(0)


@register_fake("invariance::log_partitions")
def _(x, y, row_ids, column_ids, low, high, symmetric, scaled, scales, columns):
    k, n, m = scales.shape[0], x.shape[0], y.shape[0]
    kept = x.new_empty(n, m) if _keeps(x, y, scaled) else x.new_empty(0)
    return x.new_empty(k, n), x.new_empty(k, m if columns else 0), kept


@custom_op(
    "invariance::log_partitions_backward",
    mutates_args=(),
    schema=f"({_BANDED}, Tensor scales, Tensor rows, Tensor columns, Tensor kept, "
    "Tensor d_rows, Tensor d_columns, bool want_x, bool want_y, bool want_scales) "
    "-> (Tensor, Tensor, Tensor)",
)
def log_partitions_backward(
    x, y, row_ids, column_ids, low, high, symmetric, scaled,
    scales, rows, columns, kept, d_rows, d_columns, want_x, want_y, want_scales,
):  # fmt: skip
    pairs = Pairs(x, y, row_ids, column_ids, low, high, symmetric, scaled)
    outputs, gradients = (rows, columns), (d_rows, d_columns)
    with _without_autocast(x):
        if _keeps(x, y, scaled):
            dx, dy = _whole.backward(pairs, kept, outputs, gradients, want_y)
            return dx if want_x else x.new_empty(0), dy, scales.new_empty(0)
        wanted = (want_x, want_y, want_scales)
        return _blockwise.backward(pairs, scales, outputs, gradients, wanted)


@register_fake("invariance::log_partitions_backward")
def _(
    x, y, row_ids, column_ids, low, high, symmetric, scaled,
    scales, rows, columns, kept, d_rows, d_columns, want_x, want_y, want_scales,
):  # fmt: skip
    return (
        torch.empty_like(x) if want_x else x.new_empty(0),
        torch.empty_like(y) if want_y and not symmetric else y.new_empty(0),
        torch.empty_like(scales) if want_scales else scales.new_empty(0),
    )


def _keep_partitions(ctx: Any, inputs: tuple, output: tuple) -> None:
    *tensors, ctx.symmetric, ctx.scaled, scales, _ = inputs
    ctx.save_for_backward(*tensors, scales, *output)


def _partitions_gradient(
    ctx: Any, d_rows: Tensor, d_columns: Tensor, d_kept: Tensor
) -> tuple:
    *pairs, scales, rows, columns, kept = ctx.saved_tensors
    want_x, want_y, want_scales = (ctx.needs_input_grad[i] for i in (0, 1, 8))
    dx, dy, d_scales = log_partitions_backward(
        *pairs, ctx.symmetric, ctx.scaled, scales, rows, columns, kept,
        d_rows, d_columns, want_x, want_y, want_scales,
    )  # fmt: skip
    return (
        dx if want_x else None,
        dy if want_y and not ctx.symmetric else None,
        *(None,) * 6,
        d_scales if want_scales else None,
        None,
    )


# ---------------------------------------------------------------- other sums


@custom_op(
    "invariance::row_sums",
    mutates_args=(),
    schema=f"({_SUMMED}) -> Tensor",
)
def row_sums(x, y, row_ids, column_ids, symmetric, function, parameter, offset):
    pairs = Pairs(x, y, row_ids, column_ids, symmetric=symmetric)
    with _without_autocast(x):
        return _elementwise.forward(pairs, function, parameter, offset)


@register_fake("invariance::row_sums")
def _(x, y, row_ids, column_ids, symmetric, function, parameter, offset):
    return x.new_empty(x.shape[0])


@custom_op(
    "invariance::row_sums_backward",
    mutates_args=(),
    schema=f"({_SUMMED}, Tensor gradient, bool want_y) -> (Tensor, Tensor)",
)
def row_sums_backward(
    x, y, row_ids, column_ids, symmetric, function, parameter, offset, gradient, want_y
):
    pairs = Pairs(x, y, row_ids, column_ids, symmetric=symmetric)
    with _without_autocast(x):
        return _elementwise.backward(
            pairs, function, parameter, offset, gradient, want_y
        )


@register_fake("invariance::row_sums_backward")
def _(
    x, y, row_ids, column_ids, symmetric, function, parameter, offset, gradient, want_y
):
    has_y = want_y and not symmetric
    return torch.empty_like(x), torch.empty_like(y) if has_y else y.new_empty(0)


def _keep_sums(ctx: Any, inputs: tuple, output: Tensor) -> None:
    *tensors, ctx.symmetric, ctx.function, ctx.parameter, ctx.offset = inputs
    ctx.save_for_backward(*tensors)


def _sums_gradient(ctx: Any, gradient: Tensor) -> tuple:
    want_y = ctx.needs_input_grad[1]
    dx, dy = row_sums_backward(
        *ctx.saved_tensors, ctx.symmetric, ctx.function, ctx.parameter, ctx.offset,
        gradient, want_y,
    )  # fmt: skip
    return dx, dy if want_y and not ctx.symmetric else None, *(None,) * 6


# ---------------------------------------------------------------- second derivatives


def refuse(ctx: Any, *gradients: Tensor) -> None:
    """The backward of a backward."""
    raise InvarianceError(
        "A streaming log-partition can be differentiated once, not twice. For a "
        "gradient penalty or a Hessian, compute it with backend='dense'."
    )


def refuse_second_derivative(*names: str) -> None:
    """Let the backward operators of these names raise if they are differentiated."""
    for name in names:
        register_autograd(f"invariance::{name}", refuse)


register_autograd(
    "invariance::log_partitions", _partitions_gradient, setup_context=_keep_partitions
)
register_autograd("invariance::row_sums", _sums_gradient, setup_context=_keep_sums)
refuse_second_derivative("log_partitions_backward", "row_sums_backward")
