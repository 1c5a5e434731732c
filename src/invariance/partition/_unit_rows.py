r"""Unit rows of a 16-bit batch on a GPU: one kernel, and nothing kept but lengths.

$z = x / |x|$ in float32, and $dx = (dz - z\,(z\cdot dz)) / |x|$. Written as plain
PyTorch it would raise a copy of the batch to float32 and keep that for the backward
pass, more than all the rest of a fused loss needs.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ._operation import Code, Operation
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


def _unit(x, least):
    from ._triton import unit_rows

    return unit_rows(x.contiguous(), least)


def _shapes(x, least):
    unit = x.new_empty(x.shape, dtype=torch.float32)
    return unit, x.new_empty(x.shape[:1], dtype=torch.float32)


def _backward(x, lengths, gradient):
    from ._triton import unit_rows_backward

    return unit_rows_backward(x.contiguous(), lengths, gradient.contiguous())


def _backward_shapes(x, lengths, gradient):
    return x.new_empty(x.shape)


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.save_for_backward(inputs[0], output[1])


def _gradient(backward: Any, ctx: Any, gradient: Tensor | None, _: Any) -> tuple:
    if gradient is None:
        return None, None
    return backward(*ctx.saved_tensors, gradient), None


unit_rows_operator = Operation(
    "unit_rows",
    Code("(Tensor x, float least) -> (Tensor, Tensor)", _unit, _shapes),
    Code(
        "(Tensor x, Tensor lengths, Tensor gradient) -> Tensor",
        _backward,
        _backward_shapes,
    ),
    keep=_keep,
    gradient=_gradient,
    results=2,
)
