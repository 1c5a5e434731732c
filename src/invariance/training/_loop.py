"""The training loop, on one screen. Everything it needs is decided in the plan."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import NotFiniteError, TrainingError
from ..folder import resume_command
from ..methods import Step
from ._lightning import Fabric
from ._readings import Health, read
from ._run_plan import Plan
from ._schedule import rate_at
from ._watch import Watch


class Stopped(KeyboardInterrupt):
    """The run was asked to stop and has saved itself; the message says where it is.

    No ``Exception``, so that a loop over runs that goes on after errors ends here.
    """


@dataclass
class Loop:
    """Steps over a plan; what it reports to, and where it keeps its state."""

    fabric: Fabric
    plan: Plan
    module: Any
    optimizer: Any
    health: Health
    watch: Watch
    record: Callable[[dict[str, Any]], None]
    save: Callable[[int], None]
    knn: Callable[[int], float | None]
    stop_asked: Callable[[], bool]
    folder: Path

    def run(self, done: int) -> None:
        """Go from step ``done`` to the last."""
        plan, settings = self.plan, self.plan.settings
        self.saved_at = time.monotonic()
        self.start_clock()
        for epoch in range(done // plan.steps_per_epoch, settings.epochs):
            if done % plan.steps_per_epoch == 0:
                plan.learner.before_epoch(done / plan.n_steps)
            steps = plan.steps(epoch, self.fabric.global_rank)
            steps = steps[done % plan.steps_per_epoch :]
            images = plan.source.batches(steps.flatten(0, 1), device=self.fabric.device)
            for rows in steps:
                lr = rate_at(done, plan.n_steps, plan.peak, settings.optim.warmup)
                step = self.learn(rows, images, epoch, lr, done)
                done += 1
                self.look(step, epoch, lr, done)

    def learn(
        self, rows: Tensor, images: Iterator[Tensor], epoch: int, lr: float, done: int
    ) -> Step:
        """One step of the optimizer, from one or more batches."""
        plan, optim = self.plan, self.plan.settings.optim
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        for part, samples in enumerate(rows, start=1):
            before = time.monotonic()
            batch = next(images)
            self.waited += time.monotonic() - before
            seed = plan.settings.seed
            views = plan.views(batch, samples=samples, seed=seed, epoch=epoch)
            labels = plan.labels(samples, self.fabric.device)
            ids = samples.to(self.fabric.device)
            try:
                with self.exchange(part == len(rows)):
                    step = self.module(views, labels, ids)
                    self.fabric.backward(step.loss / len(rows))
            except NotFiniteError as cause:
                raise diverged(done, str(cause)) from None
        if optim.clip_norm is not None:
            self.fabric.clip_gradients(
                self.module, self.optimizer, max_norm=optim.clip_norm
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress = (done + 1) / plan.n_steps
        if plan.controller is not None or self.logs_at(done + 1):
            step = step.with_ess()  # before the memory takes in others
        if self.logs_at(done + 1):
            step = step.with_information()
        plan.learner.after_step(progress)
        if plan.controller is not None:
            plan.controller.update(step.readings["ess"], progress)
        return step

    def logs_at(self, done: int) -> bool:
        """Whether a reading is due after so many steps."""
        steps_per_epoch = self.plan.steps_per_epoch
        every = self.plan.settings.log_every or max(steps_per_epoch // 10, 1)
        return done % every == 0 or done % steps_per_epoch == 0

    def look(self, step: Step, epoch: int, lr: float, done: int) -> None:
        """After a step: read it, save it, stop if asked, each where it is due."""
        plan, settings = self.plan, self.plan.settings
        ends_epoch = done % plan.steps_per_epoch == 0
        logs = self.logs_at(done)
        stop = late = False
        # asking other processes or a GPU makes them wait: not at every step
        if self.fabric.world_size == 1 or logs:
            waiting = time.monotonic() - self.saved_at
            stop, late = self.any_process(
                self.stop_asked(), waiting >= settings.checkpoint_seconds
            )
        saves = stop or late or done in (1, plan.n_steps)  # the first tries the disk
        if self.fabric.device.type == "cpu" or logs or saves:
            check_finite(step.loss, done)
        if logs:
            self.report(step, epoch, lr, done, ends_epoch)
        if saves:
            self.check_weights(done)
            self.save(done)
            self.saved_at = time.monotonic()
        if stop and done < plan.n_steps:
            raise Stopped(
                f"Stopped after step {done:,} of {plan.n_steps:,} and saved. Go on "
                f"with: {resume_command(self.folder)}"
            )

    def report(
        self, step: Step, epoch: int, lr: float, done: int, ends_epoch: bool
    ) -> None:
        """Write a reading, show it, and say what is wrong with it."""
        settings, seconds = self.plan.settings, time.monotonic() - self.clock
        images = (done - (self.since or done)) * self.plan.batch_size
        reading = {"step": done, "epoch": done / self.plan.steps_per_epoch}
        reading |= read(step, self.plan.learner.objective) | {"lr": lr}
        due = settings.knn_every and (epoch + 1) % settings.knn_every == 0
        last = settings.knn_every and epoch + 1 == settings.epochs
        if ends_epoch and (due or last):
            accuracy = self.knn(epoch + 1)
            reading |= {} if accuracy is None else {"knn": accuracy}
        if self.since is not None:
            rate = images * settings.optim.accumulate / max(seconds, 1e-9)
            reading["time/images_per_second"] = rate
            reading["time/data_wait"] = self.waited / max(seconds, 1e-9)
        self.record(reading)
        if self.fabric.is_global_zero:
            self.watch.reading(reading, done)
            for finding in self.health.examine(reading, first=epoch == 0):
                self.watch.say(str(finding), important=True)
            if ends_epoch:
                shown = {"epoch": f"{epoch + 1}/{settings.epochs}"}
                self.watch.epoch(reading | shown)
        self.start_clock(done)

    def check_weights(self, done: int) -> None:
        """A finite loss may have had a gradient that was not: nothing bad is saved."""
        tensors = [*self.module.parameters(), *self.module.buffers()]
        fine = [t.detach().isfinite().all() for t in tensors if t.is_floating_point()]
        (bad,) = self.any_process(not bool(torch.stack(fine).all()))
        if bad:
            raise diverged(done, "the weights are no longer finite.")

    def start_clock(self, done: int | None = None) -> None:
        """Time from here on; the first stretch warms up and is not counted."""
        self.clock, self.since, self.waited = time.monotonic(), done, 0.0

    def exchange(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        """Exchange gradients between processes only when all are added up."""
        several = self.fabric.world_size > 1
        return self.fabric.no_backward_sync(self.module, enabled=several and not last)

    def any_process(self, *mine: bool) -> list[bool]:
        """Each question, answered yes by every process if any says yes."""
        if self.fabric.world_size == 1:
            return list(mine)
        votes = torch.tensor(mine, dtype=torch.float32, device=self.fabric.device)
        torch.distributed.all_reduce(votes)
        return [bool(votes_for > 0) for votes_for in votes]


def check_finite(loss: Tensor, step: int) -> None:
    """Stop before a NaN reaches a checkpoint."""
    if not bool(torch.isfinite(loss.detach())):
        raise diverged(step, f"the loss is {float(loss.detach())}.")


def diverged(step: int, what: str) -> TrainingError:
    """The sentence for a run that has blown up."""
    return TrainingError(
        f"Training diverged at step {step}: {what} The last good state is kept. "
        "Try a lower learning rate (--optim.lr), --optim.clip-norm 1, a longer warm-up "
        "or --machine.precision 32."
    )
