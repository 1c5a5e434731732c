"""How far it has got: a live line on a terminal, a line now and then elsewhere."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS = 5.0  # between two lines where there is no terminal


class Counter:
    """Counts images on stderr, and says sentences there; quiet says nothing."""

    def __init__(self, total: int, *, done: int = 0, quiet: bool = False) -> None:
        self.total, self.done, self.quiet = total, done, quiet
        self.first, self.began = done, time.monotonic()
        self.last = self.began
        console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self.bar = bar(console) if console.is_terminal and not quiet else None

    def __enter__(self) -> "Counter":
        if self.bar is not None:
            self.bar.start()
            self.task = self.bar.add_task("", total=self.total, completed=self.done)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    @property
    def seconds(self) -> float:
        """Since the counting began."""
        return max(time.monotonic() - self.began, 1e-9)

    @property
    def rate(self) -> float:
        """Images a second since the counting began."""
        return (self.done - self.first) / self.seconds

    def reach(self, done: int) -> None:
        """So many are done now."""
        self.done = done
        if self.bar is not None:
            said = f"{self.rate:,.0f} images/s"
            self.bar.update(self.task, completed=done, description=said)
        elif not self.quiet and time.monotonic() - self.last >= SECONDS:
            self.last = time.monotonic()
            left = (self.total - done) / max(self.rate, 1e-9)
            line = f"{done:>12,} of {self.total:,} images, {self.rate:,.0f}/s"
            print(f"{line}, {left:.0f} s left", file=sys.stderr, flush=True)


def tell(sentence: str, *, quiet: bool) -> None:
    """A sentence for the reader, beside the result and not in it."""
    if not quiet:
        print(sentence, file=sys.stderr, flush=True)


def bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.percentage:>3.0f} %"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
    )
