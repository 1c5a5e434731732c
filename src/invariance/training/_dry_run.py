"""Say what would happen, try one batch, write nothing."""

import math
import time
from typing import Any

import torch

from ..errors import TrainingError
from ._config import differences
from ._fabric import make_fabric, memory, prepare
from ._out_of_memory import explained, fitting
from ._plan import Plan, make_plan
from ._settings import Train
from ._watch import Watch


def dry_run(settings: Train, watch: Watch, **objects: Any) -> None:
    """Print settings, shapes, memory and time; raise if the run could not work."""
    fabric = make_fabric(settings.machine)
    fabric.launch()
    watch.silent = not fabric.is_global_zero
    changed = differences(settings, Train())
    changed.pop("dry_run", None)
    watch.say("settings that differ from the defaults:" if changed else "all defaults")
    for name, (value, default) in changed.items():
        watch.say(f"  {name} = {value!r}  (default {default!r})")
    with fitting():
        plan = make_plan(
            settings, processes=fabric.world_size, device=fabric.device, **objects
        )
    for fact in plan.facts():
        watch.say(fact)
    module, _ = prepare(fabric, plan)
    with explained(fabric, plan, module.wrapped):
        seconds, loss = one_batch(fabric, plan, module.wrapped, watch)
    chance = plan.learner.chance(settings.batch_size, len(plan.views))
    if chance is not None:
        watch.say(f"loss of one batch: {loss:.3f}; chance is {chance:.3f}")
    else:
        watch.say(f"loss of one batch: {loss:.3f}")
    if not math.isfinite(loss):
        raise TrainingError("The loss of the first batch is not finite.")
    parameters = sum(p.numel() * p.element_size() for p in plan.learner.parameters())
    watch.say(
        f"memory: {4 * parameters / 2**20:.0f} MB of weights, gradients, optimiser"
    )
    kept = sum(b.numel() * b.element_size() for b in memory(plan.learner))
    if kept:
        watch.say(f"memory: {kept / 2**20:.0f} MB of rows that are remembered")
    if torch.cuda.is_available() and fabric.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**20
        watch.say(f"memory: {peak:.0f} MB of the GPU at the peak of a step")
    total = seconds * plan.n_steps * settings.optim.accumulate
    watch.say(f"time: about {duration(total)} ({1000 * seconds:.0f} ms a batch)")
    watch.say("Nothing was written. Drop --dry-run to start.")


def one_batch(
    fabric: Any, plan: Plan, module: Any, watch: Watch
) -> tuple[float, float]:
    """Forward and backward twice; the second time is what a step takes."""
    samples = plan.steps(0, fabric.global_rank)[0, 0]
    seconds, loss = 0.0, math.nan
    for attempt in range(2):
        start = time.perf_counter()
        (images,) = plan.source.batches([samples], device=fabric.device)
        views = plan.views(images, samples=samples, seed=0, epoch=0)
        ids = samples.to(fabric.device)
        step = module(views, plan.labels(samples, fabric.device), ids)
        fabric.backward(step.loss)
        module.zero_grad(set_to_none=True)
        loss = float(step.loss.detach())
        seconds = time.perf_counter() - start
        if attempt == 0:
            sizes = [tuple(view.shape) for view in views]
            width = plan.learner.encoder.width
            watch.say(f"images {tuple(images.shape)} uint8 -> views {sizes}")
            watch.say(
                f"-> features ({len(samples)}, {width}) a view -> projections "
                f"{tuple(step.u.shape)}"
            )
    return seconds, loss


def duration(seconds: float) -> str:
    """In the unit a person would use.

    >>> duration(50.0), duration(600.0), duration(9000.0)
    ('50 s', '10 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
