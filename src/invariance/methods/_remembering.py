"""Learners whose negatives outlive the batch: MoCo, Instance Discrimination and kin.

Anchors come from the encoder; keys come from its momentum twin (MoCo, PCL) or are the
anchors of earlier steps (a memory bank holds them). What was used in a step is
remembered after the optimizer has moved, never before: the backward pass still needs
the rows it was computed with, and no key may be its own negative.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..encoders import Encoder, Head, MomentumTwin, shuffle_batches
from ..errors import SettingError
from ..negatives import Bank, NegativeSource, Prototypes, Queue
from ..objectives import Objective, Terms
from ..partition import Share, gather_last, gather_rows
from ._learner import Learner, Maybe, View, split_views
from ._learner_step import Step, make_step


class Remembering(Learner):
    """Views against a queue or a memory bank, with or without a momentum twin.

    With a twin, the first view asks and the twin answers for the others; the keys of
    the last are remembered. Without, every view asks the bank, and the last is
    remembered.

    Of multi-crop views the small ones only ask: a key, and what a bank remembers, shows
    a whole image, as the targets of the released multi-crop methods do.

    Settings:
        symmetric: Every view asks, the twin answers for every view, and all keys are
            remembered; otherwise the first view asks and the others answer.
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
                f"{type(objective).__name__} puts its views together itself: call "
                "its against(...) in your own loop, or choose info_nce, nt_xent, "
                "dcl, dhel, flat_nce, debiased or binary_nce."
            )
        self.negatives = source
        self.prototypes: Any = nn.ModuleList(prototypes)
        for memory in (source, source.bank, *(p.bank for p in prototypes)):
            if memory is not None:
                memory.gather = False  # it is given the rows of all processes
        self.symmetric = symmetric
        self.twin = None
        if momentum is not None:
            self.twin = MomentumTwin(self.online, momentum=momentum, rising=rising)
            self.least_views = 2  # one asks, the twin answers for another
        self.shares: dict[str, list[Callable[[], Tensor]]] = {}
        self.contrasts: list[Callable[[], tuple[Tensor, Tensor]]] = []

    def learn(self, views: list[View], labels: Maybe, ids: Maybe) -> Step:
        """Views of samples ``ids`` against what is remembered."""
        if ids is None:
            raise SettingError(
                "Negatives that outlive the batch need to know which sample they "
                "belong to: pass ids, the samples' numbers in the data set."
            )
        self.shares, self.contrasts = {}, []
        if self.twin is None:
            return self._ask_bank(views, ids)
        return self._ask_twin(self.twin, views, ids)

    def _ask_bank(self, views: list[View], ids: Tensor) -> Step:
        rows = self.encode(self.online, views)
        whole, _ = split_views(rows, views)
        bank: Any = self.negatives.bank or self.negatives
        bank.check(rows[0], ids)
        positives = bank.z[ids].clone()
        terms = [self._terms(u, None, ids, self.negatives) for u in rows]
        self._keep(self.gather(whole[-1]), self.gather(ids))
        readings = self.negatives.readings()
        how = readings, self.shares, self.contrasts
        return make_step(terms, whole[0], positives, *how)

    def _ask_twin(self, twin: MomentumTwin, views: list[View], ids: Tensor) -> Step:
        whole, parts = split_views(range(len(views)), views)
        answering = whole if self.symmetric or len(whole) == 1 else whole[1:]
        asking = [*whole, *parts] if self.symmetric else [*whole[:1], *parts]
        rows = self.encode(self.online, [views[a] for a in asking])
        shuffled = shuffle_batches(twin, gather_rows)
        keys = self.encode(shuffled, [views[b] for b in answering])
        kept = [self.gather(key) for key in (keys if self.symmetric else keys[-1:])]
        everyone = self.gather(ids)
        source = self._source(torch.cat(kept), everyone.repeat(len(kept)))
        terms = [
            self._terms(u, key, ids, source)
            for a, u in zip(asking, rows, strict=True)
            for b, key in zip(answering, keys, strict=True)
            if a != b
        ]
        for key in kept:
            self._keep(key, everyone)
        readings = self.negatives.readings()
        how = readings, self.shares, self.contrasts
        other = keys[answering.index(whole[1])] if len(whole) > 1 else keys[0]
        return make_step(terms, rows[0], other, *how)

    def _source(self, keys: Tensor, ids: Tensor) -> NegativeSource:
        """The queue; for the very first batch the other samples' keys."""
        if not isinstance(self.negatives, Queue) or len(self.negatives):
            return self.negatives
        first = Queue(len(keys), keys.shape[1]).to(keys.device)
        first.gather = False
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
        source.shares = source.contrast = None
        loss = self.objective.against(u, v, source, ids)
        # a source that is asked about own anchors speaks of those
        share = self.share if source.row_by_row else None
        if source.shares is not None:  # there is a softmax
            read = partial(read_all, source.shares, share)
            self.shares.setdefault(ess, []).append(read)
        if source.contrast is not None:
            self.contrasts.append(partial(read_all, source.contrast, share))
        return loss

    def _keep(self, z: Tensor, ids: Tensor) -> None:
        if self.training:
            self.used.append((z, ids))

    @property
    def host_state(self) -> tuple[Any, ...]:
        """How full a queue is, and whether there are clusters."""
        return tuple(s.host_state for s in (self.negatives, *self.prototypes))

    @property
    def why_not_captured(self) -> str:
        """Why its source of negatives cannot be captured, where it cannot."""
        return str(self.negatives.why_not_captured)

    @property
    def left_behind(self) -> str:
        """The twin, where there is one, and the memory."""
        twin = "" if self.twin is None else "the momentum twin stands still and "
        memory = "queue" if isinstance(self.negatives, Queue) else "memory bank"
        return f"{twin}the {memory} has taken in nothing"

    def after_step(self, progress: float | Tensor = 0.0) -> None:
        """The twin follows, the memory takes in what was used."""
        super().after_step(progress)
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


def read_all(read: Callable[[], Any], share: Share | None) -> Any:
    """What a reading of own anchors, one number each or several, says of all."""
    answer = read()
    if isinstance(answer, tuple):
        return tuple(gather_last(x, share) for x in answer)
    return gather_last(answer, share)


def make_prototypes(
    bank: Bank,
    *,
    n_clusters: int | None = None,
    n_clusterings: int = 1,
    warmup: float | int = 0.1,
) -> list[Prototypes]:
    """Clusterings of one bank.

    Settings:
        n_clusters (2 or more): Of each clustering; none: one for every 100 rows.
        n_clusterings (1 or more): Clusterings, over whose losses the mean is taken.
        warmup (0 to 1): Share of training before the first clustering.
    """
    if n_clusterings < 1:
        raise SettingError(f"n_clusterings is 1 or more: got {n_clusterings}.")
    return [
        Prototypes(bank, n_clusters=n_clusters, warmup=warmup)
        for _ in range(n_clusterings)
    ]
