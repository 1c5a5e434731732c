"""One writer at a time: locks on a run folder, and who holds them.

A lock is the system's own, on an empty file, and the system lets go of it when its
holder ends, however it ends. Who holds it stands in a file beside it, for the sentence
that refuses a second writer.
"""

import contextlib
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from ..errors import DataError, TrainingError
from ._files import read_json

WRITER, WRITER_LOCK, FILES_LOCK = ".writer.json", ".writer.lock", ".scores.lock"
PATIENCE = 60.0  # seconds to wait for a process that adds to a file
FAREWELL = 20.0  # seconds until the last processes of a killed run have ended


@contextlib.contextmanager
def hold_run(folder: Path, say: Callable[[str], None] = print) -> Iterator[None]:
    """Be the only one to train in a run folder, or raise a sentence on who is.

    Args:
        folder: Of the run.
        say: Called with a sentence where the file system has no locks.
    """
    lock = filelock.FileLock(folder / WRITER_LOCK)
    holder = folder / WRITER
    problem = ""
    try:
        problem = _acquire(lock, 0.0)
    except filelock.Timeout:
        try:  # the worker processes of a killed run keep its lock for some seconds
            _acquire(lock, FAREWELL if _is_gone(holder) else 0.0)
        except filelock.Timeout:
            raise TrainingError(
                f"{folder} is being written by {_describe(holder)}: wait for it, or "
                "stop it first. Nothing was changed."
            ) from None
    if problem:
        say(
            f"{folder} cannot be locked ({problem}): make sure that no other process "
            "writes there."
        )
    about = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
    with contextlib.suppress(OSError):  # a full disk is said where it matters
        holder.write_text(json.dumps(about), encoding="utf-8")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def is_held(folder: Path) -> bool:
    """Whether a process trains in a run folder, as far as can be told from here."""
    holder = folder / WRITER
    return holder.exists() and not _is_gone(holder)


@contextlib.contextmanager
def hold_files(folder: Path) -> Iterator[None]:
    """Be the only one to add to a file of a run; waits for another who does."""
    lock = filelock.FileLock(folder / FILES_LOCK)
    try:
        _acquire(lock, PATIENCE)  # where there are no locks, one writes all the same
    except filelock.Timeout:
        raise DataError(
            f"Another process has been writing in {folder} for {PATIENCE:.0f} seconds: "
            "wait for it, then give the command again."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: filelock.BaseFileLock, seconds: float) -> str:
    """Take a lock, or raise if another keeps it; returns why there can be none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a weaker kind of lock
            lock.acquire(timeout=seconds)
    except filelock.Timeout:  # which is an OSError too
        raise
    except (OSError, NotImplementedError) as cause:
        return (getattr(cause, "strerror", None) or str(cause)).rstrip(".")
    return ""


def _is_gone(holder: Path) -> bool:
    """Whether the process that took the lock, on this machine, is no more."""
    about = read_json(holder)
    pid = about.get("pid")
    if about.get("host") != socket.gethostname() or not isinstance(pid, int):
        return False
    if os.name == "nt":  # there this would end the process
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _describe(holder: Path) -> str:
    about = read_json(holder)
    if not {"pid", "host", "since"} <= about.keys():
        return "another process"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(about["since"]))
    return f"another process (pid {about['pid']} on {about['host']}, since {since})"
