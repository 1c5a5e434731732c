"""When a run ends before its last epoch: it gains no more, or a function says so.

The learning rate falls over all planned epochs, so a run that ends early has not seen
its lowest rates: fewer epochs from the start often give a better encoder.
"""

import dataclasses
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from ..errors import SettingError, unknown
from ..words import count
from ._settings import Stopping, Train

LOWER = ("loss",)  # readings that are better when they are lower
WORDS = {"knn": "kNN among training samples", "loss": "the loss"}


class Stop(Exception):  # noqa: N818 - it is a request, not an error
    """Raised by a function that ``train`` calls after each epoch: end the run here.

    It ends in order, with scores and a report that say why.

    >>> raise Stop("the probe has reached 90 %")
    Traceback (most recent call last):
    invariance.training._stopping.Stop: the probe has reached 90 %
    """


class Patience:
    """Follows one reading from epoch to epoch, and says when it has gained too little.

    ``why`` is empty until the run is to end, and then says what was seen.

    >>> patience = Patience(Stopping(patience=2, reading="loss"))
    >>> for epoch, loss in enumerate([3.0, 2.0, 2.5, 2.1, 1.0], 1):
    ...     patience.look({"loss": loss}, epoch, ends_epoch=True)
    ...     if patience.why:
    ...         break
    >>> epoch, patience.why
    (4, 'the loss has not fallen below 2 for 2 epochs')
    """

    def __init__(self, settings: Stopping) -> None:
        self.settings = settings
        self.values: list[float] = []  # in this epoch, so far
        self.best: float | None = None
        self.since = 0  # the epoch of the best
        self.why = ""

    def look(self, reading: Mapping[str, Any], epoch: int, *, ends_epoch: bool) -> None:
        """Take in a reading of an epoch; an epoch counts by its mean."""
        asked = self.settings
        if asked.patience is None or self.why:
            return
        self.values += [reading[asked.reading]] if asked.reading in reading else []
        if ends_epoch and not self.values and asked.reading not in WORDS:
            raise SettingError(
                f"stop.reading is {asked.reading!r}, and no function has returned a "
                f"number of that name after epoch {epoch}: return it every time."
            )
        if not ends_epoch or not self.values:
            return
        value, self.values = fmean(self.values), []
        lower = asked.reading in LOWER
        gain = 0.0 if self.best is None else (value - self.best) * (-1 if lower else 1)
        if self.best is None or gain > asked.min_gain:
            self.best, self.since = value, epoch
        elif epoch - self.since >= asked.patience:
            name = WORDS.get(asked.reading, asked.reading)
            moved = "fallen below" if lower else "risen above"
            best = f"{self.best:.1%}" if asked.reading == "knn" else f"{self.best:.4g}"
            by = f" by more than {asked.min_gain:g}" if asked.min_gain else ""
            epochs = count(epoch - self.since, "epoch")
            self.why = f"{name} has not {moved} {best}{by} for {epochs}"

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        names = ("values", "best", "since", "why")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Go on from a checkpoint, or from nothing."""
        for name, value in (state or {}).items():
            setattr(self, name, value)


def check_stop_reading(settings: Stopping, *, has_functions: bool) -> None:
    """Refuse a reading that nobody takes; with ``has_functions`` a function may."""
    names = ("auto", *WORDS)
    if settings.reading not in names and not has_functions:
        raise SettingError(unknown("stop.reading", settings.reading, names))


def settle_stopping(settings: Train, *, labeled: bool) -> Stopping:
    """The same with a reading that will be taken; raises if it could never end early.

    >>> settle_stopping(Train(stop=Stopping(patience=3)), labeled=False).reading
    'loss'
    """
    stop, every = settings.stop, settings.knn_every
    patience = stop.patience
    if patience is None:
        return stop
    if stop.reading == "knn" and not labeled:
        raise SettingError(
            "stop.reading knn needs labels, but these data have none to score by: "
            "use --stop.reading loss."
        )
    if stop.reading == "auto":
        stop = dataclasses.replace(stop, reading="knn" if labeled and every else "loss")
    between = every if stop.reading == "knn" else 1
    earliest = between * (1 + -(-patience // between))
    if earliest >= settings.epochs:
        readings = f", with one reading every {between}" if between > 1 else ""
        raise SettingError(
            f"stop.patience {patience} cannot run out within {settings.epochs} "
            f"epochs{readings}: the run could end after epoch {earliest} at the "
            "earliest. Use a smaller patience, or more --epochs."
        )
    return stop
