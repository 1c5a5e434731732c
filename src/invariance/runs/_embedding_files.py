"""Files of embeddings, by their ending: .parquet, .npz or .csv.

Every writer takes the rows by the block and every reader gives them so; nothing here
ever holds all of them, except ``read_embeddings``, which is asked to.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from ..errors import DataError, SettingError
from . import _csv_file, _npz_file, _parquet_file
from ._embeddings import About, Embeddings, Rows

FORMATS: dict[str, ModuleType] = {
    ".parquet": _parquet_file,
    ".npz": _npz_file,
    ".csv": _csv_file,
}


def format_of(path: Path) -> ModuleType:
    """The writer and reader of a file's ending, ready to be used."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        what = f"the ending {suffix!r}" if suffix else "no ending"
        raise SettingError(
            f"{str(path)!r} has {what}: embeddings are written as {', '.join(FORMATS)}."
        )
    if suffix == ".parquet":
        _parquet_file.arrow()  # better now than after an hour of work
    return FORMATS[suffix]


def is_embedding_file(data: object) -> bool:
    """Whether this is the path of a file of embeddings rather than of pictures."""
    if not isinstance(data, str | Path):
        return False
    path = Path(data).expanduser()
    if not path.is_file():
        return False
    if path.suffix.lower() == ".npz":
        return _npz_file.is_embeddings(path)
    return path.suffix.lower() in FORMATS


def open_embeddings(
    path: str | Path,
) -> tuple[About, Callable[[], Iterator[Rows]]]:
    """What a file says about itself, and its rows by the block."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise DataError(f"There is no file of embeddings at {str(path)!r}.")
    about, rows = format_of(path).read(path)
    return about, rows


def read_embeddings(path: str | Path) -> Embeddings:
    """A whole file of embeddings, as a value.

    Args:
        path: what 'invariance embed' wrote.
    """
    about, rows = open_embeddings(path)
    names: list[str] = []
    labels = np.empty(about.n, np.int64)
    features = np.empty((about.n, about.width), np.float32)
    for r in rows():
        span = slice(len(names), len(names) + len(r.names))
        labels[span], features[span] = r.labels, r.features
        names += r.names
    return Embeddings(
        torch.from_numpy(features),
        tuple(names),
        torch.from_numpy(labels) if about.labelled else None,
        class_names=about.class_names,
        unreadable=about.unreadable,
        encoder=about.encoder,
    )
