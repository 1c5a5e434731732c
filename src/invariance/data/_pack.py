"""A packed copy of a folder: every image decoded once, at one size, in one file.

    images   n * c * h * w bytes, in the order of the folder's files
    checks   n * 4 bytes, the CRC-32 of each image
    about    JSON: of which files, in which shape, and which could not be read
    length   8 bytes, of about

Reading it takes no decoding, so the next start takes seconds, and it is mapped, so it
may be larger than the memory. Only ``pack`` makes one: it takes a byte for every value
of every pixel. It lies in ``packs`` where named sets are kept, and is called after the
folder, a mark of the folder's place, and the images' shape. It is used as long as the
names, sizes and times of the files are what they were; where the bytes of an image are
not what was written, its file is decoded instead.
"""

import contextlib
import hashlib
import json
import logging
import os
import shlex
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import filelock
import numpy as np
from jaxtyping import UInt8

from ..devices import format_bytes
from ..errors import DataError
from ..folder import write_whole
from ._load_request import Note, find_data_root

if TYPE_CHECKING:
    from ._one_pass import Batch

log = logging.getLogger("invariance.data")

VERSION = 1
CHECK = np.dtype("<u4")
LENGTH = 8
FAREWELL = 10.0  # seconds until the last processes of a killed one have ended
ADVICE = (
    "No copy was kept; training works without one. Free some space, set "
    "INVARIANCE_DATA to a folder on another disk, or use a smaller --image-size."
)


@final
class Pack:
    """Images of a pack by number, or of some of its rows."""

    def __init__(self, path: Path, about: dict[str, Any], rows: list[int]):
        self.path, self.about, self.rows = path, about, rows
        self.unreadable = frozenset(about["unreadable"])
        self._warned = False
        n, shape = about["n"], tuple(about["shape"])
        pixels = n * prod(shape)
        self._images = np.memmap(path, np.uint8, "r", 0, (n, *shape))
        self._checks = np.memmap(path, CHECK, "r", pixels, (n,))

    def choose(self, rows: list[int]) -> "Pack":
        """The images of these rows of the file, in this order."""
        return Pack(self.path, self.about, rows)

    def read(self, i: int) -> UInt8[np.ndarray, "c h w"] | None:
        """Image i; None where it could not be read, or is not what was written."""
        row = self.rows[i]
        if row in self.unreadable:
            return None
        image = np.array(self._images[row])
        if zlib.crc32(image.data) == self._checks[row]:
            return image
        if not self._warned:
            self._warned = True
            log.warning(
                "%s is damaged: the files are decoded instead, and '%s' rebuilds it",
                self.path,
                pack_command(self.about["folder"], self.about["shape"]),
            )
        return None

    def is_intact(self) -> bool:
        """Whether every image is what was written."""
        checks = enumerate(self._checks)
        return all(zlib.crc32(self._images[i].data) == check for i, check in checks)

    def __reduce__(self) -> tuple[Any, ...]:
        """It travels to a worker as its name, not as its content."""
        return Pack, (self.path, self.about, self.rows)


@dataclass(frozen=True)
class Packed:
    """What ``pack`` made, or found to be up to date."""

    path: Path
    n: int
    """Images that could be read."""
    shape: tuple[int, int, int]
    n_bytes: int
    unreadable: dict[str, str]
    new: bool


def find_pack(
    root: Path, mark: str, n: int, shape: tuple[int, int, int]
) -> tuple[Pack | None, tuple[Note, ...]]:
    """The pack of a folder's files as they are now, and a note if there is one at all.

    Args:
        root: The folder.
        mark: Of the names, sizes and times of its files.
        n: How many files there are.
        shape: Of the images.
    """
    path = pack_path(root, shape)
    if not path.exists():
        return None, ()
    anew = pack_command(root, shape)
    instead = f"so the files are decoded. '{anew}' rebuilds it."
    try:
        about = read_about(path)
        size = n * prod(shape) + n * CHECK.itemsize
        if about["mark"] != mark or about["version"] != VERSION:
            text = (
                f"The packed copy {str(path)!r} does not match the files as they are "
                "now"
            )
            return None, (Note("storage", f"{text}, {instead}"),)
        if (about["n"], about["shape"], about["at"]) != (n, list(shape), size):
            raise ValueError
        pack = Pack(path, about, list(range(n)))
    except (OSError, ValueError, KeyError, TypeError):
        text = f"The packed copy {str(path)!r} is damaged, {instead}"
        return None, (Note("storage", text),)
    text = f"Images come from the packed copy {str(path)!r}."
    return pack, (Note("storage", text),)


@contextlib.contextmanager
def hold_pack(
    root: Path, shape: tuple[int, int, int], say: Callable[[str], object]
) -> Iterator[None]:
    """Be the one who writes this copy; another says so, and waits until it is there."""
    path = pack_path(root, shape)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(f"{path}.lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:  # which is an OSError too
            say("Another process is packing this folder: waiting for it ...")
            lock.acquire()
    except OSError as error:
        raise DataError(
            f"Cannot keep a packed copy in {str(path.parent)!r} ({error.strerror}). "
            f"{ADVICE}"
        ) from None
    try:
        yield
    finally:
        lock.release()


def write_pack(
    root: Path,
    mark: str,
    n: int,
    shape: tuple[int, int, int],
    batches: "Iterable[Batch]",
) -> Path:
    """Write the images of all batches, which come in order, whole or not at all."""
    path, size = pack_path(root, shape), n * (prod(shape) + CHECK.itemsize)
    free = shutil.disk_usage(path.parent).free
    if size > free:
        raise DataError(
            f"The packed copy takes {format_bytes(size)}, but only "
            f"{format_bytes(free)} are free in {str(path.parent)!r}. {ADVICE}"
        )

    def write(file: Any) -> None:
        checks, unreadable = np.zeros(n, CHECK), []
        for batch in batches:
            pixels = np.zeros((batch.stop - batch.start, *shape), np.uint8)
            pixels[batch.rows.numpy() - batch.start] = batch.samples.numpy()
            file.write(pixels.data)
            checks[batch.start : batch.stop] = [zlib.crc32(p.data) for p in pixels]
            unreadable += list(batch.unreadable)
        file.write(checks.data)
        about = {
            "version": VERSION,
            "folder": os.fsencode(root.resolve()).decode("utf-8", "replace"),
            "mark": mark,
            "n": n,
            "shape": list(shape),
            "at": size,
            "unreadable": unreadable,
        }
        text = json.dumps(about).encode()
        file.write(text + len(text).to_bytes(LENGTH, "little"))

    write_whole(path, write, advice=ADVICE)
    return path


def read_about(path: Path) -> dict[str, Any]:
    """The description at the end of a pack; ValueError if the file is cut off."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - LENGTH, 0))
        length = int.from_bytes(file.read(), "little")
        if length > end - LENGTH:
            raise ValueError
        file.seek(end - LENGTH - length)
        about = json.loads(file.read(length))
    if about["at"] != end - LENGTH - length:
        raise ValueError
    return about


def delete_packs(root: Path) -> list[Path]:
    """Delete the packed copies of a folder, of any shape; returns what they were.

    What a killed process left half written goes too, what another is writing does not.
    """
    place, name = pack_path(root, (0, 0, 0)).parent, pack_name(root)
    try:
        for path in sorted(place.glob(f"{name}-*.pack.lock")):
            with filelock.FileLock(path, timeout=FAREWELL):
                path.with_suffix(".part").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        paths = sorted(place.glob(f"{name}-*.pack"))
        for path in paths:
            path.unlink()
    except filelock.Timeout:  # which is an OSError too
        raise DataError(
            f"Another process is packing {str(root)!r}: wait for it or stop it, then "
            "give the command again."
        ) from None
    except OSError as error:
        raise DataError(
            f"Cannot delete packed copies in {str(place)!r} ({error.strerror}): make "
            "sure that you can write there."
        ) from None
    return paths


def pack_path(root: Path, shape: tuple[int, int, int]) -> Path:
    """Where the pack of a folder is kept."""
    channels, size, _ = shape
    place = find_data_root() / "packs"
    return place / f"{pack_name(root)}-{channels}x{size}x{size}.pack"


def pack_name(root: Path) -> str:
    """A folder's name, and a mark of where it lies; nothing that a pattern would mean.

    >>> pack_name(Path("/photos [old]"))
    'photos__old_-bc631516'
    """
    place = root.resolve()
    name = "".join(c if c.isalnum() and c.isascii() else "_" for c in place.name)
    mark = hashlib.blake2b(os.fsencode(place), digest_size=4).hexdigest()
    return f"{name[:40]}-{mark}"


def pack_command(folder: str | Path, shape: Sequence[int]) -> str:
    """What packs a folder with images of a shape.

    >>> pack_command("my photos", (1, 32, 32))
    "invariance pack 'my photos' --image-size 32 --channels 1"
    """
    channels, size, _ = shape
    gray = [] if channels == 3 else ["--channels", str(channels)]
    words = ["invariance", "pack", str(folder), "--image-size", str(size), *gray]
    return shlex.join(words)
