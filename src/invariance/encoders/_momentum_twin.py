r"""The momentum twin: a slowly moving average of a network, the target of another.

$$\theta' \leftarrow m\,\theta' + (1 - m)\,\theta,\qquad
m(p) = 1 - (1 - m_0)\,\frac{\cos(\pi p) + 1}{2}$$

m rises from ``momentum`` to 1 as training progresses (p from 0 to 1), or is constant.
The twin never gets a gradient. Its batch norms keep their own running statistics, those
of the batches that the twin has seen in training mode.

Shuffled batch norm (MoCo): where each process normalizes by its own batch, a query and
its key share their neighbors and can recognize each other by them, without looking at
the image. So images are dealt out anew over the processes before the twin sees them,
and its outputs are sent back.
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..errors import SettingError
from ._synced_norm import LOCAL_NORMS


class MomentumTwin(nn.Module):
    """A copy of ``network`` that follows it.

    Settings:
        momentum (0 to 1): Share of its own weights that the twin keeps at each step.
        rising: Whether the momentum rises to 1 by the end of training.

    >>> network = nn.Linear(2, 2)
    >>> twin = MomentumTwin(network, momentum=0.5)
    >>> _ = nn.init.constant_(network.weight, 1.0)
    >>> before = twin.network.weight.clone()
    >>> twin.follow(network)
    >>> torch.allclose(twin.network.weight, (before + 1) / 2)
    True
    """

    def __init__(
        self, network: nn.Module, *, momentum: float = 0.996, rising: bool = True
    ) -> None:
        super().__init__()
        if not 0 <= momentum <= 1:
            raise SettingError(f"momentum lies between 0 and 1: got {momentum}.")
        self.network = copy.deepcopy(network).requires_grad_(False)
        self.momentum = momentum
        self.rising = rising

    def describe(self) -> str:
        """Its momentum, in words."""
        rising = " rising to 1" * self.rising
        return f"momentum twin at {self.momentum:g}{rising}"

    @torch.no_grad()
    def forward(self, *inputs: Tensor) -> Tensor:
        """The twin's output, without gradient."""
        return self.network(*inputs)

    @torch.no_grad()
    def follow(self, network: nn.Module, progress: float | Tensor = 0.0) -> None:
        """Move a little towards ``network``; ``progress`` is the share of training.

        A share that is a tensor stays on its device.
        """
        mine: Any = list(self.network.parameters())
        target: Any = [p.detach() for p in network.parameters()]
        if self.rising and isinstance(progress, Tensor):
            way = (1 - self.momentum) * ((math.pi * progress).cos() + 1) / 2
            ways = torch._foreach_sub(target, mine)
            torch._foreach_mul_(ways, way)
            torch._foreach_add_(mine, ways)
            return
        m = self.momentum
        if self.rising:
            m = 1 - (1 - m) * (math.cos(math.pi * progress) + 1) / 2
        torch._foreach_lerp_(mine, target, 1 - m)


def shuffle_batches(
    network: nn.Module, gather: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    """The network as a function of batches that are dealt out anew over the processes.

    ``gather`` gives the rows of all processes, in their order. With one process, or
    with batch norms that use the statistics of all processes, there is nothing to
    shuffle and this is the network itself.
    """
    parallel = dist.is_available() and dist.is_initialized()
    parallel = parallel and dist.get_world_size() > 1
    if parallel and any(type(module) in LOCAL_NORMS for module in network.modules()):
        return lambda x: _run_shuffled(network, x, gather)
    return network


@torch.no_grad()
def _run_shuffled(
    network: nn.Module, x: Tensor, gather: Callable[[Tensor], Tensor]
) -> Tensor:
    rank, everyone = dist.get_rank(), gather(x)
    start = int(gather(torch.tensor([len(x)], device=x.device))[:rank].sum())
    own_rows = slice(start, start + len(x))
    # all processes draw, so that their generators stay alike; the first one decides
    order = torch.randperm(len(everyone), device=x.device)
    dist.broadcast(order, src=0)
    shuffled = gather(network(everyone[order[own_rows]]))
    out = torch.empty_like(shuffled)
    out[order] = shuffled
    return out[own_rows]
