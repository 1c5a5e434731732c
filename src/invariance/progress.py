"""How far a long job has got: a live line on a terminal, a bar in a notebook.

    42 % ━━━━━━━━━━━━━━━━━━━━━━━━ 21,000/50,000 images 0:00:06 4,812/s, loss 1.204

Every command shows its progress with this one class, on stderr unless told otherwise.
Under ``CI`` or in a pipe, where no line can be drawn anew, there is a plain line every
few seconds instead. ``quiet`` shows nothing.
"""

import importlib.util
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from .markup import tag
from .words import show_duration

BESIDE_BAR = 64  # columns that count, time and note may take in a terminal
REDRAWN = 0.1  # seconds between two looks of a bar in a notebook


class Progress:
    """Counts towards a total and shows how far it is.

    Args:
        total: how many there are in all; None where nobody knows.
        unit: what is counted, in the plural.
        done: how many were done before, by a job that now goes on.
        quiet: show nothing.
        file: where to, anything that can be written to; stderr by default.
        every: seconds between two plain lines; None for no plain lines at all.

    >>> with Progress(3, unit="pages", quiet=True) as progress:
    ...     for page in range(3):
    ...         progress.advance()
    >>> progress.done
    3
    """

    def __init__(
        self,
        total: int | None,
        *,
        unit: str = "images",
        done: int = 0,
        quiet: bool = False,
        file: Any = None,
        every: float | int | None = 5,
    ) -> None:
        self.total, self.unit, self.done = total, unit, done
        self.quiet, self.every = quiet, every
        self.file = sys.stderr if file is None else file
        self._first, self._began = done, time.monotonic()
        self._last_line = self._began
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        if not self.quiet and is_live(self.file):
            bar = NotebookBar if is_notebook(self.file) else TerminalBar
            self._bar = bar(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    @property
    def seconds(self) -> float:
        """Since the counting began."""
        return max(time.monotonic() - self._began, 1e-9)

    @property
    def rate(self) -> float:
        """How many per second since the counting began."""
        return (self.done - self._first) / self.seconds

    def advance(self, n: int = 1, note: str = "") -> None:
        """So many more are done; ``note`` is shown beside the count."""
        self.reach(self.done + n, note)

    def reach(self, done: int, note: str = "") -> None:
        """So many are done in all; ``note`` is shown beside the count."""
        self.done = done
        rate = f"{self.rate:,.0f}/s" if self.rate >= 1 else ""  # "0/s" says nothing
        beside = ", ".join(part for part in (rate, note) if part)
        if self._bar is not None:
            self._bar.draw(beside)
        elif self._is_due():
            self._last_line = time.monotonic()
            seconds = self.seconds_left
            left = "" if seconds is None else f", {show_duration(seconds)} left"
            about = f", {beside}" if beside else ""
            print(f"  {self.count}{about}{left}", file=self.file, flush=True)

    def say(self, sentence: str) -> None:
        """A line that stays, beside the live one; nothing when quiet."""
        if self._bar is not None:
            self._bar.say(sentence)
        else:
            tell(sentence, quiet=self.quiet, file=self.file)

    def _is_due(self) -> bool:
        if self.quiet or self.every is None:
            return False
        return time.monotonic() - self._last_line >= self.every

    @property
    def seconds_left(self) -> float | None:
        """At the speed so far; None where nobody knows."""
        if self.total is None or not self.rate:
            return None
        return (self.total - self.done) / self.rate

    @property
    def count(self) -> str:
        """How many are done, in words."""
        of = "" if self.total is None else f"/{self.total:,}"
        return f"{self.done:,}{of} {self.unit}"


def tell(sentence: str, *, quiet: bool = False, file: Any = None) -> None:
    """A sentence for the reader, beside the result and not in it; on stderr."""
    if not quiet:
        print(sentence, file=sys.stderr if file is None else file, flush=True)


def tell_loading(*, quiet: bool = False) -> None:
    """Say what takes the first seconds of a command, where it does."""
    if "torch" in sys.modules:
        return
    tell("loading PyTorch ...", quiet=quiet)
    if sys.dont_write_bytecode and not has_bytecode("torch"):
        tell(
            "(Python compiles it again every time, as it may not keep bytecode here: "
            "without PYTHONDONTWRITEBYTECODE the next start is seconds faster.)",
            quiet=quiet,
        )


def has_bytecode(package: str) -> bool:
    """Whether a package was compiled before; one that is not there needs none.

    >>> has_bytecode("no_such_package")
    True
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not (spec.origin or "").endswith(".py"):
        return True
    return Path(importlib.util.cache_from_source(str(spec.origin))).exists()


def is_live(file: Any) -> bool:
    """Whether what is there can be drawn anew: a terminal or notebook, not under CI."""
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return False
    return is_notebook(file) or make_console(file).is_interactive


def is_notebook(file: Any) -> bool:
    """Whether what is written there appears below the cell of a notebook.

    Its streams are of a class of their own, so nothing has to be imported to see it.

    >>> is_notebook(sys.stderr)
    False
    """
    return type(file).__module__.partition(".")[0] == "ipykernel"


def make_console(file: Any) -> Any:
    """Text without colors or wrapping.

    In a notebook it is text as well: left to itself, rich makes each line a block of
    HTML, and the columns of a table lose each other.
    """
    from rich.console import Console

    return Console(
        file=file, highlight=False, emoji=False, soft_wrap=True, force_jupyter=False
    )


class TerminalBar:
    """A live line with sentences above it; it goes when the job is over."""

    def __init__(self, progress: Progress) -> None:
        from rich import progress as parts

        self.progress, console = progress, make_console(progress.file)
        width = min(24, max(console.width - BESIDE_BAR, 4))
        self.bar = parts.Progress(
            parts.TextColumn("{task.percentage:>3.0f} %"),
            parts.BarColumn(bar_width=width),
            parts.TextColumn("{task.description}", markup=False),
            parts.TimeRemainingColumn(),
            parts.TextColumn("{task.fields[beside]}", markup=False),
            console=console,
            transient=True,
        )
        done, total = progress.done, progress.total
        self.task = self.bar.add_task(
            progress.count, total=total, completed=done, beside=""
        )
        self.bar.start()

    def draw(self, beside: str) -> None:
        """As far as it has got now."""
        done, words = self.progress.done, self.progress.count
        self.bar.update(self.task, completed=done, description=words, beside=beside)

    def say(self, sentence: str) -> None:
        """A line that stays."""
        self.bar.console.print(sentence, markup=False)

    def close(self) -> None:
        """No more live line."""
        self.bar.stop()


class NotebookBar:
    """A bar that is drawn anew in its place; lines that stay are text below it."""

    def __init__(self, progress: Progress) -> None:
        from IPython.display import display  # where there is a notebook, there it is

        self.progress, self.drawn = progress, time.monotonic()
        self.place = display(self.look(""), raw=True, display_id=True)

    def look(self, beside: str) -> dict[str, str]:
        """The bar, and the same in words for a page that shows text only."""
        progress = self.progress
        seconds = progress.seconds_left
        left = f"{show_duration(seconds)} left" if seconds else ""
        words = ", ".join(filter(None, [progress.count, left, beside]))
        known = progress.total is not None
        share = {"value": progress.done, "max": progress.total} if known else {}
        style = "width:16em;vertical-align:middle"
        bar = tag("progress", style=style, **share)
        return {"text/html": tag("div", bar, " ", words), "text/plain": words}

    def draw(self, beside: str) -> None:
        """As far as it has got now, unless that was drawn a moment ago."""
        now = time.monotonic()
        if now - self.drawn >= REDRAWN or self.progress.done == self.progress.total:
            self.drawn = now
            self.place.update(self.look(beside), raw=True)

    def say(self, sentence: str) -> None:
        """A line that stays."""
        tell(sentence, file=self.progress.file)

    def close(self) -> None:
        """No more bar."""
        self.place.update({"text/html": "", "text/plain": ""}, raw=True)
