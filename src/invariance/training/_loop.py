"""The training loop, on one screen. Everything it needs is decided in the plan."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import NotFiniteError, TrainingError
from ..folder import resume_command
from ..methods import Step
from ._feed import rate_of
from ._lightning import Fabric
from ._readings import Glimpse
from ._run_plan import Plan
from ._run_writer import RunWriter
from ._sharded import local_part
from ._stopwatch import Moment, take_time
from ._watch import Watch


class Stopped(KeyboardInterrupt):
    """The run was asked to stop and has saved itself; the message says where it is.

    Not an ``Exception``, so a loop over runs that continues after errors ends here.
    """


@dataclass
class Loop:
    """Steps over a plan; what it reports to, and what keeps its state."""

    fabric: Fabric
    plan: Plan
    module: Any
    feed: Any
    step: Callable[[bool], Step]
    """One step of the optimizer; takes whether it is logged."""
    watch: Watch
    writer: RunWriter
    stop_asked: Callable[[], bool]

    def run(self, done: int) -> int:
        """Go from step ``done`` to the last, which is told; some end before all."""
        plan, writer = self.plan, self.writer
        self.ended = bool(writer.patience.why)  # a run that now goes on to its scores
        self.saved_at = time.monotonic()
        self.since: Moment | None = None  # the first stretch warms up: it has no speed
        self.waiting: tuple[Glimpse, int, Moment] | None = None
        alone = self.fabric.device.type == "cuda" and self.fabric.world_size == 1
        self.beside = torch.cuda.Stream(priority=-1) if alone else None
        order = plan.order
        if done == 0 and plan.settings.keep_every:
            writer.keep(0, 0)
        for epoch in range(order.find_epoch(done), order.n_epochs):
            if self.ended:
                break
            place = done - order.first_step(epoch)
            if place == 0:
                plan.learner.before_epoch(done / plan.n_steps)
            self.feed.begin(epoch, place)
            for _ in range(done, order.first_step(epoch + 1)):
                try:
                    step = self.step(self.logs_at(done + 1))
                except NotFiniteError as cause:
                    raise diverged(done, str(cause)) from None
                done += 1
                self.look(step, epoch, done)
        return done

    def logs_at(self, done: int) -> bool:
        """Whether a reading is due after so many steps."""
        every = steps_between_readings(self.plan)
        return done % every == 0 or self.plan.order.ends_epoch(done)

    def look(self, step: Step, epoch: int, done: int) -> None:
        """After a step: read it, save it, stop if asked, each where it is due."""
        plan, settings, logs = self.plan, self.plan.settings, self.logs_at(done)
        writer = self.writer
        stop = late = False
        # asking other processes or a GPU makes them wait: not at every step
        if self.fabric.world_size == 1 or logs:
            waiting = time.monotonic() - self.saved_at
            stop, late = self.any_process(
                self.stop_asked(), waiting >= settings.checkpoint_seconds
            )
        saves = stop or late or done in (1, plan.n_steps)  # the first tries the disk
        keeps = self.is_due(settings.keep_every, epoch, done)
        if self.fabric.device.type == "cpu" or saves or keeps:
            check_finite(float(step.loss.detach()), done)
        if logs:
            self.report()  # the one before: the device has gone on meanwhile
            glimpse = Glimpse(step, plan.learner.objective, self.beside)
            self.waiting = glimpse, epoch, self.take_time(done)
        reads = logs and self.beside is None  # the steps wait for the reading
        halts = saves or keeps or reads or self.reads_weights(epoch, done)
        if halts:
            self.report()
        if self.may_end(done):
            (self.ended,) = self.any_process(bool(writer.patience.why))
            saves = saves or self.ended
            keeps = keeps or (self.ended and settings.keep_every > 0)
        if saves or keeps:
            self.check_weights(done)
        if keeps:  # first, so that a run going on from the save has kept it
            writer.keep(epoch + 1, done)
        if saves:
            writer.save(done)
            self.saved_at = time.monotonic()
        if halts and self.since is not None:  # what was done meanwhile is no training
            self.since = self.take_time(done)
        if stop and done < plan.n_steps:
            raise Stopped(
                f"Stopped after step {done:,} of {plan.n_steps:,} and saved. "
                f"Continue with: {resume_command(writer.folder)}"
            )

    def reads_weights(self, epoch: int, done: int) -> bool:
        """Whether the weights are read after so many steps, before they move on."""
        asked = bool(self.writer.functions) and self.plan.order.ends_epoch(done)
        asked = asked or self.may_end(done)
        return asked or self.is_due(self.plan.settings.knn_every, epoch, done)

    def may_end(self, done: int) -> bool:
        """Whether the run could end after so many steps, before its last epoch."""
        asked = self.plan.settings.stop.patience is not None or self.writer.functions
        ends_epoch = self.plan.order.ends_epoch(done)
        return bool(asked) and ends_epoch and done < self.plan.n_steps

    def is_due(self, every: int, epoch: int, done: int) -> bool:
        """Whether something done every so many epochs is due after so many steps."""
        if not every or not self.plan.order.ends_epoch(done):
            return False
        return (epoch + 1) % every == 0 or epoch + 1 == self.plan.settings.epochs

    def report(self) -> None:
        """Write the reading that waits, show it, and say what is wrong with it."""
        if self.waiting is None:
            return
        (glimpse, epoch, moment), self.waiting = self.waiting, None
        settings, order, done = self.plan.settings, self.plan.order, moment.done
        writer, patience = self.writer, self.writer.patience
        ends_epoch = order.ends_epoch(done)
        reading: dict[str, Any] = {"step": done, "epoch": order.count_epochs(done)}
        reading |= glimpse.read()
        check_finite(reading["loss"], done)
        reading["lr"] = rate_of(self.plan, done - 1)
        if self.is_due(settings.knn_every, epoch, done):
            accuracy = writer.read_knn(epoch + 1)
            reading |= {} if accuracy is None else {"knn": accuracy}
        if writer.functions and ends_epoch:
            reading |= writer.call_functions(epoch + 1)
        if self.since is not None:
            images = order.count_samples(self.since.done, done)
            seconds = self.since.seconds_until(moment)
            reading["time/images_per_second"] = images / seconds
            # at most all of it: a host may have waited while a GPU had steps to do
            waited = min(moment.waited - self.since.waited, seconds)
            reading["time/data_wait"] = waited / seconds
        self.since = moment
        if self.fabric.is_global_zero and done < self.plan.n_steps:
            patience.look(reading, epoch + 1, ends_epoch=ends_epoch)
            reading |= {"ended": patience.why} if patience.why else {}
        writer.record(reading)
        if self.fabric.is_global_zero:
            self.watch.reading(reading, done)
            for finding in writer.health.examine(reading, first=epoch == 0):
                self.watch.say(str(finding), important=True)
            if ends_epoch:
                shown = {"epoch": f"{epoch + 1}/{settings.epochs}"}
                self.watch.epoch(reading | shown)
            if "ended" in reading:
                at = f"Ended after epoch {epoch + 1} of {settings.epochs}"
                self.watch.say(f"{at}: {patience.why}.", important=True)

    def check_weights(self, done: int) -> None:
        """A finite loss may have had a gradient that was not: nothing bad is saved."""
        tensors = map(local_part, [*self.module.parameters(), *self.module.buffers()])
        fine = [t.detach().isfinite().all() for t in tensors if t.is_floating_point()]
        (bad,) = self.any_process(not bool(torch.stack(fine).all()))
        if bad:
            raise diverged(done, "the weights are no longer finite.")

    def take_time(self, done: int) -> Moment:
        """When so many steps are done, which is now, or soon on a GPU."""
        return take_time(done, self.feed.waited, self.fabric.device)

    def any_process(self, *mine: bool) -> list[bool]:
        """Each question, answered yes by every process if any says yes."""
        if self.fabric.world_size == 1:
            return list(mine)
        votes = torch.tensor(mine, dtype=torch.float32, device=self.fabric.device)
        torch.distributed.all_reduce(votes)
        return [bool(votes_for > 0) for votes_for in votes]


def steps_between_readings(plan: Plan) -> int:
    """How often a reading is due; the last step of an epoch has one too."""
    return plan.settings.log_every or max(plan.steps_per_epoch // 10, 1)


def check_finite(loss: float, step: int) -> None:
    """Stop before a NaN reaches a checkpoint."""
    if not math.isfinite(loss):
        raise diverged(step, f"the loss is {loss}.")


def diverged(step: int, what: str) -> TrainingError:
    """The sentence for a run that has blown up."""
    return TrainingError(
        f"Training diverged at step {step}: {what} The last good state is kept. "
        "Try a lower learning rate (--optim.lr), --optim.clip-norm 1, a longer warm-up "
        "or --machine.precision 32."
    )
