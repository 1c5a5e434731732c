"""What a run leaves behind while it trains: readings, checkpoints, kept encoders.

Every process takes part, since weights may have to be gathered and batch norms are to
agree; the first one alone writes, scores and calls functions of the user.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..folder import CHECKPOINTS, METRICS, Metrics, to_dict
from ..methods import Learner, Step
from . import _checkpoint
from ._due import Due
from ._feed import rate_of
from ._monitor import Monitor
from ._prepared import Prepared
from ._readings import Glimpse, Health, check_finite
from ._stopping import Patience, Stop
from ._stopwatch import Moment, take_time
from ._trackers import TRACKERS, Tracker
from ._watch import Watch

EachEpoch = Callable[[int, Learner], Mapping[str, float] | None]


class RunWriter:
    """Writes into a run's folder, from its beginning or from a saved state.

    Args:
        prepared: The learner, ready for its device and processes.
        folder: Of the run.
        functions: What the user wants called after every epoch.
        watch: Shows what is written.
        state: What a checkpoint kept; None is the beginning.
    """

    def __init__(
        self,
        prepared: Prepared,
        folder: Path,
        functions: Sequence[EachEpoch],
        watch: Watch,
        state: Mapping[str, Any] | None,
    ) -> None:
        self.prepared, self.plan, fabric = prepared, prepared.plan, prepared.fabric
        self.folder, self.functions, self.watch = folder, functions, watch
        self.first, settings = fabric.is_global_zero, self.plan.settings
        self.health, self.patience = Health(), Patience(settings.stop)
        self.monitor = Monitor(self.plan, folder, fabric.device)
        self.done, position = 0, 0  # steps, and bytes of readings, written before
        if state is not None:
            self.done, position = state["step"], state["metrics"]
            prepared.load(dict(state))
            self.health.load_state_dict(state["said"])
            self.patience.load_state_dict(state.get("patience"))
        self.metrics: Metrics | None = None
        self.trackers: list[Tracker] = []
        if self.first:
            self.monitor.load_state_dict((state or {}).get("best"))
            self.metrics = Metrics(folder / METRICS, position)
            size = self.plan.batch_size
            config = to_dict(dataclasses.replace(settings, batch_size=size))
            self.trackers = [
                TRACKERS[name](folder, config, self.done) for name in settings.trackers
            ]
        alone = fabric.device.type == "cuda" and fabric.world_size == 1
        self.beside = torch.cuda.Stream(priority=-1) if alone else None
        self.unread: tuple[Glimpse, Due, Moment] | None = None
        self.since: Moment | None = None  # the first stretch warms up: it has no speed

    @property
    def waits(self) -> bool:
        """Whether steps wait for a reading; else the next ones run meanwhile."""
        return self.beside is None

    def read(self, step: Step, due: Due) -> None:
        """Take a reading of a step, which ``report`` writes down."""
        self.report()  # the one before: the device has gone on meanwhile
        glimpse = Glimpse(step, self.plan.learner.objective, self.beside)
        self.unread = glimpse, due, self.take_time(due.done)

    def report(self) -> None:
        """Write the reading that was taken, show it, and say what is wrong with it."""
        if self.unread is None:
            return
        (glimpse, due, moment), self.unread = self.unread, None
        order, patience, done = self.plan.order, self.patience, due.done
        reading: dict[str, Any] = {"step": done, "epoch": order.count_epochs(done)}
        reading |= glimpse.read()
        check_finite(reading["loss"], done)
        reading["lr"] = rate_of(self.plan, done - 1)
        if due.knn:
            accuracy = self.read_knn(due.epoch)
            reading |= {} if accuracy is None else {"knn": accuracy}
        if due.calls:
            reading |= self.call_functions(due.epoch)
        if self.since is not None:
            images = order.count_samples(self.since.done, done)
            seconds = self.since.seconds_until(moment)
            reading["time/images_per_second"] = images / seconds
            # at most all of it: a host may have waited while a GPU had steps to do
            waited = min(moment.waited - self.since.waited, seconds)
            reading["time/data_wait"] = waited / seconds
        self.since = moment
        if not self.first:
            return
        if done < self.plan.n_steps:
            patience.look(reading, due.epoch, ends_epoch=due.ends_epoch)
            reading |= {"ended": patience.why} if patience.why else {}
        self.record(reading)
        self.watch.reading(reading, done)
        for finding in self.health.examine(reading, first=due.epoch == 1):
            self.watch.say(str(finding), important=True)
        of_all = self.plan.settings.epochs
        if due.ends_epoch:
            self.watch.epoch(reading | {"epoch": f"{due.epoch}/{of_all}"})
        if "ended" in reading:
            at = f"Ended after epoch {due.epoch} of {of_all}"
            self.watch.say(f"{at}: {patience.why}.", important=True)

    def record(self, reading: dict[str, Any]) -> None:
        """Write a reading, for trackers too, which take numbers only."""
        assert self.metrics is not None
        self.metrics.write(reading)
        for track in self.trackers:
            track({k: v for k, v in reading.items() if not isinstance(v, str)})

    def restart_clock(self, done: int) -> None:
        """Time begins anew, since what was done meanwhile was no training."""
        if self.since is not None:
            self.since = self.take_time(done)

    def take_time(self, done: int) -> Moment:
        """When so many steps are done, which is now, or soon on a GPU."""
        return take_time(done, self.prepared.feed.waited, self.prepared.fabric.device)

    def save(self, step: int) -> None:
        """A checkpoint: all that the steps after this one depend on."""
        state = self.prepared.state()
        if self.metrics is not None:
            state |= {"step": step, "metrics": self.metrics.position}
            state |= {"samples": len(self.plan.source)}
            state |= {"said": self.health.state_dict()}
            state |= {"best": self.monitor.state_dict()}
            state |= {"patience": self.patience.state_dict()}
            _checkpoint.save(self.folder / CHECKPOINTS, step, state)

    def keep(self, epoch: int, step: int) -> None:
        """Keep the learner for good, after so many epochs and steps."""
        state = self.prepared.state()
        if self.first:
            _checkpoint.keep(self.folder, epoch, step, state)

    def read_knn(self, epoch: int) -> float | None:
        """KNN accuracy among training samples; None where nobody is to know it."""
        encoder = self.prepared.encoder()
        with self.prepared.uncompiled():
            return self.monitor.look(encoder, epoch) if self.first else None

    def call_functions(self, epoch: int) -> dict[str, float]:
        """The readings of the user's functions, which may ask to end the run."""
        learner = self.plan.learner
        modes = {part: part.training for part in learner.modules()}
        readings: dict[str, float] = {}
        with self.prepared.uncompiled():
            for function in self.functions if self.first else ():
                try:
                    readings |= function(epoch, learner) or {}
                except Stop as stop:
                    self.patience.why = str(stop).rstrip(".") or "Stop was raised"
        for part, mode in modes.items():
            part.training = mode
        return readings

    def close(self) -> None:
        """Close the file of readings: nothing more is written."""
        if self.metrics is not None:
            self.metrics.close()
