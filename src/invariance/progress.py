"""How far a long job has got: a live line on a terminal, plain lines elsewhere.

    42 % ━━━━━━━━━━━━━━━━━━━━━━━━ 21,000/50,000 images 0:00:06 4,812/s, loss 1.204

Every command shows its progress with this one class, on stderr unless told otherwise.
A live line needs a terminal; under ``CI``, in a pipe or in a notebook there is a plain
line every few seconds instead. ``quiet`` shows nothing.
"""

import importlib.util
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any


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
            self._bar = make_bar(self.file)
            self._task = self._bar.add_task(
                self._count(), total=self.total, completed=self.done, beside=""
            )
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
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
            self._bar.update(
                self._task, completed=done, description=self._count(), beside=beside
            )
        elif self._is_due():
            self._last_line = time.monotonic()
            left = ""
            if self.total is not None and self.rate:
                left = f", {(self.total - done) / self.rate:.0f} s left"
            about = f", {beside}" if beside else ""
            print(f"  {self._count()}{about}{left}", file=self.file, flush=True)

    def say(self, sentence: str) -> None:
        """A line that stays, above the live one; nothing when quiet."""
        if self._bar is not None:
            self._bar.console.print(sentence, markup=False, highlight=False)
        else:
            tell(sentence, quiet=self.quiet, file=self.file)

    def _is_due(self) -> bool:
        if self.quiet or self.every is None:
            return False
        return time.monotonic() - self._last_line >= self.every

    def _count(self) -> str:
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
            "(Python compiles it anew every time, as it may not keep bytecode here: "
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
    """Whether a line can be rewritten there: a terminal, and not under CI."""
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return False
    from rich.console import Console

    return Console(file=file).is_interactive


def make_bar(file: Any) -> Any:
    """The live line; it goes when the job is over."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.percentage:>3.0f} %"),
        progress.BarColumn(bar_width=24),
        progress.TextColumn("{task.description}", markup=False),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[beside]}", markup=False),
        console=Console(file=file, highlight=False, soft_wrap=True),
        transient=True,
    )
