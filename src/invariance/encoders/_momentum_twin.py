r"""The momentum twin: a slowly moving average of a network, the target of another.

$$\theta' \leftarrow m\,\theta' + (1 - m)\,\theta,\qquad
m(p) = 1 - (1 - m_0)\,\frac{\cos(\pi p) + 1}{2}$$

m rises from ``momentum`` to 1 as training progresses (p from 0 to 1), or is constant.
The twin never gets a gradient. Its batch norms keep their own running statistics, which
are those of the batches it has itself seen in training mode.
"""

import copy
import math

import torch
from torch import Tensor, nn

from ..errors import SettingError


class MomentumTwin(nn.Module):
    """A copy of ``network`` that follows it.

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

    @torch.no_grad()
    def forward(self, *inputs: Tensor) -> Tensor:
        """The twin's output, without gradient."""
        return self.network(*inputs)

    @torch.no_grad()
    def follow(self, network: nn.Module, progress: float = 0.0) -> None:
        """Move a little towards ``network``; ``progress`` is the share of training."""
        m = self.momentum
        if self.rising:
            m = 1 - (1 - m) * (math.cos(math.pi * progress) + 1) / 2
        theirs = [p.detach() for p in network.parameters()]
        torch._foreach_lerp_(list(self.network.parameters()), theirs, 1 - m)
