"""Variables in files: arrays, tables and embeddings, as ``FILE`` or ``FILE:NAME``.

.npy and .npz hold arrays; .csv and .parquet hold tables, whose columns are picked by
name (``table.csv:height,weight``). Files that 'invariance embed' writes give their
features, or with ``:label`` their labels; their names are kept, so that the rows of two
such files can be matched. Words become labels.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, unknown

EMBEDDED = "features"
ARRAYS = (EMBEDDED, "embeddings", "h", "z", "x", "data", "arr_0")
ALIASES = {"label": "labels", "name": "names"}
TEXT = ("name", "names", "class", "class_names")
MISSING = ("", "na", "n/a", "nan", "null", "none", "?")


@dataclass(frozen=True)
class Variable:
    """One variable: rows of numbers, and the rows' names where the file has them."""

    source: str
    values: np.ndarray
    names: np.ndarray | None = None


def locate_variable(which: str) -> tuple[Path, list[str]]:
    """The file and the columns that ``FILE`` or ``FILE:COLUMN,...`` names."""
    path, columns = _split_columns(which)
    if not path.exists():
        raise DataError(f"There is no file {str(path)!r}.")
    if path.suffix.lower() not in READERS:
        raise DataError(
            f"{str(path)!r} cannot be read: expected .npy, .npz, .csv or .parquet."
        )
    return path, columns


def read_variable(which: str) -> Variable:
    """The variable that ``FILE`` or ``FILE:COLUMN,...`` names."""
    path, columns = locate_variable(which)
    kind = path.suffix.lower()
    try:
        table = READERS[kind](path)
    except DataError:
        raise
    except Exception as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{str(path)!r} cannot be read as {kind}: {why}") from error
    values = _pick_columns(table, columns, path) if table else np.empty(0)
    if values.ndim == 0:
        raise DataError(f"{which!r} holds a single number, not one row per sample.")
    if len(values) == 0:
        raise DataError(f"{which!r} holds no rows.")
    names = next((np.asarray(table[k]) for k in ("name", "names") if k in table), None)
    named = names is not None and len(names) == len(values)
    return Variable(which, values, names if named else None)


def pair_rows(a: Variable, b: Variable) -> tuple[np.ndarray, np.ndarray, str]:
    """Rows that belong together: by name where both files have names, else by place.

    The third value is a note on what was done; it is empty where nothing was.
    """
    if a.names is None or b.names is None or np.array_equal(a.names, b.names):
        return a.values, b.values, ""
    place = {name: i for i, name in enumerate(b.names.tolist())}
    both = [(i, place[n]) for i, n in enumerate(a.names.tolist()) if n in place]
    if not both:
        raise DataError(
            f"{a.source!r} and {b.source!r} have no row name in common: embed the "
            "same data with both runs."
        )
    left, right = np.asarray(both).T
    note = f"{len(both)} rows paired by name ({len(a.names)} and {len(b.names)} given)"
    return a.values[left], b.values[right], note


def _split_columns(which: str) -> tuple[Path, list[str]]:
    """The file and the columns; a path that exists is never taken apart."""
    path, colon, columns = which.rpartition(":")
    if not colon or not path or Path(which).exists():
        return Path(which), []
    return Path(path), [c.strip() for c in columns.split(",") if c.strip()]


def _npy(path: Path) -> dict[str, Any]:
    _check_start(path, np.lib.format.MAGIC_PREFIX)
    return {"": np.load(path, mmap_mode="r", allow_pickle=False)}


def _npz(path: Path) -> dict[str, Any]:
    _check_start(path, b"PK")
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _check_start(path: Path, start: bytes) -> None:
    """NumPy takes whatever it does not know for a pickle, and advises to trust it."""
    with path.open("rb") as file:
        if file.read(len(start)) != start:
            raise DataError(
                f"{str(path)!r} cannot be read as {path.suffix.lower()}: it was not "
                "written by NumPy."
            )


def _csv(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise DataError(f"{str(path)!r} is empty.")
    headed = any(
        _parse_number(cell) is None and not _is_missing(cell) for cell in rows[0]
    )
    header = rows[0] if headed else [str(k) for k in range(len(rows[0]))]
    if ragged := next((r for r in rows if len(r) != len(header)), None):
        raise DataError(
            f"{str(path)!r} has lines of {len(header)} and of {len(ragged)} columns."
        )
    _check_commas(rows[headed:], path)
    columns = zip(*rows[headed:], strict=True)
    table = {n: _parse_column(c) for n, c in zip(header, columns, strict=False)}
    width = [name for name in table if name[:1] == "f" and name[1:].isdecimal()]
    if "name" in table and width:  # as 'invariance embed' writes it
        table[EMBEDDED] = np.stack([table.pop(k) for k in width], 1)
    return table


def _check_commas(rows: list[list[str]], path: Path) -> None:
    """Raise where cells hold several numbers each, which would be taken for words."""
    if not rows:
        return
    marks = (";", "\t", None) if len(rows[0]) == 1 else (";", "\t")
    for column in zip(*rows, strict=True):
        for mark in marks:
            if all(_holds_several(cell.split(mark)) for cell in column):
                raise DataError(
                    f"{str(path)!r} holds several numbers in one cell, such as "
                    f"{column[0]!r}: expected commas between columns, and points in "
                    "numbers. Write it again like that, or as .npy."
                )


def _holds_several(cells: list[str]) -> bool:
    numbers = (_is_missing(c) or _parse_number(c) is not None for c in cells)
    return len(cells) > 1 and all(numbers)


def _parquet(path: Path) -> dict[str, Any]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(
            "Parquet files need pyarrow (pip install pyarrow); .csv and .npz do not."
        ) from error
    types = pyarrow.types
    list_kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    table = pyarrow.parquet.read_table(path)
    arrays: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        lists = any(is_kind(column.type) for is_kind in list_kinds)
        array = (column.flatten() if lists else column).to_numpy(zero_copy_only=False)
        arrays[name] = array.reshape(len(column), -1) if lists else array
    return arrays


READERS = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet}


def _pick_columns(
    table: Mapping[str, Any], columns: list[str], path: Path
) -> np.ndarray:
    if "" in table:  # a bare array: columns by number
        array = np.asarray(table[""])
        if not columns:
            return _as_numbers(array, path.name)
        wide = array.shape[1] if array.ndim > 1 else 1
        if bad := [c for c in columns if not c.isdecimal() or int(c) >= wide]:
            raise DataError(f"{path.name} has columns 0 to {wide - 1}, not {bad[0]!r}.")
        return _as_numbers(
            array.reshape(len(array), -1)[:, [int(c) for c in columns]], ""
        )
    if not columns:
        whole = next((k for k in ARRAYS if k in table), None)
        if whole is None and path.suffix.lower() == ".npz" and len(table) != 1:
            raise DataError(
                f"{path.name} holds {', '.join(table)}: choose one, as in "
                f"{path.name}:{next(iter(table), 'x')}."
            )
        columns = [whole] if whole else [c for c in table if c not in TEXT]
    parts = []
    for name in columns:
        key = ALIASES.get(name, name) if name not in table else name
        if key not in table:
            raise DataError(unknown(f"column of {path.name}", name, table))
        part = _as_numbers(np.asarray(table[key]), f"{path.name}:{name}")
        parts.append(part.reshape(len(part), -1))
    return parts[0] if len(parts) == 1 else np.concatenate(parts, 1)


def _as_numbers(values: np.ndarray, name: str) -> np.ndarray:
    """Numbers as they are; words numbered, the same number for the same word."""
    if values.dtype.kind in "fiub":
        return values
    if values.dtype.kind in "OUS" and values.ndim == 1:
        words = np.asarray(["" if v is None else str(v) for v in values.tolist()])
        kinds = np.unique(words, return_inverse=True)[1]
        empty = np.asarray([not word.strip() for word in words.tolist()], dtype=bool)
        return np.where(empty, np.nan, kinds) if empty.any() else kinds
    raise DataError(f"{name} holds {values.dtype}: expected numbers or words.")


def _parse_number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def _parse_column(cells: tuple[str, ...]) -> np.ndarray:
    """Numbers (an empty cell or one such as NA is missing), or words."""
    numbers = [np.nan if _is_missing(c) else _parse_number(c) for c in cells]
    if any(n is None for n in numbers):
        return np.asarray(cells)
    return np.asarray(numbers, dtype=float)
