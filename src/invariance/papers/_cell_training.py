"""Training within a cell: a run of ``inv.train``, its scores and its readings."""

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluation import Evaluation
from ..folder import TRAINED, UNTRAINED, read_record
from ..runs import evaluate
from ..training import Run, Train, train
from ._claim import Cell


@dataclass(frozen=True)
class TrainedRun:
    """A finished run of a cell."""

    folder: Path
    scores: Evaluation

    def accuracy(self, protocol: str = "knn") -> float:
        """On the test part, in percent."""
        return 100 * self.scores.values(protocol, TRAINED)[0]

    def untrained(self, protocol: str = "knn") -> float:
        """Of the same network before training, in percent."""
        return 100 * self.scores.values(protocol, UNTRAINED)[0]

    @property
    def readings(self) -> Sequence[Mapping[str, Any]]:
        """The lines of metrics.jsonl."""
        return read_record(self.folder).readings

    def curve(self, name: str) -> list[float]:
        """One reading over training."""
        return [line[name] for line in self.readings if name in line]


def train_in(
    cell: Cell,
    name: str = "run",
    *,
    protocols: Sequence[str] = ("knn",),
    each_epoch: Callable[..., Any] | None = None,
    objects: Mapping[str, Any] | None = None,
    **settings: Any,
) -> TrainedRun:
    """Train in the cell's folder with the cell's seed, and score on the test part.

    Args:
        cell: Where, and with which seed.
        name: Of the run, where a cell trains several.
        protocols: How to score; none at all scores nothing.
        each_epoch: As ``inv.train`` takes it: what it returns is among the readings.
        objects: Data, views and the like, as ``inv.train`` takes them.
        settings: As ``inv.Train`` takes them; generated shapes by default.
    """
    given = {"data": "shapes", "epochs": 10, "knn_every": 0, **settings}
    settings_of_run = Train(
        seed=cell.seed,
        name=name,
        out=str(cell.folder),
        evaluate=False,
        quiet=True,
        **given,
    )
    with contextlib.redirect_stdout(io.StringIO()):  # claims have the last word
        run = train(settings_of_run, each_epoch=each_epoch, **(objects or {}))
    assert isinstance(run, Run)
    folder = Path(run.folder)
    if not protocols:
        return TrainedRun(folder, Evaluation(()))
    return TrainedRun(folder, evaluate(folder, protocols=list(protocols), quiet=True))
