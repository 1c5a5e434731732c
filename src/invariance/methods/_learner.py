"""What is trained: an encoder and a head, and an objective of what they say of views.

Images → views → encoder h → head z → objective. h is what is evaluated and exported, z
what is trained on. Every learner returns a ``Step`` of named parts; the loop does the
rest, and calls ``before_epoch`` and, when the optimiser has moved, ``after_step``.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..encoders import Encoder, Head, MomentumTwin, Predictor
from ..errors import DataError
from ..objectives import MultiView, Objective, SupCon
from ..partition import gather_rows

Network = Callable[[Tensor], Tensor]


class Step(NamedTuple):
    """One batch through a learner."""

    loss: Tensor
    u: Float[Tensor, "n d"]
    """Projections of the first view, of all processes, without gradient."""
    v: Float[Tensor, "n d"]
    """Projections of the second view, or the positives a memory holds."""
    parts: Mapping[str, Tensor] = MappingProxyType({})
    """Further numbers worth logging, by name."""


class JointEmbedding(nn.Module):
    """One encoder and head for all views; their projections meet in the objective."""

    def __init__(self, encoder: Encoder, head: Head, objective: Objective) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.objective = objective

    def forward(
        self,
        views: Sequence[Tensor],
        labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> Step:
        """Loss and projections of a batch of views."""
        z = project(nn.Sequential(self.encoder, self.head), views)
        return Step(self._loss(z, labels), z[0].detach(), z[1].detach())

    def _loss(self, z: list[Tensor], labels: Tensor | None) -> Tensor:
        if isinstance(self.objective, SupCon):
            if labels is None:
                raise DataError(
                    "supcon learns from labels and these data have none: use class "
                    "folders, or a method that needs no labels, such as simclr."
                )
            return self.objective(torch.cat(z), gather_rows(labels).repeat(len(z)))
        if isinstance(self.objective, MultiView):
            return self.objective(torch.stack(z))
        losses = [self.objective(u, v) for u, v in combinations(z, 2)]
        return torch.stack(losses).mean()

    def after_step(self, progress: float) -> None:
        """Nothing moves but the parameters."""

    def before_epoch(self, progress: float) -> None:
        """Nothing is prepared."""


class SelfPrediction(nn.Module):
    """A predictor turns each view's projection into the other's target (no negatives).

    The target is the projection itself without gradient (SimSiam) or that of a momentum
    twin (BYOL).
    """

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        objective: Objective,
        *,
        hidden: int,
        momentum: float | None,
        rising: bool = True,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.predictor = Predictor(head.width, hidden)
        self.objective = objective
        self.twin = None
        if momentum is not None:
            online = nn.Sequential(encoder, head)
            self.twin = MomentumTwin(online, momentum=momentum, rising=rising)

    def forward(
        self,
        views: Sequence[Tensor],
        labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> Step:
        """Loss and projections of a batch of views."""
        online = nn.Sequential(self.encoder, self.head)
        rows = local_projections(online, views)
        targets = rows if self.twin is None else local_projections(self.twin, views)
        guesses = self.predictor(torch.cat(rows)).chunk(len(rows))
        pairs = list(combinations(range(len(rows)), 2))
        # a mean over samples, so the average over processes is already exact
        losses = [
            self.objective(guesses[a], guesses[b], targets[a], targets[b])
            for a, b in pairs
        ]
        u, v = (gather_rows(row.detach()) for row in rows[:2])
        return Step(torch.stack(losses).mean(), u, v)

    def after_step(self, progress: float) -> None:
        """The twin follows."""
        if self.twin is not None:
            self.twin.follow(nn.Sequential(self.encoder, self.head), progress)

    def before_epoch(self, progress: float) -> None:
        """Nothing is prepared."""


def project(network: Network, views: Sequence[Tensor]) -> list[Tensor]:
    """Each view's rows of all processes, with the gradient of the global loss."""
    return [gather_rows(z) for z in local_projections(network, views)]


def local_projections(network: Network, views: Sequence[Tensor]) -> list[Tensor]:
    """Each view's rows; views of one size go through the network together.

    Together means one set of batch statistics for all of them, as SimCLR has it.
    """
    sizes = {view.shape[1:]: None for view in views}
    done: dict[int, Tensor] = {}
    for size in sizes:
        which = [k for k, view in enumerate(views) if view.shape[1:] == size]
        rows = network(torch.cat([views[k] for k in which])).chunk(len(which))
        done |= dict(zip(which, rows, strict=True))
    return [done[k] for k in range(len(views))]
