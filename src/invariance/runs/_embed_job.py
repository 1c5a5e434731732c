"""A job of embedding that may be killed at any moment and goes on where it was.

    file.npz.part/job.json                        which encoder, which data
                  rows-000000000-000008192...     finished stretches of pictures
                  whole                           the file itself, being put together

A stretch appears under its name only when it is whole, and says by its name which
pictures it covers; so what is on the disk is always the beginning of the result, with
no picture missing or twice. When all are there, the file is put together, renamed to
its place, and the folder goes.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from ..errors import DataError
from ..training._checkpoint import _disk_failure, write_whole
from ._embeddings import Rows
from ._encoded import Encoded

ADVICE = (
    "What was written before is intact: make room or mend the disk, then give the same "
    "command again to go on."
)
WORDS = {
    "encoder": "another encoder",
    "data": "other data, or the data have changed",
    "split": "another split",
    "limit": "another limit",
}


@dataclass(frozen=True)
class Stretch:
    """Pictures from ``start`` up to ``stop`` are done, and lie in ``path``."""

    start: int
    stop: int
    path: Path


class Job:
    """The folder of an unfinished file, locked against a second process."""

    def __init__(self, target: Path, identity: dict[str, Any]) -> None:
        self.target, self.identity = target, identity
        self.folder = target.with_name(target.name + ".part")
        self._lock: Any = None

    def start(self, *, overwrite: bool = False) -> int:
        """Begin, or go on: how many pictures are done already.

        A file that is there is refused, unless it may be overwritten; an unfinished one
        of another job is refused too.
        """
        begun = self._begun()
        allowed = overwrite or bool((begun or {}).get("overwrite"))
        if self.target.exists() and not allowed and not self._placed():
            raise DataError(
                f"{str(self.target)!r} exists already: choose another name, or use "
                "--overwrite (overwrite=True) to replace it."
            )
        if begun is not None and (other := self._difference(begun)):
            if not overwrite:
                raise DataError(
                    f"{str(self.folder)!r} holds an unfinished job with {other}: "
                    "finish that one, choose another name, or use --overwrite "
                    "(overwrite=True) to begin anew."
                )
            self._hold()
            self.discard()
            begun = None
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as cause:
            raise DataError(
                f"{str(self.target)!r} cannot be written: {cause.strerror}."
            ) from None
        self._hold()
        if begun is None:
            told = json.dumps(self.identity | {"overwrite": allowed}, indent=2)
            self._write("job.json", told.encode())
        found = self.stretches()
        return found[-1].stop if found else 0

    def add(self, parts: Sequence[Encoded]) -> None:
        """Keep a stretch, forced to the disk before this returns."""
        start, stop = parts[0].start, parts[-1].stop
        bad = {str(i): why for p in parts for i, why in p.unreadable.items()}
        tensors = {
            name: torch.cat([getattr(p, name) for p in parts])
            for name in ("rows", "labels", "features")
        }
        data = save(tensors, metadata={"unreadable": json.dumps(bad)})
        self._write(f"rows-{start:012}-{stop:012}", data)

    def stretches(self) -> list[Stretch]:
        """What is done, from the first picture on without a gap."""
        found: list[Stretch] = []
        for path in sorted(self.folder.glob("rows-*-????????????")):
            start, stop = (int(word) for word in path.name.split("-")[1:])
            if start == (found[-1].stop if found else 0):
                found.append(Stretch(start, stop, path))
        return found

    def rows(self, names: Sequence[str]) -> Iterator[Rows]:
        """All rows that are done, a stretch at a time."""
        for stretch in self.stretches():
            with self._open(stretch) as file:
                called = [names[i] for i in file.get_tensor("rows").tolist()]
                labels, features = (
                    file.get_tensor(key).numpy() for key in ("labels", "features")
                )
            yield Rows(called, labels, features)

    def summary(self) -> tuple[int, bool, dict[int, str]]:
        """How many rows there are, whether any has a label, and what was left out."""
        n, labelled = 0, False
        bad: dict[int, str] = {}
        for stretch in self.stretches():
            with self._open(stretch) as file:
                labels = file.get_tensor("labels").numpy()
                said = json.loads(file.metadata()["unreadable"])
            n, labelled = n + len(labels), labelled or bool(np.any(labels >= 0))
            bad |= {int(i): why for i, why in said.items()}
        return n, labelled, bad

    def finish(self, write: Any) -> None:
        """Put the file together, move it to its place, and clear up."""
        if not self._placed():
            whole = self.folder / "whole"
            try:
                write(whole)
                with whole.open("rb+") as file:
                    os.fsync(file.fileno())
                size = whole.stat().st_size
            except Exception as cause:
                whole.unlink(missing_ok=True)
                failure = _disk_failure(cause)  # writers hide it behind their own
                if failure is None:
                    raise
                why = failure.strerror or str(failure)
                raise DataError(
                    f"Could not write {self.target.name}: {why}. {ADVICE}"
                ) from None
            self._write("done", str(size).encode())
            whole.replace(self.target)
        self.discard()

    def discard(self) -> None:
        """Remove the folder and what this class put into it, and nothing else."""
        for pattern in ("rows-*", "whole", "done", "*.part", "job.json", "lock"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        self.close()

    def close(self) -> None:
        """Let others at the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _placed(self) -> bool:
        """Whether the file was moved to its place, and only clearing up is left."""
        try:
            size = int((self.folder / "done").read_text())
            moved = not (self.folder / "whole").exists()
            return moved and self.target.stat().st_size == size
        except (OSError, ValueError):
            return False

    def _begun(self) -> dict[str, Any] | None:
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(
                f"{str(self.folder)!r} is in the way: it is where unfinished "
                "work is kept. Move it, or choose another name."
            )
        try:
            said = json.loads((self.folder / "job.json").read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            said = None
        return said if isinstance(said, dict) else {"encoder": "unknown"}

    def _difference(self, begun: dict[str, Any]) -> str:
        for key, value in self.identity.items():
            if begun.get(key) != value:
                return WORDS.get(key, f"another {key}")
        return ""

    def _hold(self) -> None:
        """Of two processes on one file, the second is refused."""
        if self._lock is not None:
            return
        self._lock = (self.folder / "lock").open("w")
        try:
            import fcntl

            # dies with this process, and is not handed on to its workers
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass
        except OSError:
            self.close()
            raise DataError(
                f"Another process is writing {str(self.target)!r}: wait for it, or "
                "choose another name."
            ) from None

    def _open(self, stretch: Stretch) -> Any:
        try:
            return safe_open(stretch.path, framework="pt")
        except (OSError, SafetensorError) as cause:
            raise DataError(
                f"{str(stretch.path)!r} cannot be read back ({cause}): remove it and "
                "give the same command again."
            ) from None

    def _write(self, name: str, data: bytes) -> None:
        write_whole(self.folder / name, lambda f: f.write(data), advice=ADVICE)
