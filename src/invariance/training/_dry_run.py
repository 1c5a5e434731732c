"""Say what would happen, try one batch, write nothing."""

import dataclasses
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import TrainingError
from ..folder import differing_settings
from ..words import show_duration
from ._checkpoint import find_state
from ._fabric import make_fabric, memory, prepare
from ._out_of_memory import explain_overflow, refuse_overflow
from ._readings import Health
from ._run_plan import Plan, make_plan
from ._settings import BATCH, Train
from ._watch import Watch

MB = 2**20


@dataclass(frozen=True)
class DryRun:
    """What a run would be, as far as one batch can tell."""

    changed: dict[str, tuple[Any, Any]]
    """Settings that differ from their defaults: (value, default) by dotted name."""
    facts: tuple[str, ...]
    """What was decided about data, encoder, method and steps, in sentences."""
    image_shape: tuple[int, ...]
    """Of a batch of images."""
    view_shapes: tuple[tuple[int, ...], ...]
    feature_width: int
    projection_shape: tuple[int, ...]
    loss: float
    """Of one batch."""
    chance: float | None
    """The loss of a learner that cannot tell samples apart, where that is known."""
    weight_bytes: int
    """Of weights, gradients and the optimizer's state."""
    memory_bytes: int
    """Of rows that a queue or bank remembers."""
    peak_bytes: int | None
    """Of the GPU at the peak of a step; None on a CPU."""
    seconds_per_batch: float
    n_batches: int
    """That are left."""
    n_steps: int
    """Of the optimizer, in all."""
    resumes: str | None = None
    """The run that would go on."""
    done: int = 0
    """Steps that it has done."""

    @property
    def seconds(self) -> float:
        """What the training that is left would take."""
        return self.seconds_per_batch * self.n_batches

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
        yield from self.facts
        yield f"images {self.image_shape} uint8 -> views {list(self.view_shapes)}"
        features = (self.image_shape[0], self.feature_width)
        yield f"-> features {features} per view -> projections {self.projection_shape}"
        chance = "" if self.chance is None else f"; chance is {self.chance:.3f}"
        yield f"loss of one batch: {self.loss:.3f}{chance}"
        weights = f"{self.weight_bytes / MB:.0f} MB"
        yield f"memory: {weights} of weights, gradients and optimizer"
        if self.memory_bytes:
            yield f"memory: {self.memory_bytes / MB:.0f} MB of remembered rows"
        if self.peak_bytes is not None:
            yield f"memory: {self.peak_bytes / MB:.0f} MB of the GPU at most in a step"
        each = f"{1000 * self.seconds_per_batch:.0f} ms per batch"
        yield f"time: about {show_duration(self.seconds)} ({each})"
        yield "Nothing was written. Drop --dry-run to start."

    def __str__(self) -> str:
        return "\n".join(self.lines())


def dry_run(
    settings: Train, watch: Watch, folder: Path | None = None, **objects: Any
) -> DryRun:
    """Settings, shapes, memory and time; raises if the run could not work.

    A run folder is one to go on with: then it is about the steps that are left.
    """
    fabric = make_fabric(settings.machine)
    fabric.launch()
    watch.silent = not fabric.is_global_zero
    asked = dataclasses.replace(settings, batch_size=settings.batch_size or BATCH)
    changed = differing_settings(asked, Train(batch_size=BATCH))
    changed.pop("dry_run", None)
    with refuse_overflow():
        plan = make_plan(
            settings, processes=fabric.world_size, device=fabric.device, **objects
        )
    module = prepare(fabric, plan)
    done = 0
    if folder is not None:
        state = find_state(folder, plan.source, watch.say)
        if state is not None:
            done = state["step"]
            module.load(state, plan, Health())
    with explain_overflow(fabric, plan, module.wrapped):
        batch = try_batch(fabric, plan, module.wrapped)
    if not math.isfinite(batch["loss"]):
        raise TrainingError("The loss of the first batch is not finite.")
    parameters = sum(p.numel() * p.element_size() for p in plan.learner.parameters())
    on_gpu = fabric.device.type == "cuda"
    result = DryRun(
        changed=changed,
        facts=(*plan.facts(), *module.facts(), *plan.warnings()),
        feature_width=plan.learner.encoder.width,
        chance=plan.learner.chance(plan.batch_size, len(plan.views)),
        weight_bytes=4 * parameters,  # weights, gradients and two numbers of AdamW
        memory_bytes=sum(b.numel() * b.element_size() for b in memory(plan.learner)),
        peak_bytes=torch.cuda.max_memory_allocated() if on_gpu else None,
        n_batches=(plan.n_steps - done) * settings.optim.accumulate,
        resumes=None if folder is None else str(folder),
        done=done,
        n_steps=plan.n_steps,
        **batch,
    )
    for line in result.lines():
        watch.say(line, important=True)  # the result, which quiet shows too
    return result


def try_batch(fabric: Any, plan: Plan, module: Any) -> dict[str, Any]:
    """Forward and backward twice; the second time is what a step takes."""
    samples = plan.steps(0, fabric.global_rank)[0, 0]
    for _ in range(2):
        start = time.perf_counter()
        (images,) = plan.source.batches([samples], device=fabric.device)
        views = plan.views(images, samples=samples, seed=0, epoch=0)
        ids = samples.to(fabric.device)
        step = module(views, plan.labels(samples, fabric.device), ids)
        fabric.backward(step.loss)
        module.zero_grad(set_to_none=True)
        loss = float(step.loss.detach())
        seconds = time.perf_counter() - start
    return {
        "image_shape": tuple(images.shape),
        "view_shapes": tuple(tuple(view.shape) for view in views),
        "projection_shape": tuple(step.u.shape),
        "loss": loss,
        "seconds_per_batch": seconds,
    }
