"""What a person sees while it trains: a live line, and a row per epoch that stays."""

import contextlib
import dataclasses
import json
import math
import os
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

from ..progress import Progress, is_notebook, make_console


@dataclass(frozen=True)
class Column:
    """One column of the table that has a row per epoch."""

    key: str
    """Of a reading."""
    title: str
    width: int
    form: str
    weight: int
    """In a narrow terminal the lightest columns are left out."""
    about: str = ""
    """What it is, unless the title says it."""
    other_title: str = ""
    """The title where samples are no images, if it differs."""


COLUMNS = (
    Column("epoch", "epoch", 7, "", 14),
    Column("loss", "loss", 8, ".3f", 13),
    Column("accuracy", "matched", 8, ".1%", 12, "views that find their partner"),
    Column("mi_nats", "nats", 6, ".2f", 11, "information that two views share"),
    Column("mi_reachable", "of max", 7, ".2f", 10, "the most this temperature allows"),
    Column("mi_ceiling", "log n", 6, ".2f", 4, "the most at any temperature"),
    Column("ess", "ESS", 6, ".3f", 7, "share of the negatives that count"),
    Column("alignment", "align", 7, ".3f", 5, "distance of two views"),
    Column("uniformity", "uniform", 8, ".3f", 3, "lower is more even"),
    Column("effective_rank", "rank", 6, ".1f", 8, "directions a batch varies in"),
    Column("knn", "kNN", 7, ".1%", 9, "by labels, among training {word}s"),
    Column("lr", "lr", 9, ".2e", 2),
    Column("time/images_per_second", "img/s", 7, ".0f", 6, other_title="per s"),
    Column("time/data_wait", "wait", 5, ".0%", 1, "share of time spent on loading"),
)
NOTEBOOK = 92  # characters that fit below a cell before lines are broken


class Watch:
    """Tells what happens, in one of four ways: live, plain lines, JSON, or hardly.

    Every sentence and the row of every epoch also go to ``train.log``.
    """

    def __init__(
        self, *, quiet: bool = False, as_json: bool = False, out: TextIO | None = None
    ) -> None:
        self.out = out or sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
        self.quiet, self.as_json = quiet, as_json
        self.console = make_console(self.out)
        self.progress: Progress | None = None
        self.log: Path | None = None
        self.columns: list[Column] = []  # of the table, once it has begun
        self.readings: list[Mapping[str, Any]] = []  # since the last row
        self.word = "image"  # what a sample is called

    def begin(self, n_steps: int, done: int) -> None:
        """Training starts, or goes on after ``done`` steps."""
        quiet = self.quiet or self.as_json
        progress = Progress(
            n_steps, unit="steps", done=done, quiet=quiet, file=self.out, every=None
        )
        self.progress = progress.__enter__()

    def count(self, unit: str) -> Progress:
        """Shows that something goes on whose end nobody knows."""
        quiet = self.quiet or self.as_json
        return Progress(None, unit=unit, quiet=quiet, file=self.out)

    def say(self, sentence: str, *, important: bool = False) -> None:
        """A sentence for the log, and for the reader unless quiet."""
        self._log(sentence)
        if self.as_json:
            self._line(json.dumps({"note": sentence}))
        elif important or not self.quiet:
            self._line(sentence)

    def reading(self, record: Mapping[str, Any], step: int) -> None:
        """A reading was taken after this step."""
        self.readings.append(record)
        if self.as_json:
            self._line(json.dumps(dict(record)))
        elif self.progress is not None:
            text = f"loss {record['loss']:.3f}  matched {record['accuracy']:.0%}"
            self.progress.reach(step, text)

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is over: its row, with means over the readings taken in it.

        The learning rate is the last one.
        """
        values = {
            column.key: fmean(given)
            for column in COLUMNS
            if (given := [r[column.key] for r in self.readings if column.key in r])
        }
        values |= {key: record[key] for key in ("epoch", "lr")}
        self.readings = []
        if not self.columns:
            self.columns = fit_columns(self._width())
            self._log(make_header(COLUMNS, self.word))
            self._table(make_header(self.columns, self.word))
        self._log(make_row(COLUMNS, values))
        self._table(make_row(self.columns, values))

    def end(self) -> None:
        """Take the live line away."""
        if self.progress is not None:
            self.progress.__exit__(None, None, None)
            self.progress = None

    def _width(self) -> float | int:
        """The columns that there are; a file has room for any number."""
        if is_notebook(self.out):
            return NOTEBOOK
        known = self.console.is_terminal or "COLUMNS" in os.environ
        return self.console.width if known else math.inf

    def _log(self, text: str) -> None:
        if self.log is not None:
            with (
                contextlib.suppress(OSError),  # a full disk is said where it matters
                self.log.open("a", encoding="utf-8") as file,
            ):
                file.writelines(
                    f"{time.strftime('%H:%M:%S')} {line}\n" for line in text.split("\n")
                )

    def _table(self, text: str) -> None:
        if not self.quiet and not self.as_json:
            self._line(text)

    def _line(self, text: str) -> None:
        if self.progress is not None and not self.progress.quiet:
            self.progress.say(text)  # above the live line
        else:
            self.console.print(text, markup=False)
        self.out.flush()


def fit_columns(width: float | int) -> list[Column]:
    """As many columns as have room, the weightiest, in their order."""
    columns = list(COLUMNS)
    while sum(column.width + 1 for column in columns) - 1 > width and len(columns) > 2:
        columns.remove(min(columns, key=lambda column: column.weight))
    return columns


def make_header(columns: Sequence[Column], word: str = "image") -> str:
    """What the columns mean, and their titles; ``word`` is what a sample is called."""
    columns = [
        dataclasses.replace(
            column,
            about=column.about.format(word=word),
            title=(word != "image" and column.other_title) or column.title,
        )
        for column in columns
    ]
    meanings = [f"{column.title}: {column.about}" for column in columns if column.about]
    width = sum(column.width + 1 for column in columns) - 1
    about = f"Means over each epoch. {'; '.join(meanings)}."
    titles = " ".join(f"{column.title:>{column.width}}" for column in columns)
    return "\n".join([*textwrap.wrap(about, width), titles])


def make_row(columns: Sequence[Column], values: Mapping[str, Any]) -> str:
    """The values under the titles."""
    cells = (
        f"{format(values[column.key], column.form):>{column.width}}"
        if values.get(column.key) is not None
        else " " * column.width
        for column in columns
    )
    return " ".join(cells)
