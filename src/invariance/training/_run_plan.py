"""Everything a run needs, resolved: what ``make_plan`` decides and the rest reads."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Image, Source, Text, find_place, load, name_data
from ..encoders import Encoder, Towers
from ..errors import DataError
from ..evaluation import OtherSide, is_scored_without_labels
from ..methods import METHODS, Learner, Method
from ..views import PGD, ViewSet
from ..words import count
from ._clients import Rounds
from ._ess_controller import EssController
from ._exchange import describe_federation
from ._order import Epochs
from ._run_data import (
    choose_loading,
    count_classes,
    describe_few_steps,
    describe_parts,
    describe_simplex,
    note_unused_captions,
)
from ._run_views import describe_views
from ._settings import PEAKS, Train, resolve_decay


@dataclass(frozen=True)
class Plan:
    """One run, resolved: data, views, learner, and how many steps of what."""

    settings: Train
    """As asked for; what they leave open is decided here."""
    data: Any
    method: Method
    batch_size: int
    """Samples in one contrast, over all processes."""
    source: Source
    views: ViewSet
    recipe: str | None
    """What the views are called; None for a view set of your own."""
    learner: Learner
    untrained: Encoder
    controller: EssController | None
    processes: int
    order: Epochs | Rounds
    """Which samples each step takes."""
    peak: float
    why_batch: str = ""
    """Why the batch has its size, in brackets, where nobody asked for it."""
    own_encoder: bool = False
    """Whether the encoder was given as an object."""
    other_views: ViewSet | None = None
    """Of a pair's second side; None where only the first is learned from."""
    untrained_towers: Towers | None = None
    """Both encoders and their heads before training, where there are two."""
    attack: PGD | None = None
    """How views are attacked before a step; None where they are not."""

    @property
    def data_name(self) -> str:
        """What the data are called in the name of a run."""
        return name_data(self.data)

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.settings.name or f"{self.data_name}-{self.method_name}"

    @property
    def sides(self) -> list[Source]:
        """What is learned from: the samples, or both sides where they are pairs."""
        other = None if self.other_views is None else self.source.other
        return [self.source, *([] if other is None else [other])]

    @property
    def view_sets(self) -> list[ViewSet]:
        """The views of each side."""
        return [self.views, *([] if self.other_views is None else [self.other_views])]

    @property
    def seeds(self) -> tuple[int, int]:
        """The seeds of each side's views, so far apart that they share no draws."""
        return self.settings.seed, self.settings.seed + 1_000_003

    @property
    def n_views(self) -> int:
        """Views of a sample, or of both sides of a pair; an added one counts."""
        added = self.settings.views_adversarial == "added"
        return sum(map(len, self.view_sets)) + added

    @property
    def alone(self) -> bool:
        """Whether a view shows its sample alone, whatever batch it is made in."""
        return all(views.is_built_in for views in self.view_sets)

    def batches(
        self, index_batches: Iterable[Tensor], device: torch.device | str
    ) -> Iterator[list[Tensor]]:
        """The samples of each side that is learned from."""
        if self.other_views is None:
            return ([b] for b in self.source.batches(index_batches, device=device))
        return ([*pair] for pair in self.source.pairs(index_batches, device=device))

    def see(self, sides: Sequence[Tensor], samples: Tensor, epoch: int) -> list[Tensor]:
        """The views of a batch: those of the first side, then those of the other."""
        parts = zip(self.view_sets, sides, self.seeds, strict=False)
        return [
            view
            for views, batch, seed in parts
            for view in views(batch, samples=samples, seed=seed, epoch=epoch)
        ]

    def other_side(
        self, encoder: Encoder, head: nn.Module | None, towers: Towers | None
    ) -> OtherSide | None:
        """How a pair's second side is seen: by the same networks, or by its own.

        Args:
            encoder: The trained one.
            head: The trained one; None where rows of heads are not asked for.
            towers: Both sides' networks, where each has its own.
        """
        if self.other_views is None:
            return None
        if towers is not None:
            encoder, head = towers.other, None if head is None else towers.other_head
        return OtherSide(encoder, head, self.other_views, self.seeds[1])

    def about_images(self) -> dict[str, Any]:
        """What a run folder keeps about the samples, to know them again."""
        kind = self.source.kind
        return {
            "name": self.source.name,
            "kind": kind.name,
            "word": kind.word,
            "baseline": kind.baseline,
            "path": find_place(self.data),
            "n_train": len(self.source),
            "n_classes": count_classes(self.source),
            **dataclasses.asdict(self.source.origin),
        }

    @property
    def method_name(self) -> str:
        """What the method is called; one of your own goes by its objective."""
        asked, known = self.settings.method, METHODS.get(self.settings.method)
        mine = known is None or known.objective != self.method.objective
        return self.method.objective if mine else asked

    @property
    def local_batch(self) -> int:
        """Samples of one contrast on one process."""
        return self.batch_size // self.processes

    @property
    def held_out(self) -> Source | None:
        """Samples that are never trained on, or None if there are none."""
        return self._test_part[0]

    @property
    def test_problem(self) -> str:
        """Why they could not be read, in words; empty if all is well."""
        return self._test_part[1]

    @cached_property
    def _test_part(self) -> tuple[Source | None, str]:
        if self.source.origin.n_held_out == 0:
            return None, ""
        kind, other = self.source.kind, self.source.other
        how = choose_loading(self.settings, self.method)
        how |= {"other_kind": None if other is None else other.kind}
        try:
            held_out = load(self.data, split="test", kind=kind, **how)
        except DataError as cause:
            return None, str(cause)
        return held_out, ""

    @property
    def test(self) -> Source | None:
        """The held-out samples, if they and the others have labels or need none."""
        held_out = self.held_out
        if held_out is None or is_scored_without_labels(held_out):
            return held_out
        labeled = self.source.targets is not None and held_out.targets is not None
        return held_out if labeled else None

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch; of a federated run, of a round on average."""
        return self.order.steps_per_epoch

    @property
    def n_steps(self) -> int:
        """Steps of the whole run."""
        return self.order.n_steps

    @cached_property
    def federation(self) -> dict[str, Any]:
        """Clients, rounds and what is exchanged; nothing where there are none."""
        if not isinstance(self.order, Rounds):
            return {}
        about = describe_federation(self.order, self.learner, self.source)
        return {"federated": about}

    def labels(self, samples: Tensor, device: torch.device) -> Tensor | None:
        """Labels for a method that learns from them; None for all others."""
        if not self.method.labeled or self.source.labels is None:
            return None
        return self.source.labels[samples.to(self.source.labels.device)].to(device)

    @property
    def n_parameters(self) -> int:
        """How many numbers are trained, those of the head among them."""
        return sum(p.numel() for p in self.learner.parameters() if p.requires_grad)

    def outcome(self) -> dict[str, Any]:
        """What the settings came to, for env.json; "used" has them by dotted names."""
        used = {
            "encoder": self.learner.encoder.name,
            "batch_size": self.batch_size,
            "views": self.recipe or "your own",
            "n_views": self.n_views,
            "critic": self.method.critic,
            "head": self.method.head,
            "hidden": self.method.hidden,
            "width": self.method.width,
            "optim.lr": self.settings.optim.lr or PEAKS[self.settings.optim.name],
            "optim.decay": resolve_decay(self.settings.optim),
        }
        if isinstance(self.source.kind, Image):
            used["image_size"] = self.source.shape[1]
        if self.untrained_towers is not None:
            used["other_encoder"] = self.untrained_towers.other.name
        if self.attack is not None:
            used["attack.epsilon"] = self.attack.radius
            used["attack.step_size"] = self.attack.length
        temperature = getattr(self.learner.objective, "temperature", None)
        if temperature is not None:
            used["temperature"] = round(float(temperature), 6)
        paired = self.other_views is not None and self.method.positives == "views"
        positives = "pairs" if paired else self.method.positives
        about: dict[str, Any] = {"peak_rate": self.peak, "n_steps": self.n_steps}
        about |= {"parameters": self.n_parameters, "method": self.method_name}
        about |= {"labeled": self.method.labeled}
        return {"used": used, "positives": positives, **about, **self.federation}

    def facts(self) -> Iterator[str]:
        """What was decided, in sentences."""
        kinds = [f"{s.kind.word}s of {s.kind.shape_words}" for s in self.sides]
        yield (
            f"data: {self.source.name}, {' with '.join(kinds)}: "
            f"{describe_parts(self.source, labels=self.settings.labels)}"
        )
        yield from (str(n) for n in self.source.notes if n.kind != "unreadable")
        yield from note_unused_captions(self.settings, self.source)
        towers = self.untrained_towers
        encoders = [self.untrained, *([] if towers is None else [towers.other])]
        networks = [f"{e.name}, {e.width} features" for e in encoders]
        yield (
            f"encoder: {' and '.join(networks)}; {self.n_parameters:,} parameters with "
            f"the {'heads' if len(networks) > 1 else 'head'}"
        )
        negatives: Any = getattr(self.learner, "negatives", None)
        rows = "" if negatives is None else negatives.extra_repr()
        parts = [count(self.n_views, "view")]
        if (twin := getattr(self.learner, "twin", None)) is not None:
            parts.append(twin.describe())
        if getattr(self.learner, "symmetric", False):
            parts.append("symmetric")
        future = self.method.positives == "future"
        parts += self.learner.facts
        if negatives is not None or future:
            rows = f" ({rows})" if rows else ""
            parts.append(f"negatives: {self.method.negatives}{rows}")
        if self.method.critic != "dot":
            parts.append(f"{self.method.critic} critic")
        objective = self.learner.objective
        within = self.method.within_views
        outside = () if negatives is None and not within else objective.batch_only
        idle = (*objective.idle, *outside)
        parts.append(objective.describe(without=idle))
        yield (
            f"method: {self.method_name} ({', '.join(parts)}); defaults: "
            f"{self.method.source or 'your own'}"
        )
        if isinstance(self.source.kind, Text) and self.method_name == Train.method:
            yield f"{self.method_name} is for any samples, simcse for sentences."
        if text := describe_views(self.settings, self.attack):
            yield f"views: {text}"
        if self.method.negatives == "batch" and objective.negatives is not None:
            yield from describe_simplex(self.batch_size, self.method.width)
        micro = self.settings.micro_batch
        pieces = "" if micro is None else f" encoded {micro} at a time,"
        yield (
            f"steps: {self.n_steps:,} of {self.batch_size} samples{self.why_batch},"
            f"{pieces} "
            f"{self.steps_per_epoch} per epoch, learning rate up to {self.peak:.2g}"
        )
        if not self.federation:
            yield from describe_few_steps(self.n_steps, self.steps_per_epoch)
        if (stop := self.settings.stop).patience is not None:
            gain = f"{stop.reading} has gained nothing for {stop.patience} epochs"
            yield f"ends early when {gain}"
        if about := self.federation:
            yield from about["federated"]["sentences"]

    def warnings(self) -> Iterator[str]:
        """What went wrong with the samples, in sentences."""
        yield from (str(n) for n in self.source.notes if n.kind == "unreadable")
        if isinstance(self.order, Rounds):
            yield from self.order.describe_left_out(self.source.kind.word)
