"""The contrast of two views as one operation from raw rows to logits.

Where the fused kernels can take a batch whole: two views of 16- or 32-bit rows on a
device, a temperature that is a number and not extreme. In eager mode it is a plain
autograd function, which costs the host a few microseconds; inside torch.compile it is
an operator, which the compiler takes as one node. The kernels are the same.
"""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op, register_autograd, register_fake

from ._fused import alone_on
from ._layout import layout, padded
from ._operators import refuse, refuse_second_derivative
from ._plan import resolve, why_not_fused

# Unit rows and a scale up to this: every term of a sum is an ordinary float32 number.
SAFE_SCALE = 43.0
WIDEST = 4096
MOST_SCALES = 2


def fused_contrast(
    u: Tensor,
    v: Tensor,
    *,
    scale: float | int | Tensor,
    powers: tuple[float, ...],
    cross: bool,
    precision: str,
) -> tuple[Tensor, Tensor] | None:
    """Logits (2, n) and log-partitions (k, 2, n) of raw rows; None if not for these."""
    if isinstance(scale, Tensor) or not _suits(u, v, scale, powers, cross):
        return None
    exact = resolve(precision, u.dtype, u.device) == "exact"
    scales = [float(scale * power) for power in powers]
    if torch.compiler.is_compiling():
        return contrast_operator(u, v, float(scale), scales, cross, exact)[:2]
    return _Contrast.apply(u, v, float(scale), tuple(scales), cross, exact)


def _suits(
    u: Tensor, v: Tensor, scale: float | int, powers: tuple[float, ...], cross: bool
) -> bool:
    most = 1 if cross else MOST_SCALES
    reach = abs(scale) * max(1.0, *(abs(power) for power in powers))
    return (
        len(powers) <= most
        and 0 < reach <= SAFE_SCALE
        and u.dtype == v.dtype
        and u.device == v.device
        and u.shape[1] <= WIDEST
        and not why_not_fused(u.device, u.dtype)
    )


class _Contrast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, u: Tensor, v: Tensor, scale: float, scales: tuple[float, ...],
        cross: bool, exact: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        from ._triton import contrast_forward

        u, v = u.contiguous(), v.contiguous()
        with alone_on(u):
            positive, negative, kept = contrast_forward(
                u, v, scale, scales, cross, exact
            )
        ctx.how = scale, scales, cross
        ctx.save_for_backward(u, v, negative, *kept)
        ctx.set_materialize_grads(False)
        return positive, negative

    @staticmethod
    def backward(
        ctx: Any, d_positive: Tensor | None, d_negative: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        from ._triton import contrast_backward

        u, v, negative, *kept = ctx.saved_tensors
        if d_negative is None:
            d_negative = torch.zeros_like(negative)
        with alone_on(u), torch.no_grad():
            du, dv = contrast_backward(
                u, v, negative, tuple(kept), d_positive, d_negative, *ctx.how
            )
        if torch.is_grad_enabled():  # someone wants the gradient's own graph
            du, dv = _Once.apply(du, dv, u, v)
        return du, dv, None, None, None, None


class _Once(torch.autograd.Function):
    """Gradients that depend on the rows in a way that is not differentiated."""

    @staticmethod
    def forward(
        ctx: Any, du: Tensor, dv: Tensor, u: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        return du.view_as(du), dv.view_as(dv)

    backward = staticmethod(refuse)


# ---------------------------------------------------------------- under torch.compile


@custom_op(
    "invariance::two_views",
    mutates_args=(),
    schema="(Tensor u, Tensor v, float scale, float[] scales, bool cross, bool exact) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def contrast_operator(u, v, scale, scales, cross, exact):
    from ._triton import contrast_forward

    u, v = u.contiguous(), v.contiguous()
    with alone_on(u):
        positive, negative, kept = contrast_forward(
            u, v, scale, tuple(scales), cross, exact
        )
    return positive, negative, *kept


@register_fake("invariance::two_views")
def _(u, v, scale, scales, cross, exact):
    n, d = u.shape
    parts, each = 1 + exact, padded(n if cross else 2 * n)
    shape = (parts, each, layout(int(d)).stride)
    single = {"dtype": torch.float32}
    return (
        u.new_empty((2, n), **single),
        u.new_empty((len(scales), 2, n), **single),
        u.new_empty((2, *shape) if cross else shape, dtype=torch.float16),
        u.new_empty((2, n), **single),
        u.new_empty(8, **single),
    )


@custom_op(
    "invariance::two_views_backward",
    mutates_args=(),
    schema="(Tensor u, Tensor v, Tensor negative, Tensor tiles, Tensor lengths, "
    "Tensor state, Tensor d_positive, Tensor d_negative, float scale, float[] scales, "
    "bool cross) -> (Tensor, Tensor)",
)
def contrast_backward_operator(
    u, v, negative, tiles, lengths, state, d_positive, d_negative, scale, scales, cross
):
    from ._triton import contrast_backward

    u, v, kept = u.contiguous(), v.contiguous(), (tiles, lengths, state)
    how = (scale, tuple(scales), cross)
    with alone_on(u):
        return contrast_backward(u, v, negative, kept, d_positive, d_negative, *how)


@register_fake("invariance::two_views_backward")
def _(
    u, v, negative, tiles, lengths, state, d_positive, d_negative, scale, scales, cross
):
    return u.new_empty(u.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    u, v, *how, _ = inputs
    _, negative, *kept = output
    ctx.how = how
    ctx.save_for_backward(u, v, negative, *kept)
    ctx.set_materialize_grads(False)


def _gradient(
    ctx: Any, d_positive: Tensor | None, d_negative: Tensor | None, *_: Any
) -> tuple:
    u, v, negative, *kept = ctx.saved_tensors
    if d_positive is None:
        d_positive = torch.zeros_like(negative[0])
    if d_negative is None:
        d_negative = torch.zeros_like(negative)
    du, dv = contrast_backward_operator(
        u, v, negative, *kept, d_positive, d_negative, *ctx.how
    )
    return du, dv, None, None, None, None


register_autograd("invariance::two_views", _gradient, setup_context=_keep)
refuse_second_derivative("two_views_backward")
