"""Embeddings as .parquet: columns name, label, class, features (a list of float32)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, SettingError
from ._embeddings import About, Rows

BLOCK = 8192
KEY = b"invariance"


def arrow() -> Any:
    """Pyarrow with its Parquet part, or a sentence on how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise SettingError(
            "Parquet files need pyarrow: pip install 'invariance[parquet]', or write "
            ".npz or .csv instead."
        ) from None
    return pyarrow


def write(path: Path, about: About, rows: Callable[[], Iterator[Rows]]) -> None:
    """All rows, a row group a block."""
    pa = arrow()
    fields = [("name", pa.string())]
    if about.labelled:
        fields += [("label", pa.int64()), ("class", pa.string())]
    fields += [("features", pa.list_(pa.float32(), about.width))]
    schema = pa.schema(fields, metadata={KEY: about.to_json().encode()})
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for r in rows():
            flat = pa.array(np.ascontiguousarray(r.features, np.float32).reshape(-1))
            columns = [pa.array(r.names, pa.string())]
            if about.labelled:
                labels = r.labels.tolist()
                columns += [
                    pa.array([k if k >= 0 else None for k in labels], pa.int64()),
                    pa.array([about.word(k) or None for k in labels], pa.string()),
                ]
            columns += [pa.FixedSizeListArray.from_arrays(flat, about.width)]
            writer.write_table(pa.table(columns, schema=schema))


def read(path: Path) -> tuple[About, Callable[[], Iterator[Rows]]]:
    """What the file says about itself, and its rows by the block."""
    pa = arrow()
    try:
        said = (pa.parquet.read_schema(path).metadata or {}).get(KEY, b"")
    except (OSError, pa.ArrowInvalid) as cause:
        why = str(cause).splitlines()[0]
        raise DataError(f"{str(path)!r} cannot be read as Parquet: {why}") from None
    about = About.from_json(said.decode("utf-8", "replace"))

    def rows() -> Iterator[Rows]:
        with pa.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(BLOCK):
                flat = batch.column("features").flatten().to_numpy()
                labels = np.full(len(batch), -1, dtype=np.int64)
                if about.labelled:
                    found = batch.column("label").fill_null(-1)
                    labels = found.to_numpy(zero_copy_only=False)
                names = batch.column("name").to_pylist()
                yield Rows(names, labels, flat.reshape(len(batch), about.width))

    return about, rows
