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


def gather(
    x: Shaped[Tensor, "n ..."], *, equal: bool = False
) -> Shaped[Tensor, "m ..."]:
    """The rows of every process one after another; x itself where there is one.

    Differentiable and exact: compute the loss of all rows on every process, and average
    the parameters' gradients over the processes, as DistributedDataParallel does. The
    gradient of a process's own rows is multiplied by the number of processes, so that
    the average is the gradient of the loss of the whole batch. Without that averaging
    (one process alone taking the step, or gradients added up) divide by their number.

    Args:
        x: This process's rows; the other axes are alike on all processes.
        equal: Whether every process is known to have as many rows. Otherwise their
            numbers are exchanged first, which on a GPU is a wait for the device.

    >>> gather(torch.eye(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if not dist.is_available() or not dist.is_initialized():
        return x
    n_processes = dist.get_world_size()
    if n_processes == 1:
        return x
    sizes = [len(x)] * n_processes
    if not equal:
        counts = torch.empty(n_processes, dtype=torch.int64, device=x.device)
        own = torch.tensor([len(x)], device=x.device)
        dist.all_gather_into_tensor(counts, own)
        sizes = counts.tolist()
    return _Gather.apply(x, sizes)


def gather_rows(x: Shaped[Tensor, "n ..."]) -> Shaped[Tensor, "m ..."]:
    """``gather`` where all processes are known to have as many rows."""
    return gather(x, equal=True)


def from_first_process(x: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """What the first process has, on all of them: for results that may differ."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        x = x.contiguous()
        dist.broadcast(x, src=0)
    return x


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, sizes: list[int]) -> Tensor:
        ctx.start, ctx.n = sum(sizes[: dist.get_rank()]), len(x)
        most = max(sizes)
        if len(x) < most:  # processes exchange blocks of one size
            x = torch.cat([x, x.new_zeros(most - len(x), *x.shape[1:])])
        parts = [torch.empty_like(x) for _ in sizes]
        dist.all_gather(parts, x.contiguous())
        return torch.cat([part[:n] for part, n in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        own = gradient[ctx.start : ctx.start + ctx.n]
        return own * dist.get_world_size(), None
