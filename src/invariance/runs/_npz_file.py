"""Embeddings as .npz: ``numpy.load`` gives features, names, labels and class_names.

Written and read by the block, so the file may be larger than the memory.
"""

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ._embeddings import About, Rows

BLOCK = 8192
npy: Any = np.lib.format


def write(path: Path, about: About, rows: Callable[[], Iterator[Rows]]) -> None:
    """All rows; the blocks are gone through once for each array."""
    longest = max((len(name) for r in rows() for name in r.names), default=1)
    words = np.dtype(f"<U{max(longest, 1)}")
    with zipfile.ZipFile(path, "w") as archive:
        with member(archive, "features", (about.n, about.width), np.dtype("<f4")) as f:
            for r in rows():
                f.write(np.ascontiguousarray(r.features, "<f4").tobytes())
        with member(archive, "names", (about.n,), words) as f:
            for r in rows():
                f.write(np.array(r.names, words).tobytes())
        if about.labelled:
            with member(archive, "labels", (about.n,), np.dtype("<i8")) as f:
                for r in rows():
                    f.write(r.labels.astype("<i8").tobytes())
            single(archive, "class_names", np.array(about.class_names, np.str_))
        single(archive, "about", np.array(about.to_json()))


def read(path: Path) -> tuple[About, Callable[[], Iterator[Rows]]]:
    """What the file says about itself, and its rows by the block."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            about = About.from_json(str(archive["about"]))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as cause:
        raise DataError(
            f"{str(path)!r} is not a file of embeddings ({cause}): write one with "
            "'invariance embed'."
        ) from None

    def rows() -> Iterator[Rows]:
        with zipfile.ZipFile(path) as archive:
            features = blocks(archive, "features")
            names = blocks(archive, "names")
            labels = blocks(archive, "labels") if about.labelled else None
            for some in features:
                called = next(names).tolist()
                numbers = next(labels) if labels else np.full(len(called), -1)
                yield Rows(called, numbers, some)

    return about, rows


def is_embeddings(path: Path) -> bool:
    """Whether an .npz file holds embeddings, and not images."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {"features.npy", "about.npy"} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def member(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], kind: np.dtype
) -> Any:
    """A new array in the archive, its header written."""
    file = archive.open(f"{name}.npy", "w", force_zip64=True)
    described = {"descr": kind.str, "fortran_order": False, "shape": shape}
    npy.write_array_header_2_0(file, described)
    return file


def single(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    """A small array in the archive."""
    with archive.open(f"{name}.npy", "w") as file:
        npy.write_array(file, array, allow_pickle=False)


def blocks(archive: zipfile.ZipFile, name: str) -> Iterator[np.ndarray]:
    """The rows of one array, some at a time."""
    with archive.open(f"{name}.npy") as file:
        read_header = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}
        shape, _, kind = read_header[npy.read_magic(file)[0]](file)
        width = int(np.prod(shape[1:]))
        for k in range(0, shape[0], BLOCK):
            n = min(BLOCK, shape[0] - k)
            raw = file.read(n * width * kind.itemsize)
            yield np.frombuffer(raw, kind).reshape(n, *shape[1:])
