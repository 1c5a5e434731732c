"""Rows of all processes, with the gradient of the global loss.

Every process sees all rows and computes the same loss, so the gradient of its own rows
is complete without any exchange. Data-parallel training then averages the processes'
parameter gradients, which would divide the sum by their number: the factor is put back
here. One process or many, the parameters' gradient is that of the whole batch.
"""

from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor


def gather_rows(x: Shaped[Tensor, "n ..."]) -> Shaped[Tensor, "m ..."]:
    """The rows of every process one after another; x itself where there is one.

    >>> gather_rows(torch.eye(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if not dist.is_available() or not dist.is_initialized():
        return x
    if dist.get_world_size() == 1:
        return x
    return _Gather.apply(x)


def from_first_process(x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """What the first process has, on all of them: for results that may differ."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        x = x.contiguous()
        dist.broadcast(x, src=0)
    return x


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.n = len(x)
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        start = dist.get_rank() * ctx.n
        return gradient[start : start + ctx.n] * dist.get_world_size()
