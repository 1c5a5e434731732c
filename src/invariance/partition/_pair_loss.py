"""A loss of two views as one operation, from raw rows to a number.

Where the fused kernels can take a batch whole: two views of 16- or 32-bit rows on a
device, a temperature that is a number and not extreme. The gradient of unit rows is
computed together with the loss and kept. In eager mode that is a plain autograd
function, which costs the host a few microseconds; inside torch.compile it is an
operator, which the compiler takes as one node. The kernels are the same.
"""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op, register_autograd, register_fake

from ._operation import Once, alone_on, refuse
from ._plan import resolve, why_not_fused

# Unit rows and a scale up to this: every sum of terms is an ordinary float32 number,
# and so is a weight divided by it.
SAFE_SCALE = 42.0
WIDEST = 4096
MOST_SCALES = {"all": 2, "others": 2, "cross": 1, "within": 1}


def fused_loss(
    u: Tensor,
    v: Tensor,
    kind: str,
    *,
    scale: float | int | Tensor,
    negatives: str,
    log_count: float,
    precision: str,
    powers: tuple[float | int, ...] = (1.0,),
    parameters: tuple[float, ...] = (),
    anchors: Tensor | None = None,
    extra: Tensor | None = None,
    largest_scale: float | int | None = None,
) -> Tensor | None:
    """A mean over the 2n anchors of unit rows, or None if not for such rows.

    Args:
        u: One view, raw rows.
        v: The other view.
        kind: Of ``_triton._pair_loss.KINDS``; ``_triton._settle`` has their formulas.
        scale: Of the scores.
        negatives: Where an anchor's negatives are: "all", "cross" or "within"; or
            "others", all rows but its own, where u and v are no views of each other.
        log_count: Logarithm of their number.
        precision: Of the products.
        powers: Factors on the logits, one log-partition each.
        parameters: Of the kind.
        anchors: What each of the 2n anchors weighs in the mean, in float32; else 1.
        extra: To be added to the gradient of the 2n unit rows, in float32: that of a
            term whose value the caller adds to the loss.
        largest_scale: What a scale that is a tensor cannot exceed.
    """
    suits = suits_fused_loss(u, v, scale=scale, negatives=negatives, powers=powers)
    if isinstance(scale, Tensor) or not suits:
        return None
    exact = resolve(precision, u.dtype, u.device) == "exact"
    scales = tuple([float(scale * power) for power in powers])
    numbers = (kind, parameters, float(scale), scales, log_count, negatives, exact)
    learning = torch.is_grad_enabled()
    want_u, want_v = learning and u.requires_grad, learning and v.requires_grad
    if torch.compiler.is_compiling():
        return pair_loss_operator(u, v, anchors, extra, *numbers, want_u, want_v)[0]
    if want_u or want_v:
        return _PairLoss.apply(u, v, anchors, extra, numbers, want_u, want_v)
    return _pair_loss(u, v, anchors, numbers, False, False)[0]


def suits_fused_loss(
    u: Tensor,
    v: Tensor,
    *,
    scale: float | int | Tensor,
    negatives: str,
    powers: tuple[float | int, ...] = (1.0,),
) -> bool:
    """Whether ``fused_loss`` would not return None."""
    if isinstance(scale, Tensor) or not (_is_plain(u) and _is_plain(v)):
        return False
    reach = abs(scale) * max([1.0, *[abs(power) for power in powers]])
    return (
        len(powers) <= MOST_SCALES[negatives]
        and 0 < reach <= SAFE_SCALE
        and u.dtype == v.dtype
        and u.shape[1] <= WIDEST
        and not why_not_fused(u.device, u.dtype)
    )


def _is_plain(x: Tensor) -> bool:
    """Whether rows have memory of their own; a subclass may be spread over devices."""
    return torch.compiler.is_compiling() or type(x) in (Tensor, torch.nn.Parameter)


def _pair_loss(
    u: Tensor, v: Tensor, anchors: Tensor | None, numbers: tuple, want_u: bool,
    want_v: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The loss and, if a gradient is wanted, what it is made of."""
    from . import _triton

    how, rows = _triton.PairLoss(*numbers), (u.contiguous(), v.contiguous())
    anchors = None if anchors is None else anchors.contiguous()
    with alone_on(u):
        return _triton.pair_loss(*rows, anchors, how, want_u, want_v)


def _row_gradients(
    u: Tensor, v: Tensor, kept: tuple, extra: Tensor | None, numbers: tuple,
    outer: Tensor, out: tuple,
) -> None:  # fmt: skip
    from . import _triton

    with alone_on(u):
        rows, scale = (u.contiguous(), v.contiguous()), numbers[2]
        extra = None if extra is None else extra.contiguous()
        _triton.row_gradients(*rows, kept, extra, scale, outer.contiguous(), out)


class _PairLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, u: Tensor, v: Tensor, anchors: Tensor | None, extra: Tensor | None,
        numbers: tuple, want_u: bool, want_v: bool,
    ) -> Tensor:  # fmt: skip
        loss, *kept = _pair_loss(u, v, anchors, numbers, want_u, want_v)
        ctx.save_for_backward(u, v, extra, *kept)
        ctx.numbers = numbers
        return loss

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        u, v, extra, *kept = ctx.saved_tensors
        du, dv = (torch.empty(u.shape, dtype=u.dtype, device=u.device) for _ in "uv")
        _row_gradients(u, v, tuple(kept), extra, ctx.numbers, outer, (du, dv))
        if torch.is_grad_enabled():  # someone wants the gradient's own graph
            du, dv = Once.apply(2, du, dv, outer, u, v)
        want_u, want_v = ctx.needs_input_grad[:2]
        return du if want_u else None, dv if want_v else None, *(None,) * 5


# ---------------------------------------------------------------- under torch.compile
# What is kept has the rows' shape there; the compiler fuses the multiplication.


@custom_op(
    "invariance::pair_loss",
    mutates_args=(),
    schema="(Tensor u, Tensor v, Tensor? anchors, Tensor? extra, str kind, "
    "float[] parameters, float scale, float[] scales, float log_count, str negatives, "
    "bool exact, bool want_u, bool want_v) -> (Tensor, Tensor)",
)
def pair_loss_operator(
    u, v, anchors, extra, kind, parameters, scale, scales, log_count, negatives, exact,
    want_u, want_v,
):  # fmt: skip
    settings = (kind, tuple(parameters), scale, tuple(scales), log_count)
    numbers = (*settings, negatives, exact)
    loss, *kept = _pair_loss(u, v, anchors, numbers, want_u, want_v)
    gradients = loss.new_empty((2, *u.shape) if kept else (0,))
    if kept:
        out = gradients.unbind()
        one = torch.ones_like(loss)
        _row_gradients(u, v, tuple(kept), extra, numbers, one, out)
    return loss, gradients


@register_fake("invariance::pair_loss")
def _(u, v, *how):
    shape = (2, *u.shape) if any(how[-2:]) else (0,)
    return u.new_empty((), dtype=torch.float32), u.new_empty(shape, dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.save_for_backward(output[1])
    ctx.dtype = inputs[0].dtype
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, outer: Tensor | None, second: Tensor | None) -> tuple:
    if second is not None:  # someone differentiates the gradient
        refuse(ctx)
    if outer is None:
        return (None,) * 13
    du, dv = (ctx.saved_tensors[0] * outer).to(ctx.dtype).unbind()
    want_u, want_v = ctx.needs_input_grad[:2]
    return du if want_u else None, dv if want_v else None, *(None,) * 11


register_autograd("invariance::pair_loss", _gradient, setup_context=_keep)
