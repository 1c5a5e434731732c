"""Learners whose negatives outlive the batch: MoCo, Instance Discrimination and kin.

Anchors come from the encoder; keys come from its momentum twin (MoCo, PCL) or are the
anchors of earlier steps (a memory bank holds them). What was used in a step is
remembered after the optimiser has moved, never before: the backward pass still needs
the rows it was computed with, and no key may be its own negative.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..encoders import Encoder, Head, MomentumTwin, shuffle_batches
from ..errors import SettingError
from ..negatives import NegativeSource, Prototypes, Queue
from ..objectives import MultiView, Objective, SupCon
from ..partition import gather_rows
from ._learner import Step, local_projections, project


class Remembering(nn.Module):
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
        super().__init__()
        if isinstance(objective, SupCon | MultiView):
            raise SettingError(
                f"{type(objective).__name__} puts its own views together: call its "
                "against(...) in a loop of your own, or choose info_nce, nt_xent, dcl, "
                "dhel, flat_nce, debiased or binary_nce."
            )
        self.encoder = encoder
        self.head = head
        self.objective = objective
        self.negatives = source
        self.prototypes: Any = nn.ModuleList(prototypes)
        self.symmetric = symmetric
        self.twin = None
        if momentum is not None:
            online = nn.Sequential(encoder, head)
            self.twin = MomentumTwin(online, momentum=momentum, rising=rising)
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
                "Negatives that outlive the batch need to know whose they are: pass "
                "ids, the samples' numbers in the data set."
            )
        ids = gather_rows(ids)
        if self.twin is None:
            return self._ask_the_bank(views, ids)
        return self._ask_the_twin(self.twin, views, ids)

    def _ask_the_bank(self, views: Sequence[Tensor], ids: Tensor) -> Step:
        rows = project(nn.Sequential(self.encoder, self.head), views)
        own = self._bank_rows(rows[0], ids)
        losses = [self._loss(u, None, ids, self.negatives) for u in rows]
        self._keep(rows[-1], ids)
        return self._step(torch.stack(losses).mean(), rows[0], own)

    def _ask_the_twin(
        self, twin: MomentumTwin, views: Sequence[Tensor], ids: Tensor
    ) -> Step:
        online = nn.Sequential(self.encoder, self.head)
        askers = range(len(views)) if self.symmetric else range(1)
        answering = range(0 if self.symmetric else 1, len(views))
        rows = project(online, [views[a] for a in askers])
        found = local_projections(shuffle_batches(twin), [views[b] for b in answering])
        keys = {b: gather_rows(k) for b, k in zip(answering, found, strict=True)}
        newest = keys[len(views) - 1]
        losses = [
            self._loss(u, keys[b], ids, self._source(newest, ids))
            for a, u in zip(askers, rows, strict=True)
            for b in answering
            if a != b
        ]
        self._keep(newest, ids)
        return self._step(torch.stack(losses).mean(), rows[0], newest)

    def _source(self, keys: Tensor, ids: Tensor) -> NegativeSource:
        """The queue; for the very first batch the other samples' keys."""
        if not isinstance(self.negatives, Queue) or len(self.negatives):
            return self.negatives
        first = Queue(len(keys), keys.shape[1]).to(keys.device)
        first.remember(keys, ids)
        return first

    def _loss(
        self, u: Tensor, v: Tensor | None, ids: Tensor, source: NegativeSource
    ) -> Tensor:
        loss = self.objective.against(u, v, source, ids)
        ready = [p for p in self.prototypes if p.clustered]
        if ready:
            further = [self.objective.against(u, None, p, ids) for p in ready]
            loss = loss + torch.stack(further).mean()
        own = self.negatives.own_loss()
        return loss if own is None else loss + own

    def _bank_rows(self, u: Tensor, ids: Tensor) -> Tensor:
        bank: Any = self.negatives.bank or self.negatives
        bank.check(u, ids)
        return bank.z[ids].clone()

    def _keep(self, z: Tensor, ids: Tensor) -> None:
        if self.training:
            self.used.append((z.detach(), ids))

    def _step(self, loss: Tensor, u: Tensor, v: Tensor) -> Step:
        return Step(loss, u.detach(), v.detach(), self.negatives.readings())

    def after_step(self, progress: float) -> None:
        """The twin follows, the memory takes in what was used."""
        if self.twin is not None:
            self.twin.follow(nn.Sequential(self.encoder, self.head), progress)
        for z, ids in self.used:
            self.negatives.remember(z, ids)
            if self.prototypes:
                self.prototypes[0].bank.remember(z, ids)
        self.used.clear()
        self.negatives.advance(progress)

    def before_epoch(self, progress: float) -> None:
        """Cluster anew, where clusters are used."""
        for source in (self.negatives, *self.prototypes):
            source.refresh(progress)
