"""A job of embedding that may be killed at any moment and goes on where it was.

    out.npz.part/job.json                        which encoder, which data
                 rows-000000000-000008192...     finished stretches of images
                 out.npz                         the file itself, put together
                 done                            how large it is

A stretch appears under its name only when it is whole, and its name says which images
it covers. So several processes may add stretches at once, and whoever goes on sees what
is missing. When all are there, the file is put together and moved to its place, and the
folder goes.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..errors import DataError
from ..folder import refuse_file, write_whole
from ._embedding_files import Rows

ADVICE = (
    "What was written before is intact: free some space or fix the disk, then give "
    "the same command again to continue."
)
STRETCHES = "rows-*-????????????"
DIFFERENCES = {
    "encoder": "another encoder",
    "data": "other data, or the data have changed",
    "split": "another split",
    "limit": "another limit",
    "shard": "another shard or batch size",
}


@dataclass(frozen=True, eq=False)
class Stretch:
    """Features of the readable ones of the images from ``start`` up to ``stop``."""

    start: int
    stop: int
    rows: Int[Tensor, " b"]
    labels: Int[Tensor, " b"]
    features: Float[Tensor, "b e"]
    unreadable: dict[int, str] = field(default_factory=dict)


class Job:
    """The folder of an unfinished file, locked against a second process."""

    def __init__(
        self, target: Path, identity: dict[str, Any], span: tuple[int, int]
    ) -> None:
        self.target, self.identity = target, identity
        self.start_at, self.stop_at = span
        self.folder = target.with_name(target.name + ".part")
        self.whole = self.folder / target.name
        self._lock = filelock.FileLock(self.folder / "lock", timeout=0)

    def start(self, *, overwrite: bool = False) -> None:
        """Begin or go on, alone.

        A file that exists is refused, unless it may be overwritten; so is unfinished
        work of another job, if any of it is done.
        """
        begun = self._read_identity()
        difference = self._compare(begun) if begun is not None else ""
        allowed = overwrite or bool(begun and not difference and begun.get("overwrite"))
        placed = self._is_placed() and not difference  # by this job, which was killed
        refuse_file(self.target, overwrite=allowed or placed)
        if difference:
            if not overwrite and any(self.folder.glob(STRETCHES)):
                raise DataError(
                    f"{str(self.folder)!r} holds an unfinished job with "
                    f"{difference}: finish that one, choose another name, or use "
                    "--overwrite (overwrite=True) to start again."
                )
            self._acquire()
            self.discard()
            begun = None
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as cause:
            raise DataError(
                f"{str(self.target)!r} cannot be written: {cause.strerror}."
            ) from None
        self._acquire()
        if begun is None:
            identity = json.dumps(self.identity | {"overwrite": allowed}, indent=2)
            self._write("job.json", identity.encode())

    def missing(self, batch_size: int) -> list[tuple[int, int]]:
        """Batches that nobody has done yet, each from one number up to another."""
        files = self._stretch_files()
        starts = [self.start_at, *(stop for _, stop, _ in files)]
        stops = [*(start for start, _, _ in files), self.stop_at]
        return [
            (k, min(k + batch_size, stop))
            for start, stop in zip(starts, stops, strict=True)
            for k in range(start, stop, batch_size)
        ]

    def n_done(self) -> int:
        """How many images are done, by whichever process."""
        return sum(stop - start for start, stop, _ in self._stretch_files())

    def add(self, parts: Sequence[Stretch]) -> None:
        """Keep a stretch, forced to the disk before this returns."""
        bad = {str(i): why for part in parts for i, why in part.unreadable.items()}
        tensors = {
            name: torch.cat([getattr(part, name) for part in parts])
            for name in ("rows", "labels", "features")
        }
        data = save(tensors, metadata={"unreadable": json.dumps(bad)})
        name = f"rows-{parts[0].start:012}-{parts[-1].stop:012}"
        self._write(name, data)

    def blocks(self, names: Sequence[str]) -> Iterator[Rows]:
        """All rows that are done, one stretch at a time."""
        for *_, path in self._stretch_files():
            with open_stretch(path) as file:
                numbers = file.get_tensor("rows").tolist()
                labels, features = (
                    file.get_tensor(key).numpy() for key in ("labels", "features")
                )
            yield Rows([names[i] for i in numbers], labels, features)

    def summarize(self) -> tuple[int, bool, dict[int, str]]:
        """How many rows there are, whether any has a label, and what was left out."""
        n, has_labels = 0, False
        bad: dict[int, str] = {}
        for *_, path in self._stretch_files():
            with open_stretch(path) as file:
                labels = file.get_tensor("labels").numpy()
                reasons = json.loads(file.metadata()["unreadable"])
            n, has_labels = n + len(labels), has_labels or bool(np.any(labels >= 0))
            bad |= {int(i): why for i, why in reasons.items()}
        return n, has_labels, bad

    def finish(self, write: Callable[[Any], object]) -> None:
        """Put the file together, move it to its place, and clear up."""
        if not self._is_placed():
            self._write(self.whole.name, write)
            size = str(self.whole.stat().st_size).encode()
            self._write("done", size)
            self.whole.replace(self.target)
        self.discard()

    def discard(self) -> None:
        """Remove the folder and what this class put into it, and nothing else."""
        self.whole.unlink(missing_ok=True)
        for pattern in ("rows-*", "done", "*.part", "job.json", "lock"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        self.close()

    def close(self) -> None:
        """Let others at the folder."""
        self._lock.release(force=True)

    def _stretch_files(self) -> list[tuple[int, int, Path]]:
        """Where each finished stretch starts and ends, and its file, in their order."""
        files: list[tuple[int, int, Path]] = []
        end = self.start_at
        for path in sorted(self.folder.glob(STRETCHES)):
            start, stop = (int(word) for word in path.name.split("-")[1:])
            if end <= start < stop <= self.stop_at:  # and not done twice
                files.append((start, stop, path))
                end = stop
        return files

    def _is_placed(self) -> bool:
        """Whether the file was moved to its place, and only clearing up is left."""
        try:
            size = int((self.folder / "done").read_text())
            return not self.whole.exists() and self.target.stat().st_size == size
        except (OSError, ValueError):
            return False

    def _read_identity(self) -> dict[str, Any] | None:
        """What the folder says of the job it belongs to; None if it is a new one."""
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(
                f"{str(self.folder)!r} is in the way: it is where unfinished "
                "work is kept. Move it, or choose another name."
            )
        try:
            identity = json.loads((self.folder / "job.json").read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            identity = None
        return identity if isinstance(identity, dict) else {"encoder": "unknown"}

    def _compare(self, begun: dict[str, Any]) -> str:
        """In what an unfinished job differs from this one; "" if in nothing."""
        for key, value in self.identity.items():
            if begun.get(key) != value:
                return DIFFERENCES.get(key, f"another {key}")
        return ""

    def _acquire(self) -> None:
        """Lock the folder; of two processes on one file, the second is refused."""
        if self._lock.is_locked:
            return
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise DataError(
                f"Another process is writing {str(self.target)!r}: wait for it, or "
                "choose another name."
            ) from None

    def _write(self, name: str, content: bytes | Callable[[Any], object]) -> None:
        write_whole(self.folder / name, content, advice=ADVICE)


def open_stretch(path: Path) -> Any:
    """The tensors of a finished stretch."""
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as cause:
        raise DataError(
            f"{str(path)!r} cannot be read back ({cause}): remove it and give the same "
            "command again."
        ) from None
