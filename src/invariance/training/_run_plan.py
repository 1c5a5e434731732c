"""From settings to everything a run needs, decided before anything is written."""

import copy
import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from ..data import Source, find_place, load
from ..devices import require_memory
from ..encoders import Encoder
from ..errors import DataError, SettingError, choose
from ..methods import (
    METHODS,
    Learner,
    Method,
    build,
    customize,
    options_of,
)
from ..negatives import NEGATIVES, check_room
from ..randomness import seed_all
from ..views import ViewSet
from ..words import count
from ._effects import refuse_idle_settings
from ._ess_controller import EssController
from ._run_encoder import make_encoder, start_weights_from
from ._run_views import (
    choose_options,
    choose_recipe,
    describe_strengths,
    make_views,
)
from ._schedule import peak_rate
from ._settings import BATCH, PEAKS, Train, resolve_decay


@dataclass(frozen=True)
class Plan:
    """One run, resolved: data, views, learner, and how many steps of what."""

    settings: Train
    """As asked for, with the batch size that was chosen."""
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
    steps_per_epoch: int
    n_steps: int
    peak: float
    why_batch: str = ""
    """Why the batch has its size, in brackets, where nobody asked for it."""
    own_encoder: bool = False
    """Whether the encoder was given as an object."""

    @property
    def data_name(self) -> str:
        """What the data are called in the name of a run."""
        return Path(self.data).stem if isinstance(self.data, str) else "data"

    @property
    def name(self) -> str:
        """Of the run."""
        return self.settings.name or f"{self.data_name}-{self.method_name}"

    def about_images(self) -> dict[str, Any]:
        """What a run folder keeps about the images, to know them again."""
        return {
            "name": self.source.name,
            "path": find_place(self.data),
            "n_train": len(self.source),
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
        """Images that are never trained on, or None if there are none."""
        return self._test_part[0]

    @property
    def test_problem(self) -> str:
        """Why they could not be read, in words; empty if all is well."""
        return self._test_part[1]

    @cached_property
    def _test_part(self) -> tuple[Source | None, str]:
        if self.source.origin.n_held_out == 0:
            return None, ""
        channels, size, _ = self.source.shape
        try:
            held_out = load(
                self.data,
                split="test",
                image_size=size,
                channels=channels if channels in (1, 3) else None,
                data_root=self.settings.data_root,
                labels=self.settings.labels,
                hold_out=self.settings.hold_out,
            )
        except DataError as cause:
            return None, str(cause)
        return held_out, ""

    @property
    def test(self) -> Source | None:
        """The held-out images, if they and the others have labels."""
        if self.source.targets is None or self.held_out is None:
            return None
        return None if self.held_out.targets is None else self.held_out

    def steps(self, epoch: int, rank: int) -> Int[Tensor, "steps accumulate local"]:
        """Which samples each step of an epoch takes, by seed and epoch alone."""
        size, parts = self.batch_size, self.settings.optim.accumulate
        generator = torch.Generator().manual_seed(self.settings.seed * 100_003 + epoch)
        order = torch.randperm(len(self.source), generator=generator)
        order = order[: self.steps_per_epoch * parts * size]
        order = order.view(
            self.steps_per_epoch, parts, self.processes, self.local_batch
        )
        return order[:, :, rank]

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
            "n_views": len(self.views),
            "critic": self.method.critic,
            "head": self.method.head,
            "hidden": self.method.hidden,
            "width": self.method.width,
            "image_size": self.source.shape[1],
            "optim.lr": self.settings.optim.lr or PEAKS[self.settings.optim.name],
            "optim.decay": resolve_decay(self.settings.optim),
        }
        temperature = getattr(self.learner.objective, "temperature", None)
        if temperature is not None:
            used["temperature"] = round(float(temperature), 6)
        return {"used": used, "peak_rate": self.peak, "parameters": self.n_parameters}

    def facts(self) -> Iterator[str]:
        """What was decided, in sentences."""
        c, h, w = self.source.shape
        yield (
            f"data: {self.source.name}, images of {c}x{h}x{w}: "
            f"{describe_parts(self.source, labels=self.settings.labels)}"
        )
        yield from (str(n) for n in self.source.notes if n.kind != "unreadable")
        yield (
            f"encoder: {self.learner.encoder.name}, {self.learner.encoder.width} "
            f"features; {self.n_parameters:,} parameters with the head"
        )
        remembered = self.method.negatives in NEGATIVES
        rows: Any = self.learner.negatives if remembered else ""
        rows = f" ({text})" if remembered and (text := rows.extra_repr()) else ""
        parts = [count(len(self.views), "view")]
        if (twin := getattr(self.learner, "twin", None)) is not None:
            parts.append(twin.describe())
        if getattr(self.learner, "symmetric", False):
            parts.append("symmetric")
        if remembered:
            parts.append(f"negatives: {self.method.negatives}{rows}")
        if self.method.critic != "dot":
            parts.append(f"{self.method.critic} critic")
        objective = self.learner.objective
        idle = (*objective.idle, *(objective.batch_only if remembered else ()))
        parts.append(objective.describe(without=idle))
        yield (
            f"method: {self.method_name} ({', '.join(parts)}); defaults: "
            f"{self.method.source or 'your own'}"
        )
        if text := describe_strengths(self.settings):
            yield f"views: {text}"
        micro = self.settings.micro_batch
        pieces = "" if micro is None else f" encoded {micro} at a time,"
        yield (
            f"steps: {self.n_steps:,} of {self.batch_size} samples{self.why_batch},"
            f"{pieces} "
            f"{self.steps_per_epoch} per epoch, learning rate up to {self.peak:.2g}"
        )

    def warnings(self) -> Iterator[str]:
        """What went wrong with the images, in sentences."""
        yield from (str(n) for n in self.source.notes if n.kind == "unreadable")


def make_plan(
    settings: Train,
    *,
    data: Any = None,
    encoder: nn.Module | None = None,
    method: Method | None = None,
    views: ViewSet | None = None,
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
    recipe = None if views is not None else choose_recipe(settings, four, data)
    options = choose_options(settings, four, recipe)
    source = load(
        data,
        image_size=settings.image_size,
        n=settings.limit,
        storage=settings.storage,
        workers=settings.workers,
        data_root=settings.data_root,
        device=device,
        labels=settings.labels,
        hold_out=settings.hold_out,
    )
    if settings.hold_out != "auto" and source.origin.own_test and not started:
        raise SettingError(
            "hold_out is for data without a test part of their own, and "
            f"{source.name} has one: leave it out."
        )
    batch_size, why_batch = choose_batch(settings, source, processes)
    settings = dataclasses.replace(settings, batch_size=batch_size)
    per_step = batch_size * settings.optim.accumulate
    steps_per_epoch = len(source) // per_step
    if len(source) < 2 or not steps_per_epoch:
        parts = settings.optim.accumulate
        most = 2 ** int(math.log2(max(len(source) // parts, 1)))
        advice = "contrast needs at least two images"
        if most > 1:
            advice = f"use --batch-size {most} or less, or more images"
        elif parts > 1:
            advice = f"{parts} batches per step (--optim.accumulate) are too many"
        raise DataError(
            f"{source.name} has {count(len(source), 'image')} to train on, fewer than "
            f"one step of {per_step}: {advice}."
        )
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
    chosen = views or make_views(settings, four, data, source.shape)
    if settings.n_views not in (None, len(chosen)) and not started:
        also = " (its options are n_global and n_local)" * (recipe == "multi_crop")
        raise SettingError(
            f"{recipe or 'The view set'} makes {len(chosen)} views{also}, and n_views "
            f"asks for {settings.n_views}: leave n_views out, or take other views."
        )
    alone = four.negatives in NEGATIVES and four.encoder == "one"
    if len(chosen) < 2 and not alone:  # a memory bank is the other view
        raise SettingError("Contrast needs two views or more: the view set has one.")
    local, shape = batch_size // processes, "x".join(map(str, source.shape))
    if settings.micro_batch is not None and chosen.is_built_in:
        local = min(local, settings.micro_batch)
    require_memory(
        f"A batch of {len(chosen)} views of {local} images of {shape}",
        4 * local * len(chosen) * math.prod(source.shape),
        device,
        "use a smaller --image-size, --batch-size or --micro-batch",
    )
    check_memories(four, options, len(source), device)
    seed_all(settings.seed)
    network = make_encoder(settings, source, encoder)
    if settings.start_from:
        network = start_weights_from(settings.start_from, network, encoder)
    learner = build(four, network, n_samples=len(source), seed=settings.seed, **options)
    learner.equal_shares = True  # see Plan.steps
    learner.micro_batch = settings.micro_batch
    if settings.micro_batch == 1 and not started:
        refuse_single_samples(learner)
    controller = None
    if settings.ess.target is not None:
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
        steps_per_epoch=steps_per_epoch,
        n_steps=steps_per_epoch * settings.epochs,
        peak=peak_rate(settings.optim, per_step),
        why_batch=why_batch,
        own_encoder=encoder is not None,
    )


def choose_batch(settings: Train, source: Source, processes: int) -> tuple[int, str]:
    """Samples in one contrast, and why so many where nobody asked for a number.

    Small data get the largest power of two that leaves two steps per epoch: with one,
    most of what is left over would be dropped.
    """
    if settings.batch_size is not None:
        if settings.batch_size % processes:
            raise SettingError(
                f"batch_size {settings.batch_size} is shared by {processes} processes: "
                f"choose a multiple of {processes}, or another number of processes."
            )
        return settings.batch_size, ""
    fits = len(source) // (2 * settings.optim.accumulate)
    usual, batch = (
        max(2 ** int(math.log2(max(n // processes, 1))) * processes, 2)
        for n in (BATCH, min(BATCH, fits))
    )
    few = f" (not the usual {usual}: there are {len(source):,} images)"
    return batch, few if batch < usual else ""


def refuse_single_samples(learner: Learner) -> None:
    """Refuse batch norms over pieces of one sample.

    Two views by themselves come out of a batch norm as each other's negative.
    """
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d)
    if any(isinstance(part, kinds) for part in learner.online.modules()):
        raise SettingError(
            "micro_batch 1 lets batch norms see one sample at a time, whose views they "
            "would turn into opposites: use --micro-batch 32 or so, 2 at least, or an "
            "encoder and a head without batch norm."
        )


def check_memories(
    method: Method,
    options: Mapping[str, Any],
    n_samples: int,
    device: torch.device | str,
) -> None:
    """Refuse a queue or a memory bank for which there is no room on the device."""
    size = options.get("size", method.source_settings.get("size", 0))
    if isinstance(size, int | float):  # else the queue itself says what is wrong
        check_room("queue", size, method.width, device)
    if "bank_momentum" in options_of(method):  # one row per sample
        check_room("memory bank", n_samples, method.width, device)


def describe_parts(source: Source, *, labels: bool = True) -> str:
    """How many images train, how many are held out, how many classes, and why.

    >>> describe_parts(load("shapes", n=100))
    '100 to train on, a test part of their own, 10 classes by label'
    """
    origin = source.origin
    parts = [f"{len(source):,} to train on"]
    if origin.n_held_out is None:
        parts.append("a test part of their own")
    elif origin.own_test:
        parts.append(f"{origin.n_held_out:,} in a test part of their own")
    else:
        n_held_out = f"{origin.n_held_out:,}" if origin.n_held_out else "none"
        parts.append(f"{n_held_out} held out")
    if source.tags is not None:
        parts.append(f"{source.tags.shape[1]:,} classes, several per image")
    elif source.labels is None:
        parts.append("no labels to score by" if labels else "labels left aside")
    else:
        classes = count(len(source.labels.unique()), "class", "classes")
        parts.append(f"{classes} by {'label' if source.paths is None else 'folder'}")
    return ", ".join(parts)
