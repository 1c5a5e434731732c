"""The training loop, on one screen. Everything it needs is decided in the plan."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import torch
from lightning_fabric import Fabric

from ..errors import NotFinite, TrainingError
from ._plan import Plan
from ._readings import Health, read
from ._schedule import rate_at
from ._watch import Watch


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """The run was asked to stop and has saved itself."""


def run_steps(
    fabric: Fabric,
    plan: Plan,
    module: Any,
    optimizer: Any,
    *,
    done: int,
    health: Health,
    watch: Watch,
    record: Callable[[dict[str, Any]], None],
    save: Callable[[int], None],
    knn: Callable[[], float | None],
    stop_asked: Callable[[], bool],
) -> None:
    """Go from step ``done`` to the last; ``save(step)`` keeps the state after a step."""
    settings, optim, device = plan.settings, plan.settings.optim, fabric.device
    log_every = settings.log_every or max(plan.steps_per_epoch // 10, 1)
    labels = None if plan.source.labels is None else plan.source.labels.to(device)
    saved_at, clock, since = time.monotonic(), time.monotonic(), done
    waited = 0.0
    for epoch in range(done // plan.steps_per_epoch, settings.epochs):
        steps = plan.steps(epoch, fabric.global_rank)[done % plan.steps_per_epoch :]
        images = plan.source.batches(steps.flatten(0, 1), device=device)
        for rows in steps:
            lr = rate_at(done, plan.n_steps, plan.peak, optim.warmup)
            for group in optimizer.param_groups:
                group["lr"] = lr
            for part, samples in enumerate(rows, start=1):
                before = time.monotonic()
                batch = next(images)
                waited += time.monotonic() - before
                views = plan.views(
                    batch, samples=samples, seed=settings.seed, epoch=epoch
                )
                own = None if labels is None else labels[samples.to(device)]
                last = part == len(rows)
                quiet = contextlib.nullcontext() if last else no_sync(fabric, module)
                try:
                    with quiet:
                        step = module(views, own)
                        fabric.backward(step.loss / len(rows))
                except NotFinite as cause:
                    raise diverged(done, str(cause)) from None
            if optim.clip_norm is not None:
                fabric.clip_gradients(module, optimizer, max_norm=optim.clip_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            progress = (done + 1) / plan.n_steps
            plan.learner.after_step(progress)
            if plan.controller is not None:
                plan.controller.update(step.u.float(), step.v.float(), progress)
            done += 1
            ends_epoch = done % plan.steps_per_epoch == 0
            logs = done % log_every == 0 or ends_epoch
            stop = stop_asked()
            late = time.monotonic() - saved_at >= settings.checkpoint_seconds
            saves = stop or late or done == plan.n_steps
            # asking a GPU for a number makes it wait, so it is asked when one is needed
            if device.type == "cpu" or logs or saves:
                check_finite(step.loss, done)
            if logs:
                seconds = time.monotonic() - clock
                reading = {
                    "step": done,
                    "epoch": done / plan.steps_per_epoch,
                    **read(step, plan.learner.objective),
                    "lr": lr,
                }
                if ends_epoch and due(epoch, settings.knn_every, settings.epochs):
                    accuracy = knn()
                    reading |= {} if accuracy is None else {"knn": accuracy}
                count = (done - since) * settings.batch_size * optim.accumulate
                reading["time/images_per_second"] = count / max(seconds, 1e-9)
                reading["time/data_wait"] = waited / max(seconds, 1e-9)
                record(reading)
                if fabric.is_global_zero:
                    watch.reading(reading, done)
                    for remark in health.remarks(reading, first=epoch == 0):
                        watch.say(remark, important=True)
                    if ends_epoch:
                        watch.epoch(
                            reading | {"epoch": f"{epoch + 1}/{settings.epochs}"}
                        )
                clock, since, waited = time.monotonic(), done, 0.0
            if saves:
                save(done)
                saved_at = time.monotonic()
            if stop and done < plan.n_steps:
                raise Stopped


def due(epoch: int, every: int, epochs: int) -> bool:
    """Whether a reading that is taken every so many epochs is due after this one."""
    return every > 0 and ((epoch + 1) % every == 0 or epoch + 1 == epochs)


def no_sync(fabric: Fabric, module: Any) -> contextlib.AbstractContextManager[None]:
    """Do not exchange gradients yet: more are to be added first."""
    return fabric.no_backward_sync(module, enabled=fabric.world_size > 1)


def check_finite(loss: torch.Tensor, step: int) -> None:
    """Stop before a NaN reaches a checkpoint."""
    if not bool(torch.isfinite(loss.detach())):
        raise diverged(step, f"the loss is {float(loss.detach())}")


def diverged(step: int, what: str) -> TrainingError:
    """The sentence for a run that has blown up."""
    return TrainingError(
        f"Training diverged at step {step}: {what} The last good state is kept. "
        "Try a lower learning rate (--optim.lr), --optim.clip-norm 1, a longer warm-up "
        "or --machine.precision 32."
    )
