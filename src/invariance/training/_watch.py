"""What a person sees while it trains: a live line, and a row per epoch that stays."""

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from ..progress import Progress

COLUMNS = (
    ("epoch", "epoch", "{:>7}"),
    ("loss", "loss", "{:>8.3f}"),
    ("accuracy", "accuracy", "{:>9.1%}"),
    ("mi_nats", "nats", "{:>6.2f}"),
    ("mi_reachable", "of max", "{:>7.2f}"),
    ("mi_ceiling", "log n", "{:>6.2f}"),
    ("ess", "ESS", "{:>6.3f}"),
    ("alignment", "align", "{:>7.3f}"),
    ("uniformity", "uniform", "{:>8.3f}"),
    ("effective_rank", "rank", "{:>6.1f}"),
    ("knn", "kNN", "{:>7.1%}"),
    ("lr", "lr", "{:>9.2e}"),
    ("time/images_per_second", "img/s", "{:>7.0f}"),
    ("time/data_wait", "wait", "{:>5.0%}"),
)


class Watch:
    """Tells what happens, in one of four ways: live, plain lines, JSON, or hardly.

    Every sentence also goes to ``train.log``.
    """

    def __init__(
        self, *, quiet: bool = False, as_json: bool = False, out: TextIO | None = None
    ) -> None:
        self.out = out or sys.stdout
        self.quiet, self.as_json = quiet, as_json
        self.console = Console(
            file=self.out, highlight=False, emoji=False, soft_wrap=True
        )
        self.progress: Progress | None = None
        self.log: Path | None = None
        self.has_header = False
        self.silent = False

    def begin(self, n_steps: int, done: int) -> None:
        """Training starts, or goes on after ``done`` steps."""
        quiet = self.quiet or self.as_json
        progress = Progress(
            n_steps, unit="steps", done=done, quiet=quiet, file=self.out, every=None
        )
        self.progress = progress.__enter__()

    def say(self, sentence: str, *, important: bool = False) -> None:
        """A sentence for the log, and for the reader unless quiet."""
        if self.log is not None:
            with (
                contextlib.suppress(OSError),  # a full disk is said where it matters
                self.log.open("a", encoding="utf-8") as file,
            ):
                file.write(f"{time.strftime('%H:%M:%S')} {sentence}\n")
        if self.as_json:
            self._line(json.dumps({"note": sentence}))
        elif important or not self.quiet:
            self._line(sentence)

    def reading(self, record: Mapping[str, Any], step: int) -> None:
        """A reading was taken after this step."""
        if self.as_json:
            self._line(json.dumps(dict(record)))
        elif self.progress is not None:
            text = f"loss {record['loss']:.3f}  accuracy {record['accuracy']:.0%}"
            self.progress.reach(step, text)

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is over."""
        if self.quiet or self.as_json:
            return
        if not self.has_header:
            self._line(_row({key: title for key, title, _ in COLUMNS}, header=True))
            self.has_header = True
        self._line(_row(record))

    def end(self) -> None:
        """No more live line."""
        if self.progress is not None:
            self.progress.__exit__(None, None, None)
            self.progress = None

    def _line(self, text: str) -> None:
        if self.silent:
            return
        if self.progress is not None and not self.progress.quiet:
            self.progress.say(text)  # above the live line
        else:
            self.console.print(text, markup=False)
        self.out.flush()


def _row(record: Mapping[str, Any], *, header: bool = False) -> str:
    cells = []
    for key, _, form in COLUMNS:
        width = len(form.format(0)) if "%" not in form else len(form.format(0.0))
        width = max(width, int("".join(c for c in form[3:5] if c.isdigit())))
        value = record.get(key)
        text = value if header else "" if value is None else form.format(value)
        cells.append(f"{text:>{width}}")
    return " ".join(cells)
