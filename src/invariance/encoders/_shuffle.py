"""Shuffled batch norm: keys are normalised in other company than their queries.

With batch statistics of one process alone, a query and its key share a batch of
neighbours and so can recognise each other by it, without looking at the image. Before
the twin sees them, images are therefore dealt out anew over the processes, and its
outputs sent back (MoCo). With one process, and with batch norms that use the statistics
of all of them, there is nothing to shuffle.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

LOCAL = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def shuffled(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """The network, on batches dealt out anew over the processes where that matters."""
    several = dist.is_available() and dist.is_initialized()
    several = several and dist.get_world_size() > 1
    if several and any(type(module) in LOCAL for module in network.modules()):
        return lambda x: _shuffled(network, x)
    return network


@torch.no_grad()
def _shuffled(network: nn.Module, x: Tensor) -> Tensor:
    rank, world, n = dist.get_rank(), dist.get_world_size(), len(x)
    # every process draws, one decides: the generators of all move on alike
    order = torch.randperm(n * world, device=x.device)
    dist.broadcast(order, src=0)
    mine = order[rank * n : (rank + 1) * n]
    out = network(_gathered(x)[mine])
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=order.device)
    return _gathered(out)[back[rank * n : (rank + 1) * n]]


def _gathered(x: Tensor) -> Tensor:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)
