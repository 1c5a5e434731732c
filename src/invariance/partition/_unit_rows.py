r"""Unit rows of a 16-bit batch on a GPU: one kernel, and nothing kept but lengths.

$z = x / |x|$ in float32, and $dx = (dz - z\,(z\cdot dz)) / |x|$. Written as plain
PyTorch it would raise a copy of the batch to float32 and keep that for the backward
pass, more than all the rest of a fused loss needs.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.library import custom_op, register_autograd, register_fake

from ._fused import alone_on
from ._operators import refuse_second_derivative
from ._plan import HALVES, why_not_fused

WIDEST = 16384


def fused_unit_rows(
    x: Float[Tensor, "*v n d"], shortest: float
) -> Float[Tensor, "*v n d"] | None:
    """Rows divided by their length, or None where there is no kernel for them."""
    if x.dtype not in HALVES or not x.is_cuda or x.shape[-1] > WIDEST:
        return None
    if why_not_fused(x.device, x.dtype):
        return None
    return unit_rows_operator(x.flatten(0, -2), shortest)[0].view(x.shape)


@custom_op(
    "invariance::unit_rows",
    mutates_args=(),
    schema="(Tensor x, float least) -> (Tensor, Tensor)",
)
def unit_rows_operator(x, least):
    from ._triton import unit_rows

    with alone_on(x):
        return unit_rows(x.contiguous(), least)


@register_fake("invariance::unit_rows")
def _(x, least):
    unit = x.new_empty(x.shape, dtype=torch.float32)
    return unit, x.new_empty(x.shape[:1], dtype=torch.float32)


@custom_op(
    "invariance::unit_rows_backward",
    mutates_args=(),
    schema="(Tensor x, Tensor lengths, Tensor gradient) -> Tensor",
)
def unit_rows_backward(x, lengths, gradient):
    from ._triton import unit_rows_backward

    with alone_on(x):
        return unit_rows_backward(x.contiguous(), lengths, gradient.contiguous())


@register_fake("invariance::unit_rows_backward")
def _(x, lengths, gradient):
    return x.new_empty(x.shape)


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.save_for_backward(inputs[0], output[1])
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, gradient: Tensor | None, _: Any) -> tuple:
    if gradient is None:
        return None, None
    return unit_rows_backward(*ctx.saved_tensors, gradient), None


register_autograd("invariance::unit_rows", _gradient, setup_context=_keep)
refuse_second_derivative("unit_rows_backward")
