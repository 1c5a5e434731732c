"""Say what would happen, try a few steps, write nothing.

The steps are those of the run itself: views, both passes, optimizer, memories, captured
where the run would capture them. With several processes this one plays one of them
(``_rehearsal``). So what a process holds and how long it computes are measured; how
long processes exchange is computed, from the bytes that they would have exchanged.
"""

import contextlib
import copy
import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..data import Resident
from ..devices import peak_bytes, reset_peak, started_outside
from ..errors import SettingError, TrainingError
from ..folder import differing_settings
from ..markup import html_sentences, html_table
from ..methods import is_memory
from ..words import count, show_duration
from ._activations import count_activations
from ._adversary import arrange
from ._bf16_on_cpu import advise_on_bf16
from ._captured import WARM_UP
from ._checkpoint import find_state
from ._due import steps_between_readings
from ._fabric import arithmetic, make_fabric
from ._make_plan import make_plan
from ._out_of_memory import refuse_overflow
from ._prepared import Prepared, prepare
from ._readings import Glimpse
from ._rehearsal import (
    FirstOf,
    Link,
    Traffic,
    choose_link,
    missing_devices,
    rehearse,
    share_cores,
)
from ._settings import BATCH, Train
from ._sharded import local_part
from ._start_processes import settle_machine
from ._watch import Watch

MB = 2**20
BLOCK = 0.25  # seconds that steps are timed together, three times
MOST_STEPS = 20  # in that time
PATIENCE = 1.0  # seconds of a step of which one is enough


@dataclass(frozen=True)
class DryRun:
    """What a run would be, as far as a few steps can tell."""

    changed: dict[str, tuple[Any, Any]]
    """Settings that differ from their defaults: (value, default) by dotted name."""
    facts: tuple[str, ...]
    """What was decided about data, encoder, method and steps, in sentences."""
    processes: int
    batch_size: int
    """Samples in one contrast, over all processes."""
    word: str
    """What a sample is called."""
    sample_shapes: tuple[tuple[int, ...], ...]
    """Of a batch on one process; of both sides where samples are pairs."""
    sample_types: tuple[str, ...]
    """Of their numbers."""
    view_shapes: tuple[tuple[int, ...], ...]
    feature_width: int
    projection_shape: tuple[int, ...]
    loss: float | None
    """Of one batch; None with several processes, where only one's rows are real."""
    chance: float | None
    """The loss of a learner that cannot tell samples apart, where that is known."""
    held: dict[str, int]
    """What a process holds between steps, in bytes by name."""
    activation_bytes: int
    """What a step keeps for its backward pass, at most."""
    peak_bytes: int
    """Of a GPU's memory at most in a step; on a CPU, of the whole process."""
    on_gpu: bool
    computing_seconds: float
    """A process's part of a step, measured here."""
    reading_seconds: float
    """What a step takes longer when it is logged, measured here."""
    epoch_seconds: float
    """What a method does before each epoch, measured here."""
    traffic: Traffic
    """What a process receives in a step."""
    link: Link
    """What processes are taken to be connected by."""
    steps_per_epoch: int
    readings_per_epoch: int
    n_steps: int
    """Of the optimizer, in all."""
    resumes: str | None = None
    """The run that would go on."""
    done: int = 0
    """Steps that it has done."""

    @property
    def local_batch(self) -> int:
        """Samples of one contrast on one process."""
        return self.sample_shapes[0][0]

    @property
    def exchange_seconds(self) -> float:
        """Of a step, computed; the run hides a part of it behind computing."""
        return self.link.seconds(self.traffic)

    @property
    def seconds_per_step(self) -> float:
        """Of a step that is not logged."""
        return self.computing_seconds + self.exchange_seconds

    @property
    def seconds_per_epoch(self) -> float:
        """Its steps, its readings, and what the method does before it."""
        steps = self.steps_per_epoch * self.seconds_per_step
        return (
            self.epoch_seconds + steps + self.readings_per_epoch * self.reading_seconds
        )

    @property
    def seconds(self) -> float:
        """What the training that is left would take."""
        return (
            (self.n_steps - self.done) / self.steps_per_epoch * self.seconds_per_epoch
        )

    def lines(self) -> Iterator[str]:
        """What to print, line by line."""
        if self.resumes is not None:
            yield (
                f"would resume {self.resumes} after step {self.done:,} of "
                f"{self.n_steps:,}: {self.n_steps - self.done:,} are left"
            )
        yield (
            "settings that differ from the defaults:"
            if self.changed
            else "all settings are the defaults"
        )
        for name, (value, default) in self.changed.items():
            yield f"  {name} = {value!r}  (default {default!r})"
        yield from self.finding_lines()
        yield "Nothing was written. Drop --dry-run to start."

    def finding_lines(self) -> Iterator[str]:
        """What was decided, and what the steps tried have shown."""
        yield from self.facts
        if self.processes > 1:
            share = f"{self.local_batch:,} of {self.batch_size:,} samples"
            yield f"a process has {share}; one of the {self.processes} was tried"
        sides = zip(self.sample_shapes, self.sample_types, strict=True)
        shapes = " and ".join(f"{shape} {dtype}" for shape, dtype in sides)
        yield f"{self.word}s {shapes} -> views {list(self.view_shapes)}"
        features = (self.local_batch, self.feature_width)
        yield f"-> features {features} per view -> projections {self.projection_shape}"
        if self.loss is not None:
            chance = "" if self.chance is None else f"; chance is {self.chance:.3f}"
            yield f"loss of one batch: {self.loss:.3f}{chance}"
        yield from self.memory_lines()
        yield from self.time_lines()

    def memory_lines(self) -> Iterator[str]:
        """What a process holds, and what it holds at most."""
        sizes = {**self.held, "activations of a step": self.activation_bytes}
        held = (f"{name} {size / MB:,.0f} MB" for name, size in sizes.items() if size)
        each = " of a process" if self.processes > 1 else ""
        yield f"memory{each}: {', '.join(held)}"
        what = "of the GPU" if self.on_gpu else "with Python and its libraries"
        yield (
            f"memory{each}: {self.peak_bytes / MB:,.0f} MB {what}, the most used in "
            "a step (measured)"
        )

    def time_lines(self) -> Iterator[str]:
        """How long a step, an epoch and the rest of the run take."""
        steps = f"{self.steps_per_epoch:,} steps of {show_short(self.seconds_per_step)}"
        if self.processes > 1:
            sizes = self.traffic.n_bytes.items()
            parts = ", ".join(f"{kind} {size / MB:,.1f} MB" for kind, size in sizes)
            calls = count(sum(self.traffic.n_calls.values()), "call")
            speed = f"{self.link.bytes_per_second / 1e9:,.0f} GB/s"
            each = show_short(self.link.seconds_per_call)
            yield (
                f"time of a step: {show_short(self.computing_seconds)} of computing "
                "(measured: one process's share) + "
                f"{show_short(self.exchange_seconds)} of exchange (computed: a process "
                f"receives {parts} in {calls}, over {self.link.name} with {speed} and "
                f"{each} per call)"
            )
        yield (
            f"time: about {show_short(self.seconds_per_epoch)} per epoch ({steps}), "
            f"{show_short(self.seconds)} in all, plus start and evaluation"
        )

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        rows = [(name, *map(repr, both)) for name, both in self.changed.items()]
        settings = html_table(rows, ("setting", "value", "default")) if rows else ""
        return settings + html_sentences(self.finding_lines())

    def record(self) -> dict[str, Any]:
        """All of it by name, and the times that follow, for a program."""
        times = ("exchange_seconds", "seconds_per_step", "seconds_per_epoch", "seconds")
        about = dataclasses.asdict(self) | {name: getattr(self, name) for name in times}
        return {"dry_run": True, **about}


def show_short(seconds: float) -> str:
    """A time of which the first digits matter, however short it is.

    >>> show_short(0.0023), show_short(0.25), show_short(3.2), show_short(320.0)
    ('2.30 ms', '250 ms', '3.2 s', '5 min 20 s')
    """
    if seconds >= 60:
        return show_duration(seconds)
    if seconds >= 1:
        return f"{seconds:.1f} s"
    digits = 0 if seconds >= 0.1 else 1 if seconds >= 0.01 else 2
    return f"{1000 * seconds:.{digits}f} ms"


def dry_run(
    settings: Train, watch: Watch, folder: Path | None = None, **objects: Any
) -> DryRun:
    """Settings, shapes, memory and time; raises if the run could not work.

    A run folder is one to go on with: then it is about the steps that are left.
    """
    if (outside := started_outside()) is not None:
        who, devices, nodes = outside
        raise SettingError(
            f"A dry run plays one of the processes by itself: start it without {who}, "
            f"with --machine.devices {devices} --machine.nodes {nodes}."
        )
    machine, say = settle_machine(settings.machine), watch.say
    processes = machine.n_processes
    asked = dataclasses.replace(settings, batch_size=settings.batch_size or BATCH)
    changed = differing_settings(asked, Train(batch_size=BATCH))
    changed.pop("dry_run", None)
    # its weights move when steps are tried
    for name in ("encoder", "other_encoder"):
        objects[name] = copy.deepcopy(objects.get(name))
    with (
        arithmetic(machine, say),
        share_cores(machine.devices or 1),
        rehearse(processes) as traffic,
    ):
        played = dataclasses.replace(machine, devices=1, nodes=processes)
        fabric = make_fabric(played, FirstOf(processes) if processes > 1 else None)
        fabric.launch()
        with refuse_overflow():
            plan = make_plan(
                settings, processes=processes, device=fabric.device, **objects
            )
        prepared = prepare(fabric, plan)
        done = 0
        if folder is not None:
            state = find_state(folder, plan.source, say)
            if state is not None:
                done = state["step"]
                prepared.load(state)
        facts = [*plan.facts(), *prepared.facts()]  # before memories fill up
        facts += () if folder else advise_on_bf16(fabric, plan)
        with prepared.stepping():
            trial = try_steps(prepared, say, traffic)
        if not math.isfinite(trial["loss"]) and processes == 1:
            raise TrainingError("The loss of the first batch is not finite.")
        trial["loss"] = trial["loss"] if processes == 1 else None
        n_tried = trial["sample_shapes"][0][0]  # a client may have fewer than a batch
        held = weigh(prepared)
        if fabric.device.type == "cuda":
            rest = trial["peak_bytes"] - sum(held.values())
            trial["activation_bytes"] = max(rest, 0)
    lacking = missing_devices(machine, fabric.device)
    every = steps_between_readings(plan)
    result = DryRun(
        changed=changed,
        facts=(
            *facts,
            *plan.warnings(),
            *([lacking] if lacking else []),
        ),
        processes=processes,
        batch_size=plan.batch_size,
        word=plan.source.kind.word,
        feature_width=plan.learner.encoder.width,
        chance=plan.learner.chance(n_tried * processes, plan.n_views),
        held=held,
        on_gpu=fabric.device.type == "cuda",
        link=choose_link(machine, fabric.device),
        steps_per_epoch=plan.steps_per_epoch,
        readings_per_epoch=math.ceil(plan.steps_per_epoch / every),
        resumes=None if folder is None else str(folder),
        done=done,
        n_steps=plan.n_steps,
        **trial,
    )
    if settings.json:
        print(json.dumps(result.record(), default=str), flush=True)
        return result
    for line in result.lines():
        watch.say(line, important=True)  # the result, which quiet shows too
    return result


def try_steps(
    prepared: Prepared, say: Callable[[str], None], traffic: Traffic
) -> dict[str, Any]:
    """Take steps as the run would, first to warm up and then by the clock."""
    plan, device, feed = prepared.plan, prepared.fabric.device, prepared.feed
    feed.begin(0, 0)
    feed.advance(prepared.optimizer)
    batch = next(iter(feed.batches()))
    views = [tuple(view.shape) for view in arrange(plan, batch.views)]
    take_step, n_taken = prepared.make_step(say), 0

    def go(logs: bool = False) -> Any:
        nonlocal n_taken
        if n_taken % plan.order.first_step(1) == 0:
            feed.begin(0, 0)
        n_taken += 1
        return take_step(logs)

    def measure(act: Callable[[], Any]) -> float:
        start = time.perf_counter()
        act()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start

    def log() -> Any:
        step = go(logs=True)
        if not reads_beside:
            Glimpse(step, plan.learner.objective).read()
        return step

    # there the loop reads a step while the next ones run
    reads_beside = device.type == "cuda" and plan.processes == 1
    reset_peak(device)
    epoch = measure(lambda: plan.learner.before_epoch(0.0))
    # elsewhere the peak tells, and steps are compiled or captured undisturbed
    counts = device.type == "cpu" and not prepared.pace.compiles
    with contextlib.ExitStack() as counted:
        weights = prepared.wrapped.parameters()
        kept = counted.enter_context(count_activations(weights)) if counts else None
        step = log()
    loss, projections = float(step.loss.detach()), tuple(step.u.shape)
    del step  # it holds memory that steps to come can use
    for _ in range(WARM_UP if prepared.pace.captures else 0):
        go(logs=True)
    traffic.clear()
    before = n_taken
    seconds = measure(go)
    if seconds < PATIENCE:
        n = min(max(int(BLOCK / seconds), 1), MOST_STEPS)
        blocks = [measure(lambda: [go() for _ in range(n)]) / n for _ in range(3)]
        seconds = sorted(blocks)[1]
    received = traffic.per(n_taken - before)
    logged = measure(log)
    return {
        "sample_types": tuple(str(s.kind.dtype)[6:] for s in plan.sides),
        "sample_shapes": tuple((views[0][0], *s.shape) for s in plan.sides),
        "view_shapes": tuple(views),
        "projection_shape": projections,
        "loss": loss,
        "computing_seconds": seconds,
        "reading_seconds": max(logged - seconds, 0.0),
        "epoch_seconds": epoch,
        "traffic": received,
        "activation_bytes": 0 if kept is None else kept.most,
        "peak_bytes": peak_bytes(device),
    }


def weigh(prepared: Prepared) -> dict[str, int]:
    """What a process holds between steps, in bytes by name.

    With fsdp its weights, gradients and optimizer are a share of the whole.
    """
    plan, parameters = prepared.plan, [*prepared.wrapped.parameters()]
    states = prepared.optimizer.optimizer.state.values()
    kept = [x for state in states for x in state.values() if torch.is_tensor(x)]
    buffers = plan.learner.named_buffers()
    samples = [side.samples for side in plan.sides if isinstance(side, Resident)]
    parts = {
        "weights": parameters,
        "gradients": [p for p in parameters if p.requires_grad],
        "optimizer": kept,
        "remembered rows": [x for k, x in buffers if is_memory(k)],
        f"{plan.source.kind.word}s": samples,
    }
    if prepared.federation is not None:
        parts["server and what clients keep"] = prepared.federation.weigh()
    sizes = {name: sum(map(size_of, tensors)) for name, tensors in parts.items()}
    return {name: size for name, size in sizes.items() if size}


def size_of(x: Any) -> int:
    """Bytes of a tensor, or of the part of it that is here."""
    x = local_part(x)
    return x.numel() * x.element_size()
