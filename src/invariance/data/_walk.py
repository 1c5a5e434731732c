"""What lies below a folder: image files, other files, and broken ones."""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ._decode import shorter_side
from ._unreadable import reason

SUFFIXES = {
    *(".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".dib"),
    *(".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".avif", ".jp2", ".tga"),
}
MOST_HEADERS = 20_000


@dataclass
class Found:
    """What a walk through a folder met."""

    files: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)


def walk(root: Path) -> Found:
    """Every file below a folder in the order of their paths; loops of links end."""
    found, seen = Found(), set()

    def entries(folder: Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        try:
            children = sorted(os.scandir(folder), key=lambda e: e.name)
        except OSError as error:
            found.unreadable[prefix or str(root)] = error.strerror or "closed"
            return
        for entry in children:
            if entry.name.startswith(".") or entry.name in ("__MACOSX", "Thumbs.db"):
                continue
            if entry.is_dir():
                yield from entries(Path(entry.path), f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name, entry

    for path, entry in entries(root, ""):
        suffix = PurePosixPath(path).suffix.lower()
        if suffix not in SUFFIXES:
            found.others[suffix] += 1
        elif not entry.is_file():
            found.unreadable[path] = "a link to nothing"
        elif not entry.stat().st_size:
            found.unreadable[path] = "an empty file"
        else:
            found.files.append(path)
    found.files.sort()
    return found


def left_out(others: Counter[str]) -> str:
    n = others.total()
    kinds = ", ".join(s or "no ending" for s, _ in others.most_common(5))
    files = "file" if n == 1 else "files"
    return f"{n} {files} without an image's ending left out ({kinds})."


def check_headers(root: Path, found: Found) -> dict[str, int]:
    """Shorter sides by path; files whose header is broken move to the unreadable.

    Of more than MOST_HEADERS files an even sample is opened, which is enough to choose
    a size and to notice a broken copy; the rest is found out when it is read.
    """

    def check(path: str) -> tuple[str, int | str]:
        try:
            return path, shorter_side(root / path)
        except Exception as error:
            return path, reason(error)

    step = -(-len(found.files) // MOST_HEADERS) or 1
    with ThreadPoolExecutor(8) as pool:
        checked = dict(pool.map(check, found.files[::step], chunksize=64))
    bad = {path: why for path, why in checked.items() if isinstance(why, str)}
    found.unreadable |= bad
    found.files = [path for path in found.files if path not in bad]
    return {path: side for path, side in checked.items() if isinstance(side, int)}
