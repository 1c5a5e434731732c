"""Rows of all processes, with the gradient of the global loss.

Every process sees all rows and computes the same loss, so the gradient of its own rows
is complete without any exchange. Data-parallel training then averages the processes'
parameter gradients, which would divide the sum by their number: the factor is put back
here. One process or many, the parameters' gradient is that of the whole batch.
"""

import math
import zlib
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor

from ..errors import ShapeError


def gather_rows(
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

    >>> gather_rows(torch.eye(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if not dist.is_available() or not dist.is_initialized():
        return x
    n_processes = dist.get_world_size()
    if n_processes == 1:
        return x
    sizes = [len(x)] * n_processes if equal else _exchange_sizes(x, n_processes)
    return _Gather.apply(x, sizes)


gather = gather_rows  # its first name


def _exchange_sizes(x: Tensor, n_processes: int) -> list[int]:
    """How many rows every process has; raises on all of them if the rows differ."""
    dtype = zlib.crc32(str(x.dtype).encode())
    own = torch.tensor([len(x), math.prod(x.shape[1:]), dtype], device=x.device)
    each = own.new_empty(n_processes * len(own))
    dist.all_gather_into_tensor(each, own)
    sizes, widths, dtypes = each.view(n_processes, -1).T.tolist()
    if len({*widths}) > 1 or len({*dtypes}) > 1:
        raise ShapeError(
            "The rows of all processes need one width and one dtype: theirs have "
            f"{', '.join(map(str, widths))} numbers each; process {dist.get_rank()} "
            f"has {x.dtype}."
        )
    return sizes


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
