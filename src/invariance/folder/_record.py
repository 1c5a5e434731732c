"""All files of a run, as far as they can be read, and what could not be."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from ..errors import InvarianceError
from ..words import count
from ._config import flatten
from ._environment import check_format
from ._files import (
    BROKEN,
    CONFIG,
    DIAGNOSTICS,
    ENCODER,
    ENVIRONMENT,
    GALLERY,
    KEPT_READINGS,
    METRICS,
    SCORES,
    finite_number,
    parse_lines,
)
from ._gallery import Gallery, read_gallery
from ._scores import Row
from ._tabulate import Scores, tabulate

KEPT_PREFIX = "kept/"
FILES = (CONFIG, ENVIRONMENT, METRICS, SCORES)


@dataclass(frozen=True)
class Record:
    """What a run folder says."""

    folder: Path
    config: dict[str, Any]
    env: dict[str, Any]
    readings: list[dict[str, Any]]
    """Oldest first; each has a finite "epoch"."""
    rows: list[Row] | None
    """Of the evaluation, each with a finite "value"; None without a file."""
    diagnostics: dict[str, Any] | None
    gallery: Gallery | None
    finished: bool
    kept: list[dict[str, Any]] = field(default_factory=list)
    """Readings of the epochs kept, as "kept/pool_nats"; each has an "epoch"."""
    settings_broken: bool = False
    """Whether config.yaml holds something that is no settings."""
    problems: list[str] = field(default_factory=list)
    """A sentence for each file that is missing or broken."""

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.folder.resolve().name

    @property
    def epochs(self) -> float | None:
        """How many were asked for."""
        return finite_number(self.config.get("epochs"))

    @property
    def ended(self) -> str:
        """Why it ended before its last epoch; empty unless it did."""
        return str(self.readings[-1].get("ended") or "") if self.readings else ""

    @property
    def reached(self) -> str:
        """How far it got, in words, such as "step 211 of 920, epoch 4.6 of 20"."""
        if not self.readings:
            return "no reading yet"
        last, all_steps = self.readings[-1], finite_number(self.env.get("n_steps"))
        step, parts = finite_number(last.get("step")), []
        if step is not None:
            of = "" if all_steps is None else f" of {all_steps:,.0f}"
            parts.append(f"step {step:,.0f}{of}")
        of = "" if self.epochs is None else f" of {self.epochs:g}"
        return ", ".join([*parts, f"epoch {last['epoch']:.4g}{of}"])

    @property
    def labeled(self) -> bool | None:
        """Whether the data have labels; None where nothing tells."""
        if self.rows:
            return True
        if self.gallery is not None:
            return self.gallery.labels is not None
        return None if self.rows is None else False

    @cached_property
    def scores(self) -> Scores:
        """The rows of the evaluation as a table."""
        return self.tabulate()

    def tabulate(self, beside: Iterable[Row] = ()) -> Scores:
        """The same, its data named so that rows of other runs are told apart."""
        data, mark = self.config.get("data", ""), self.images.get("fingerprint")
        return tabulate(self.current_rows, data, mark, beside)

    @property
    def current_rows(self) -> list[Row]:
        """The rows without those of a checkpoint that a finished run went on from."""
        rows = self.rows or []
        if not self.finished or not self.readings:
            return rows
        last = self.readings[-1].get("step")
        return [row for row in rows if row.get("step", last) in (None, last)]

    @property
    def images(self) -> dict[str, Any]:
        """What env.json says about the data; empty for older runs."""
        about = self.env.get("images")
        return about if isinstance(about, dict) else {}

    @property
    def word(self) -> str:
        """What a sample is called."""
        return str(self.images.get("word") or "image")

    @property
    def baseline(self) -> str:
        """What the features that need no encoder are called."""
        return str(self.images.get("baseline") or "raw pixels")

    @property
    def positives(self) -> str:
        """What is pulled together: "pairs", or what ``Method`` says."""
        return str(self.env.get("positives") or "views")

    def points(self, key: str) -> list[tuple[float, float]]:
        """(epoch, value) of every reading that has a finite value."""
        readings = self.kept if key.startswith(KEPT_PREFIX) else self.readings
        pairs = [(r["epoch"], finite_number(r.get(key))) for r in readings]
        return [(epoch, value) for epoch, value in pairs if value is not None]

    @property
    def used(self) -> dict[str, Any]:
        """What settings that were left open came to, by dotted names."""
        used = self.env.get("used")
        return used if isinstance(used, dict) else {}

    @property
    def seconds(self) -> float | None:
        """How long the training took, by the speed of each stretch between readings."""
        settings = flatten(self.config) | self.used
        samples = finite_number(settings.get("batch_size"))
        parts = finite_number(settings.get("optim.accumulate", 1))
        rates = self.points("time/images_per_second")
        steps = finite_number(self.readings[-1].get("step")) if self.readings else None
        if not (samples and parts and rates and steps):
            return None
        slowness = [1 / rate for _, rate in rates if rate > 0]  # seconds per image
        return samples * parts * steps * fmean(slowness) if slowness else None

    def mean_of_last_epoch(self, key: str) -> float | None:
        """The mean of the finite values in the last epoch that has any."""
        points = self.points(key)
        late = [value for epoch, value in points if epoch > points[-1][0] - 1]
        return fmean(late) if late else None

    def last(self, key: str) -> float | None:
        """The value in the very last reading; None if it has none."""
        return finite_number(self.readings[-1].get(key)) if self.readings else None


def is_run(folder: str | Path) -> bool:
    """Whether it is a folder with any of the files of a run.

    >>> is_run("no such folder")
    False
    """
    return any((Path(folder) / name).is_file() for name in FILES)


def read_record(folder: str | Path) -> Record:
    """Read what is there; a folder with none of the files is no run."""
    folder = Path(folder)
    if not is_run(folder):
        what = "no run in" if folder.is_dir() else "no folder"
        raise InvarianceError(
            f"There is {what} {str(folder)!r}: a run folder holds "
            f"{', '.join(FILES)}. 'invariance list runs' lists all runs."
        )
    finished = (folder / ENCODER).is_file()
    reader = _Reader(folder)
    env = reader.read(ENVIRONMENT, json.loads, dict) or {}
    check_format(folder, env)
    settings = reader.read(CONFIG, yaml.safe_load, dict)
    config = settings or {}
    # a run writes these at its end, and never where evaluation is switched off
    due = finished and config.get("evaluate") is not False
    gallery, missing = read_gallery(folder / GALLERY)
    unlabeled = gallery is not None and gallery.labels is None
    rows = reader.read_lines(SCORES, "value", required=due and not unlabeled)
    diagnostics = reader.read(DIAGNOSTICS, json.loads, dict, required=due)
    kept = reader.read_lines(KEPT_READINGS, "epoch", required=False) or []
    if gallery is not None or due:
        reader.problems += missing
    readings = reader.read_lines(METRICS, "epoch")
    if readings == [] and not reader.broken_lines:
        reader.problems.append(f"{METRICS} is empty: there are no readings yet.")
    return Record(
        folder=folder,
        config=config,
        env=env,
        readings=readings or [],
        rows=rows,
        diagnostics=diagnostics,
        gallery=gallery,
        finished=finished,
        kept=[_prefix(reading) for reading in kept],
        settings_broken=settings is None and (folder / CONFIG).exists(),
        problems=reader.problems,
    )


class _Reader:
    """Reads files and notes what is wrong with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []
        self.broken_lines = 0  # of the last file

    def read(
        self,
        name: str,
        parse: Callable[[str], Any],
        kind: type,
        *,
        required: bool = True,
    ) -> Any:
        """What a file holds, if it is of this kind; None otherwise."""
        try:
            text = (self.folder / name).read_text(encoding="utf-8", errors="replace")
            value = parse(text)
        except FileNotFoundError:
            if required:
                self.problems.append(f"{name} is missing.")
        except OSError as cause:
            self.problems.append(f"{name} cannot be read: {cause.strerror}.")
        except (*BROKEN, yaml.YAMLError):
            self.problems.append(f"{name} is half written or broken.")
        else:
            if isinstance(value, kind):
                return value
            self.problems.append(f"{name} is empty or not what a run writes.")
        return None

    def read_lines(
        self, name: str, key: str, *, required: bool = True
    ) -> list[dict[str, Any]] | None:
        """Lines that are objects with a finite number called ``key``."""
        records = self.read(name, parse_lines, list, required=required)
        kept = [
            record | {key: value}
            for record in records or []
            if isinstance(record, dict)
            if (value := finite_number(record.get(key))) is not None
        ]
        self.broken_lines = len(records or []) - len(kept)
        if self.broken_lines:
            broken = count(self.broken_lines, "line")
            self.problems.append(f"{name}: {broken} half written or broken, left out.")
        return None if records is None else kept


def _prefix(reading: dict[str, Any]) -> dict[str, Any]:
    """The reading of a kept epoch, told apart from those taken while training."""
    return {(k if k == "epoch" else KEPT_PREFIX + k): v for k, v in reading.items()}
