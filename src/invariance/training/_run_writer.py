"""What a run leaves behind while it trains: readings, checkpoints, kept encoders.

Every process takes part, since weights may have to be gathered and batch norms are to
agree; the first one alone writes, scores and calls functions of the user.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..folder import CHECKPOINTS, METRICS, Metrics, to_dict
from ..methods import Learner
from . import _checkpoint
from ._fabric import Prepared
from ._monitor import Monitor
from ._readings import Health
from ._run_plan import Plan
from ._stopping import Patience, Stop
from ._trackers import TRACKERS, Tracker

EachEpoch = Callable[[int, Learner], Mapping[str, float] | None]


class RunWriter:
    """Writes into a run's folder, from its beginning or from a saved state.

    Args:
        plan: Of the run.
        module: The learner, ready for its device and processes.
        folder: Of the run.
        functions: What the user wants called after every epoch.
        state: What a checkpoint kept; None is the beginning.
    """

    def __init__(
        self,
        plan: Plan,
        module: Prepared,
        folder: Path,
        functions: Sequence[EachEpoch],
        state: Mapping[str, Any] | None,
    ) -> None:
        fabric, settings = module.fabric, plan.settings
        self.plan, self.module, self.folder = plan, module, folder
        self.functions, self.first = functions, fabric.is_global_zero
        self.health, self.patience = Health(), Patience(settings.stop)
        self.monitor = Monitor(plan, folder, fabric.device)
        self.done, position = 0, 0  # steps, and bytes of readings, written before
        if state is not None:
            self.done, position = state["step"], state["metrics"]
            module.load(dict(state), plan, self.health)
            self.patience.load_state_dict(state.get("patience"))
        self.metrics: Metrics | None = None
        self.trackers: list[Tracker] = []
        if self.first:
            self.monitor.load_state_dict((state or {}).get("best"))
            self.metrics = Metrics(folder / METRICS, position)
            config = to_dict(dataclasses.replace(settings, batch_size=plan.batch_size))
            self.trackers = [
                TRACKERS[name](folder, config, self.done) for name in settings.trackers
            ]

    def record(self, reading: dict[str, Any]) -> None:
        """Write a reading, for trackers too, which take numbers only."""
        if self.metrics is not None:
            self.metrics.write(reading)
        for track in self.trackers:
            track({k: v for k, v in reading.items() if not isinstance(v, str)})

    def save(self, step: int) -> None:
        """A checkpoint: all that the steps after this one depend on."""
        state = self.module.state(self.plan, self.health)
        if self.metrics is not None:
            state |= {"step": step, "metrics": self.metrics.position}
            state |= {"samples": len(self.plan.source)}
            state |= {"best": self.monitor.state_dict()}
            state |= {"patience": self.patience.state_dict()}
            _checkpoint.save(self.folder / CHECKPOINTS, step, state)

    def keep(self, epoch: int, step: int) -> None:
        """Keep the learner for good, after so many epochs and steps."""
        state = self.module.state(self.plan, self.health)
        if self.first:
            _checkpoint.keep(self.folder, epoch, step, state)

    def read_knn(self, epoch: int) -> float | None:
        """KNN accuracy among training samples; None where nobody is to know it."""
        encoder = self.module.encoder(self.plan)
        with self.module.uncompiled():
            return self.monitor.look(encoder, epoch) if self.first else None

    def call_functions(self, epoch: int) -> dict[str, float]:
        """The readings of the user's functions, which may ask to end the run."""
        learner = self.plan.learner
        modes = {part: part.training for part in learner.modules()}
        readings: dict[str, float] = {}
        with self.module.uncompiled():
            for function in self.functions if self.first else ():
                try:
                    readings |= function(epoch, learner) or {}
                except Stop as stop:
                    self.patience.why = str(stop).rstrip(".") or "Stop was raised"
        for part, mode in modes.items():
            part.training = mode
        return readings

    def close(self) -> None:
        """Nothing more is written."""
        if self.metrics is not None:
            self.metrics.close()
