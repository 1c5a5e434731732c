"""Learners whose negatives outlive the batch: MoCo, Instance Discrimination and kin.

Anchors come from the encoder; keys come from its momentum twin (MoCo, PCL) or are the
anchors of earlier steps (a memory bank holds them). What was used in a step is
remembered after the optimizer has moved, never before: the backward pass still needs
the rows it was computed with, and no key may be its own negative.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..encoders import Encoder, Head, MomentumTwin, shuffle_batches
from ..errors import SettingError
from ..negatives import NegativeSource, Prototypes, Queue
from ..objectives import Objective, Terms
from ..partition import gather_rows
from ._learner import Learner, Maybe, Step, local_projections, make_step, project


class Remembering(Learner):
    """Views against a queue or a memory bank, with or without a momentum twin.

    With a twin, the first view asks and the twin answers for the others; ``symmetric``
    lets every view ask. Without, every view asks the bank, and the last is remembered.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: Head,
        objective: Objective,
        source: NegativeSource,
        *,
        momentum: float | None = None,
        rising: bool = False,
        symmetric: bool = False,
        prototypes: Sequence[Prototypes] = (),
    ) -> None:
        super().__init__(encoder, head, objective)
        if objective.takes != "pair":
            raise SettingError(
                f"{type(objective).__name__} puts its views together itself: call its "
                "against(...) in a loop of your own, or choose info_nce, nt_xent, dcl, "
                "dhel, flat_nce, debiased or binary_nce."
            )
        self.negatives = source
        self.prototypes: Any = nn.ModuleList(prototypes)
        self.symmetric = symmetric
        self.twin = None
        if momentum is not None:
            self.twin = MomentumTwin(self.online, momentum=momentum, rising=rising)
        self.used: list[tuple[Tensor, Tensor]] = []
        self.shares: dict[str, list[Callable[[], Tensor]]] = {}

    def learn(self, views: list[Tensor], labels: Maybe, ids: Maybe) -> Step:
        """Views of samples ``ids`` against what is remembered."""
        if ids is None:
            raise SettingError(
                "Negatives that outlive the batch need to know whose they are: pass "
                "ids, the samples' numbers in the data set."
            )
        ids, self.shares = gather_rows(ids), {}
        if self.twin is None:
            return self._ask_bank(views, ids)
        return self._ask_twin(self.twin, views, ids)

    def _ask_bank(self, views: list[Tensor], ids: Tensor) -> Step:
        rows = project(self.online, views)
        bank: Any = self.negatives.bank or self.negatives
        bank.check(rows[0], ids)
        positives = bank.z[ids].clone()
        terms = [self._terms(u, None, ids, self.negatives) for u in rows]
        self._keep(rows[-1], ids)
        readings = self.negatives.readings()
        return make_step(terms, rows[0], positives, readings, self.shares)

    def _ask_twin(self, twin: MomentumTwin, views: list[Tensor], ids: Tensor) -> Step:
        askers = range(len(views)) if self.symmetric else range(1)
        answering = range(0 if self.symmetric else 1, len(views))
        rows = project(self.online, [views[a] for a in askers])
        local = local_projections(shuffle_batches(twin), [views[b] for b in answering])
        keys = {b: gather_rows(k) for b, k in zip(answering, local, strict=True)}
        newest = keys[len(views) - 1]
        source = self._source(newest, ids)
        terms = [
            self._terms(u, keys[b], ids, source)
            for a, u in zip(askers, rows, strict=True)
            for b in answering
            if a != b
        ]
        self._keep(newest, ids)
        readings = self.negatives.readings()
        return make_step(terms, rows[0], newest, readings, self.shares)

    def _source(self, keys: Tensor, ids: Tensor) -> NegativeSource:
        """The queue; for the very first batch the other samples' keys."""
        if not isinstance(self.negatives, Queue) or len(self.negatives):
            return self.negatives
        first = Queue(len(keys), keys.shape[1]).to(keys.device)
        first.remember(keys, ids)
        return first

    def _terms(
        self, u: Tensor, v: Tensor | None, ids: Tensor, source: NegativeSource
    ) -> Terms:
        loss = self._ask("ess", u, v, source, ids)
        lesson = self.negatives.own_loss()
        if lesson is not None:
            loss = loss + lesson
        clustered = [p for p in self.prototypes if p.clustered]
        if not clustered:
            return Terms({"loss": loss})
        further = [self._ask("ess/prototypes", u, None, p, ids) for p in clustered]
        return Terms({"instances": loss, "prototypes": torch.stack(further).mean()})

    def _ask(
        self, ess: str, u: Tensor, v: Tensor | None, source: NegativeSource, ids: Tensor
    ) -> Tensor:
        """The loss against a source; how to read its ESS is kept under this name."""
        source.shares = None
        loss = self.objective.against(u, v, source, ids)
        if source.shares is not None:  # there is a softmax
            self.shares.setdefault(ess, []).append(source.shares)
        return loss

    def _keep(self, z: Tensor, ids: Tensor) -> None:
        if self.training:
            self.used.append((z.detach(), ids))

    def n_candidates(self, n: int) -> int:
        """The positive, and what is remembered; at first the batch, as ``_source``."""
        return self.negatives.n_negatives + 1 if self.negatives.n_negatives else n

    def after_step(self, progress: float = 0.0) -> None:
        """The twin follows, the memory takes in what was used."""
        if self.twin is not None:
            self.twin.follow(self.online, progress)
        for z, ids in self.used:
            self.negatives.remember(z, ids)
            if self.prototypes:
                self.prototypes[0].bank.remember(z, ids)
        self.used.clear()
        self.negatives.advance(progress)

    def before_epoch(self, progress: float = 0.0) -> None:
        """Cluster anew, where clusters are used."""
        for source in (self.negatives, *self.prototypes):
            source.refresh(progress)
