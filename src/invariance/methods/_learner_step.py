"""What a learner answers: the loss of a batch, its parts, and how to read it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..objectives import Objective, Terms
from ..partition import Share, gather_rows

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Step(NamedTuple):
    """One batch through a learner."""

    loss: Tensor
    u: Float[Tensor, "n d"]
    """Projections of the first view, without gradient; see ``gathered``."""
    v: Float[Tensor, "n d"]
    """Projections of the second view, or the positives a memory holds."""
    parts: Mapping[str, Tensor] = NOTHING
    """The parts of the loss by name, unweighted and without gradient, if it has any."""
    readings: Mapping[str, Tensor] = NOTHING
    """Further numbers worth logging, by name."""
    shares: Mapping[str, Sequence[Callable[[], Tensor]]] = NOTHING
    """How to compute the effective share of each anchor's negatives, by the reading's
    name, for every contrast the loss is made of."""
    contrasts: Sequence[Callable[[], tuple[Tensor, ...]]] = ()
    """How to compute the anchors' InfoNCE over their candidates, the logarithm of the
    candidates' number and, where u and v are not all of them, whether each anchor finds
    its partner among these; where the cosines of u and v do not say it: of a memory
    whose rows are the negatives as they are, of predictions, or of a learned critic."""
    hits: Callable[[], Tensor] | None = None
    """How to compute whether each anchor finds its partner, by a learned critic."""
    share: Share | None = None
    """Which samples of all these are, where several processes share a batch."""

    def gathered(self) -> "Step":
        """The step with the projections of all processes; each of them must ask."""
        u, v = (gather_rows(x, share=self.share) for x in (self.u, self.v))
        return self._replace(u=u, v=v, share=None)

    def with_ess(self) -> "Step":
        """The step with the effective sample size of its negatives as a reading.

        "ess" is the mean share of the negatives that carries the weight, of those that
        the loss had, and NaN if no anchor had any. Ask before ``after_step``: then the
        memory takes in others. Without a softmax over negatives there is no such thing.
        It is that of all processes, and each of them must ask.
        """
        ess = {
            name: torch.cat([share() for share in shares]).nanmean()
            for name, shares in self.shares.items()
        }
        return self._replace(readings={**self.readings, **ess})

    def with_information(self) -> "Step":
        """The step with the information bound of ``contrasts`` as a reading.

        "info_nce" and "mi_nats", at most "mi_ceiling", the logarithm of the number of
        candidates; of predictions and of a learned critic also "accuracy". Ask before
        ``after_step``, too. Without a memory or a critic, or where a memory chooses its
        negatives, nothing is added: the batch's own rows say it.
        """
        if not self.contrasts and self.hits is None:
            return self
        readings = dict(self.readings)
        if self.hits is not None:
            readings["accuracy"] = self.hits().mean()
        if self.contrasts:
            both = [torch.stack(contrast()) for contrast in self.contrasts]
            loss, ceiling, *shares = torch.cat(both, 1).mean(1)
            readings |= {"info_nce": loss, "mi_nats": ceiling - loss}
            readings["mi_ceiling"] = ceiling
            if self.hits is not None:  # scores without bound reach all there is
                readings["mi_reachable"] = ceiling
                readings.setdefault("accuracy_chance", (-ceiling).exp())
            for share in shares:
                readings |= {"accuracy": share, "accuracy_chance": (-ceiling).exp()}
        return self._replace(readings=readings)

    def __repr__(self) -> str:
        numbers = {"loss": self.loss, **self.parts, **self.readings}
        inner = ", ".join(f"{k}={float(x.detach()):.4g}" for k, x in numbers.items())
        return f"Step({inner}; {len(self.u)} samples)"


def make_step(
    terms: list[Terms],
    u: Tensor,
    v: Tensor,
    readings: Mapping[str, Tensor] = NOTHING,
    shares: Mapping[str, Sequence[Callable[[], Tensor]]] = NOTHING,
    contrasts: Sequence[Callable[[], tuple[Tensor, ...]]] = (),
    hits: Callable[[], Tensor] | None = None,
) -> Step:
    """The mean of several losses, and of their parts where they have any."""
    loss = torch.stack([t.total for t in terms]).mean()
    names = [name for name in terms[0].parts if name != "loss"]
    parts = {k: torch.stack([t.parts[k].detach() for t in terms]).mean() for k in names}
    how = readings, shares, contrasts, hits
    return Step(loss, u.detach(), v.detach(), parts, *how)


def shares_of(
    objective: Objective, contrasts: Sequence[tuple[Tensor, ...]]
) -> Mapping[str, Sequence[Callable[[], Tensor]]]:
    """How to read the ESS of contrasts within a batch, where there are negatives."""
    if objective.negatives is None:
        return NOTHING
    rows = [[x.detach() for x in contrast] for contrast in contrasts]
    return {"ess": [partial(objective.shares, *contrast) for contrast in rows]}
