"""From settings to everything a run needs, decided before anything is written."""

import copy
import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Image, Source, Text, find_place, load, name_data
from ..devices import require_memory
from ..encoders import Encoder, Head
from ..errors import DataError, SettingError, choose
from ..evaluation import is_scored_without_labels
from ..methods import METHODS, Learner, Method, build, customize
from ..negatives import NEGATIVES
from ..randomness import seed_all
from ..views import PGD, ViewSet
from ..words import count
from ._clients import Rounds, check_federated, share_samples
from ._effects import refuse_idle_settings
from ._ess_controller import EssController
from ._exchange import describe_federation
from ._order import Epochs
from ._run_data import (
    check_kind,
    check_memories,
    choose_batch,
    count_classes,
    describe_captions,
    describe_few_steps,
    describe_parts,
    describe_simplex,
    find_tokenizer,
    make_order,
    uses_pairs,
)
from ._run_encoder import make_encoder, refuse_single_samples, start_weights_from
from ._run_views import (
    apply_recipe,
    choose_options,
    choose_recipe,
    describe_views,
    make_attack,
    make_views,
)
from ._schedule import peak_rate
from ._settings import PEAKS, Train, resolve_decay
from ._stopping import settle_stopping


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
    other_untrained: Encoder | None = None
    """The second side's encoder, where there are two."""
    untrained_heads: tuple[Head, Head] | None = None
    """Both heads before training, where there are two encoders."""
    attack: PGD | None = None
    """How views are attacked before a step; None where they are not."""

    @property
    def data_name(self) -> str:
        """What the data are called in the name of a run."""
        return name_data(self.data)

    @property
    def name(self) -> str:
        """Of the run."""
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
        """Of each side's views, which have nothing to do with each other."""
        return self.settings.seed, self.settings.seed + 1_000_003

    @property
    def n_views(self) -> int:
        """Of a sample, or of both sides of a pair, an added one among them."""
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
        try:
            held_out = load(
                self.data,
                split="test",
                kind=self.source.kind,
                data_root=self.settings.data_root,
                labels=self.settings.labels,
                hold_out=self.settings.hold_out,
                target=self.settings.target,
                other_kind=None
                if self.source.other is None
                else self.source.other.kind,
                **describe_captions(self.settings, self.method),
            )
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
        """Of a federated run: in a round, on average."""
        return self.order.steps_per_epoch

    @property
    def n_steps(self) -> int:
        """In all."""
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
        if self.other_untrained is not None:
            used["other_encoder"] = self.other_untrained.name
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
        encoders = [self.untrained, self.other_untrained]
        networks = [f"{e.name}, {e.width} features" for e in encoders if e is not None]
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
        within = self.method.positives in ("future", "places")
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
            gain = f"{stop.reading} gains nothing for {stop.patience} epochs"
            yield f"ends early when {gain}"
        if about := self.federation:
            yield from about["federated"]["sentences"]

    def warnings(self) -> Iterator[str]:
        """What went wrong with the samples, in sentences."""
        yield from (str(n) for n in self.source.notes if n.kind == "unreadable")
        if isinstance(self.order, Rounds):
            yield from self.order.describe_left_out(self.source.kind.word)


def make_plan(
    settings: Train,
    *,
    data: Any = None,
    encoder: nn.Module | None = None,
    method: Method | None = None,
    views: ViewSet | None = None,
    other_encoder: nn.Module | None = None,
    other_views: ViewSet | None = None,
    processes: int = 1,
    device: torch.device | str = "cpu",
    started: bool = False,
) -> Plan:
    """Resolve settings; objects given stand in for what settings can only name.

    A run that was ``started`` before may have settings without effect: it goes on.
    """
    four = method or choose(METHODS, settings.method, "method")
    four = customize(
        four,
        n_views=settings.n_views,
        critic=settings.critic,
        head=settings.head,
        hidden=settings.hidden,
        width=settings.width,
    )
    if not started:
        given = {"data": data, "encoder": encoder, "views": views}
        refuse_idle_settings(settings, four, processes=processes, **given)
    data = settings.data if data is None else data
    source = load(
        data,
        kind=four.samples if four.samples not in ("any", "pair") else None,
        image_size=settings.image_size,
        window=settings.window,
        stride=settings.stride,
        time_column=settings.time_column,
        target=settings.target,
        columns=settings.columns,
        n=settings.limit,
        storage=settings.storage,
        workers=settings.workers,
        data_root=settings.data_root,
        device=device,
        labels=settings.labels,
        hold_out=settings.hold_out,
        tokenizer=find_tokenizer(settings),
        **describe_captions(settings, four),
    )
    check_kind(settings, four, source, started)
    pairs = uses_pairs(four, source)
    if pairs and four.encoder != "two":  # both sides are views, as crops are
        four = customize(four, n_views=settings.n_views or 1)
    recipe = None
    if views is None:
        recipe = choose_recipe(settings, four, data, source.kind)
    options = choose_options(settings, four, recipe)
    if settings.hold_out != "auto" and source.origin.own_test and not started:
        raise SettingError(
            "hold_out is for data without a test part of their own, and "
            f"{source.name} has one: leave it out."
        )
    clients = None
    if settings.federated.asked:
        check_federated(settings, four, processes)
        clients = share_samples(settings.federated, source, settings.seed)
    n_places = 1 if clients is None else len(clients.names)
    batch_size, why_batch = choose_batch(settings, source, processes, n_places)
    stop = settle_stopping(settings, labeled=source.labels is not None)
    settings = dataclasses.replace(settings, stop=stop)
    per_step = batch_size * settings.optim.accumulate
    order = make_order(settings, source, batch_size, clients, processes)
    if four.labeled and source.labels is None:
        raise DataError(
            f"{settings.method} learns from labels and {source.name} has none: use "
            "class folders, or a method that needs no labels, such as simclr."
        )
    if four.labeled and source.labels is not None and len(source.labels.unique()) < 2:
        raise DataError(
            f"{settings.method} tells classes apart and {source.name} has only one: "
            "use a method that needs no labels, such as simclr."
        )
    chosen = views or make_views(settings, four, data, source)
    if chosen.prepare is None and not isinstance(source.kind, Image):
        chosen = dataclasses.replace(chosen, prepare=source.kind.prepare)
    if pairs and source.other is not None and other_views is None:
        side = source.other
        other_views = apply_recipe(side.kind.views, side, len(chosen))
    if settings.n_views not in (None, len(chosen)) and not started:
        also = " (its options are n_global and n_local)" * (recipe == "multi_crop")
        raise SettingError(
            f"{recipe or 'The view set'} makes {len(chosen)} views{also}, and n_views "
            f"asks for {settings.n_views}: leave n_views out, or take other views."
        )
    alone = four.negatives in NEGATIVES and four.encoder == "one"
    # parts of the one view itself
    alone = alone or four.positives in ("future", "places")
    n_views = len(chosen) + (len(other_views) if other_views is not None else 0)
    if n_views < 2 and not alone:  # a memory bank is the other view
        raise SettingError("Contrast needs two views or more: the view set has one.")
    attack = make_attack(settings, chosen, source.kind, n_views)
    added = settings.views_adversarial == "added"
    local, kind = batch_size // processes, source.kind
    if settings.micro_batch is not None and chosen.is_built_in:
        local = min(local, settings.micro_batch)
    require_memory(
        f"A batch of {n_views} views of {local} {kind.word}s of {kind.shape_words}",
        4 * local * n_views * math.prod(source.shape),
        device,
        "use a smaller --image-size, --batch-size or --micro-batch",
    )
    check_memories(four, options, len(source), device)
    seed_all(settings.seed)
    start = settings.start_from
    network = make_encoder(
        settings.encoder,
        source,
        encoder,
        pretrained=settings.pretrained,
        dropout=four.dropout,
    )
    if start:
        network = start_weights_from(start, network, encoder)
    other = None
    if four.encoder == "two" and source.other is not None:
        other = make_encoder(
            settings.other_encoder, source.other, other_encoder, dropout=four.dropout
        )
        if start:
            other = start_weights_from(start, other, other_encoder, side="other")
    seed, n_samples = settings.seed, len(source)
    learner = build(
        four, network, other=other, n_samples=n_samples, seed=seed, **options
    )
    learner.n_first = len(chosen) + added
    learner.equal_shares = True  # see Plan.steps
    learner.micro_batch = settings.micro_batch
    if settings.micro_batch == 1 and not started:
        refuse_single_samples(learner)
    controller = None
    if settings.ess.targets:
        memory: Any = getattr(learner, "negatives", None)  # an empty one will fill up
        most = (memory.n_negatives or None) if memory else None
        controller = EssController(learner.objective, settings.ess, n_negatives=most)
    return Plan(
        settings=settings,
        data=data,
        method=four,
        batch_size=batch_size,
        source=source,
        views=chosen,
        recipe=recipe,
        learner=learner,
        untrained=copy.deepcopy(network),
        controller=controller,
        processes=processes,
        order=order,
        peak=peak_rate(settings.optim, per_step),
        why_batch=why_batch,
        own_encoder=encoder is not None or other_encoder is not None,
        other_views=other_views if pairs else None,
        other_untrained=copy.deepcopy(other),
        untrained_heads=copy.deepcopy(getattr(learner, "heads", None)),
        attack=attack,
    )
