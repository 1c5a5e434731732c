"""NNCLR: the positive is the nearest neighbor of the other view among past samples.

Each view's projection is swapped for the nearest row of a queue of earlier projections
(of another sample), and a predictor must find it from the other view. The negatives are
those of the batch, so any two-view objective fits. With multi-crop only the large
crops are swapped for neighbors, and those of the first are remembered.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from ..encoders import Encoder, Head, Predictor
from ..errors import SettingError
from ..negatives import Queue
from ..objectives import Objective
from ._learner import Learner, Maybe, Together, View, split_views
from ._learner_step import Step, make_step, shares_of


class NearestNeighbor(Learner):
    """Contrast with nearest neighbors as positives."""

    least_views = 2

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        objective: Objective,
        support: Queue,
        hidden: int,
    ) -> None:
        super().__init__(encoder, head, objective)
        self.predictor = Predictor(head.width, hidden)
        self.support = support
        support.gather = False  # it is given the rows of all processes

    def learn(self, views: list[View], labels: Maybe, ids: Maybe) -> Step:
        """Each whole view's neighbor, to be found from every other view."""
        if ids is None:
            raise SettingError(
                "A neighbor must be another sample: pass ids, the samples' numbers in "
                "the data set."
            )
        rows = self.encode(self.online, views)
        guesses = Together(self.predictor)(*rows)
        whole, parts = split_views(range(len(views)), views)
        neighbors = {a: nearest(rows[a].detach(), ids, self.support) for a in whole}
        contrasts = [
            (neighbor, guesses[b])
            for a, neighbor in neighbors.items()
            for b in range(len(rows))
            if a != b
        ]
        terms = [self.objective.terms(*pair) for pair in contrasts]
        u, v = (rows[k] for k in [*whole, *parts][:2])
        if self.training:
            self.used.append((self.gather(u), self.gather(ids)))
        return make_step(terms, u, v, shares=shares_of(self.objective, contrasts))

    @property
    def host_state(self) -> tuple[Any, ...]:
        """How full the support is."""
        return self.support.host_state

    @property
    def left_behind(self) -> str:
        """The rows among which neighbors are found."""
        return "the queue of neighbors has taken in nothing"

    def after_step(self, progress: float | Tensor = 0.0) -> None:
        """The first view's projections become the next steps' neighbors."""
        super().after_step(progress)
        for z, ids in self.used:
            self.support.remember(z, ids)
        self.used.clear()


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
    candidates = support.candidates()
    with torch.autocast(z.device.type, enabled=False):
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        scores = z @ candidates.z.to(z).T
    same = ids[:, None] == candidates.ids
    best = scores.masked_fill(same, -torch.inf).argmax(1)
    return torch.where(same.all(1, keepdim=True), z, candidates.z.to(z)[best])
