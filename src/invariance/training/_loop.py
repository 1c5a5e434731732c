"""The training loop, on one screen. Everything it needs is decided in the plan."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import NotFiniteError
from ..folder import resume_command
from ..methods import Step
from ._due import Due, find_due
from ._prepared import Prepared
from ._readings import check_finite, diverged
from ._run_writer import RunWriter


class Stopped(KeyboardInterrupt):
    """The run was asked to stop and has saved itself; the message says where it is.

    Not an ``Exception``, so a loop over runs that continues after errors ends here.
    """


@dataclass
class Loop:
    """Steps over a plan, and after each of them what is due."""

    prepared: Prepared
    step: Callable[[bool], Step]
    """One step of the optimizer; takes whether it is logged."""
    writer: RunWriter
    stop_asked: Callable[[], bool]

    def run(self, done: int) -> int:
        """Go from step ``done`` to the last, which is told; some end before all."""
        plan, feed, writer = self.prepared.plan, self.prepared.feed, self.writer
        order, has_functions = plan.order, bool(writer.functions)
        self.ended = bool(writer.patience.why)  # a run that now goes on to its scores
        self.saved_at = time.monotonic()
        if done == 0 and plan.settings.keep_every:
            writer.keep(0, 0)
        for epoch in range(order.find_epoch(done), order.n_epochs):
            if self.ended:
                break
            place = done - order.first_step(epoch)
            if place == 0:
                plan.learner.before_epoch(done / plan.n_steps)
            feed.begin(epoch, place)
            for _ in range(done, order.first_step(epoch + 1)):
                due = find_due(plan, done + 1, has_functions=has_functions)
                try:
                    step = self.step(due.logs)
                except NotFiniteError as cause:
                    raise diverged(done, str(cause)) from None
                done += 1
                self.look(step, due)
        return done

    def look(self, step: Step, due: Due) -> None:
        """After a step: read it, save it, stop if asked, each where it is due."""
        prepared, writer, done = self.prepared, self.writer, due.done
        settings, n_steps = prepared.plan.settings, prepared.plan.n_steps
        stop = late = False
        # asking other processes or a GPU makes them wait: not at every step
        if prepared.fabric.world_size == 1 or due.logs:
            late = time.monotonic() - self.saved_at >= settings.checkpoint_seconds
            stop, late = prepared.any_process(self.stop_asked(), late)
        saves = stop or late or done in (1, n_steps)  # the first tries the disk
        keeps = due.keeps
        if prepared.fabric.device.type == "cpu" or saves or keeps:
            check_finite(float(step.loss.detach()), done)
        if due.logs:
            writer.read(step, due)
        halts = saves or keeps or due.reads_weights or (due.logs and writer.waits)
        if halts:
            writer.report()
        if due.may_end:
            (self.ended,) = prepared.any_process(bool(writer.patience.why))
            saves = saves or self.ended
            keeps = keeps or (self.ended and settings.keep_every > 0)
        # a finite loss may have had a gradient that was not: nothing bad is saved
        if (saves or keeps) and not prepared.has_finite_weights():
            raise diverged(done, "the weights are no longer finite.")
        if keeps:  # first, so that a run going on from the save has kept it
            writer.keep(due.epoch, done)
        if saves:
            writer.save(done)
            self.saved_at = time.monotonic()
        if halts:
            writer.restart_clock(done)
        if stop and done < n_steps:
            raise Stopped(
                f"Stopped after step {done:,} of {n_steps:,} and saved. "
                f"Continue with: {resume_command(writer.folder)}"
            )
