"""NNCLR: the positive is the nearest neighbour of the other view among past samples.

Each view's projection is swapped for the nearest row of a queue of earlier projections
(of another sample), and a predictor must find it from the other view. The negatives are
those of the batch, so any two-view objective fits.
"""

from collections.abc import Sequence
from itertools import permutations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..encoders import Encoder, Head, Predictor
from ..errors import SettingError
from ..negatives import Queue
from ..objectives import Objective
from ..partition import gather_rows
from ._learner import Step, project


class NearestNeighbour(nn.Module):
    """Contrast with nearest neighbours as positives."""

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        objective: Objective,
        support: Queue,
        hidden: int,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.predictor = Predictor(head.width, hidden)
        self.objective = objective
        self.support = support
        self.used: list[tuple[Tensor, Tensor]] = []

    def forward(
        self,
        views: Sequence[Tensor],
        labels: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> Step:
        """Loss and projections of a batch of views of samples ``ids``."""
        if ids is None:
            raise SettingError(
                "A neighbour must be another sample: pass ids, the samples' numbers in "
                "the data set."
            )
        ids = gather_rows(ids)
        rows = project(nn.Sequential(self.encoder, self.head), views)
        guesses = self.predictor(torch.cat(rows)).chunk(len(rows))
        neighbours = [nearest(row.detach(), ids, self.support) for row in rows]
        losses = [
            self.objective(neighbours[a], guesses[b])
            for a, b in permutations(range(len(rows)), 2)
        ]
        if self.training:
            self.used.append((rows[0].detach(), ids))
        return Step(torch.stack(losses).mean(), rows[0].detach(), rows[1].detach())

    def after_step(self, progress: float) -> None:
        """The first view's projections become the next steps' neighbours."""
        for z, ids in self.used:
            self.support.remember(z, ids)
        self.used.clear()

    def before_epoch(self, progress: float) -> None:
        """Nothing is prepared."""


@torch.no_grad()
def nearest(
    z: Float[Tensor, "n d"], ids: Int[Tensor, " n"], support: Queue
) -> Float[Tensor, "n d"]:
    """The nearest rows of other samples; while there are none, the rows themselves.

    >>> support = Queue(4, width=2)
    >>> support.remember(torch.eye(2), torch.tensor([0, 1]))
    >>> nearest(torch.tensor([[0.9, 0.1]]), torch.tensor([0]), support)
    tensor([[0., 1.]])
    """
    z = normalize(z, dim=1)
    if not len(support):
        return z
    found = support.candidates()
    with torch.autocast(z.device.type, enabled=False):
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        scores = z @ found.z.to(z).T
    own = ids[:, None] == found.ids
    scores = scores.masked_fill(own, -torch.inf)
    swapped = found.z.to(z)[scores.argmax(1)]
    return torch.where(own.all(1, keepdim=True), z, swapped)
