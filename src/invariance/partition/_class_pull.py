"""What pulls the rows of a class together, on a GPU: value and gradient at once."""

import torch
from torch import Tensor
from torch.library import custom_op, register_fake

from ._operation import alone_on


def class_pull(
    z: Tensor, labels: Tensor, factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradient of unit rows, who has others of its class (1 or 0), and the value.

    Args:
        z: Raw rows, for which ``suits_fused_loss``; not differentiated here.
        labels: An integer each.
        factor: Times the sum over rows of the mean product with the others of a row's
            class: that is the value, and twice that mean the gradient.
    """
    run = _operator if torch.compiler.is_compiling() else _class_pull
    return run(z.detach(), labels, factor)


def _class_pull(
    z: Tensor, labels: Tensor, factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    from . import _triton

    with alone_on(z):
        return _triton.class_pull(z.contiguous(), labels, factor)


_operator = custom_op(
    "invariance::class_pull",
    _class_pull,
    mutates_args=(),
    schema="(Tensor z, Tensor labels, float factor) -> (Tensor, Tensor, Tensor)",
)


@register_fake("invariance::class_pull")
def _(z: Tensor, labels: Tensor, factor: float) -> tuple[Tensor, Tensor, Tensor]:
    def room(*shape: int) -> Tensor:
        return z.new_empty(shape, dtype=torch.float32)

    return room(*z.shape), room(z.shape[0]), room()
