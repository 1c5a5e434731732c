"""Requests to end: the first is obeyed in order, a second of its kind ends at once."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def catch_signals() -> Iterator[Callable[[], bool]]:
    """Turn the first request to end into a polite one; a second of its kind kills."""
    asked: list[bool] = []
    with handle_signals(lambda: asked.append(True)):
        yield lambda: bool(asked)


def interrupt() -> None:
    """Stop at once what is going on, as Ctrl-C does."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def handle_signals(handle: Callable[[], None]) -> Iterator[None]:
    """Call a function at the first request of each kind to end; then all is as it was.

    Beside an interrupt and a termination: SIGHUP, when a connection is lost (unless
    nohup has it ignored), and SIGUSR1, which Slurm sends before the time is up.
    """
    before: dict[int, Any] = {}

    def receive(number: int, frame: Any) -> None:
        signal.signal(number, before[number])
        handle()

    with contextlib.suppress(ValueError):  # signals belong to the main thread
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"):
            number = getattr(signal, name, None)  # Windows has the first two
            if number is None or (
                name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN
            ):
                continue
            before[int(number)] = signal.signal(number, receive)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            for number, handler in before.items():
                signal.signal(number, handler)
