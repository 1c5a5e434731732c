"""Tables in files: a row per line, columns by name. No torch is needed.

    .txt              one column, "text": a row per line that is not empty
    .csv, .tsv        the first line names the columns; it also tells what parts cells:
                      commas, or else semicolons or tabs
    .jsonl, .ndjson   an object per line; the first one names the columns
    .parquet          its own names

A line that is broken is left out and remembered with the reason, so that one bad line
costs one line. Bytes that are not UTF-8 stay in the cells as lone surrogates: whoever
uses a cell says what is wrong with it.
"""

import codecs
import csv
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ..errors import DataError, suggest
from ..words import count
from ._hugging_face import is_hub, open_hub
from ._load_request import explain_unreadable

MARKS = (",", ";", "\t")  # that part cells; the first that a header has is it
DECIMAL = re.compile(r"\s*[-+]?\d+,\d+\s*")
WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
Line = tuple[str, tuple[Any, ...]]
"""Where it is ("line 3"), and its cells in the order of the columns."""


@dataclass
class Table:
    """Rows of a file, to be gone through once."""

    path: Path
    names: tuple[str, ...]
    rows: Iterable[Line] = ()
    broken: dict[str, str] = field(default_factory=dict)
    """Why lines were left out; complete after the last row."""
    n_blank: int = 0
    """Empty lines of a .txt file; complete after the last row."""
    aside: dict[str, None] = field(default_factory=dict)
    """Names that later lines of a .jsonl file have and the first has not, in order;
    complete after the last row."""

    def __iter__(self) -> Iterator[Line]:
        return iter(self.rows)

    def find_column(
        self, usual: Iterable[str], column: str | None = None
    ) -> int | None:
        """The place of the first of these names, or of the one told; None: not there.

        >>> Table(Path("a.csv"), ("id", "Text")).find_column(("sentence", "text"))
        1
        """
        names = [name.strip().lower() for name in self.names]
        wanted = usual if column is None else (column.strip().lower(),)
        return next((names.index(name) for name in wanted if name in names), None)

    def require_column(
        self,
        usual: Iterable[str],
        column: str | None,
        what: str,
        flag: str,
        *,
        advice: str = "",
    ) -> int:
        """The same, or a sentence that says which columns there are, and advice."""
        place = self.find_column(usual, column)
        if place is not None:
            return place
        columns = ", ".join(self.names) or "no columns"
        if column is not None:
            near = suggest(column, self.names)
            raise DataError(
                f"{str(self.path)!r} has no column {column!r} for {what}: it has "
                f"{columns}." + (f" {near}" if near else "")
            )
        raise DataError(
            f"Which column of {str(self.path)!r} has {what}? It has {columns}: name "
            f"it with {flag}, or call it {next(iter(usual))}.{advice}"
        )


def open_table(path: Path) -> Table:
    """The table of a file; its first line is read at once, the rest row by row."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(
            f"A table is read from a {', '.join(READERS)} file: got {str(path)!r}."
        )
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r}: check the path.")
    with path.open("rb") as file:
        if file.read(2) in WIDE:
            raise DataError(f"{str(path)!r} is written in UTF-16: save it as UTF-8.")
    table: Table = reader(path)
    return table


def open_query(
    query: str | Path, word: str, advice: str, *, marks: tuple[str, ...] = ("{",)
) -> tuple[str, Any]:
    """What a query is called and the one row that it holds: JSON, or a table's file.

    Args:
        query: As it was given.
        word: What the row is called in sentences.
        advice: What to give instead, where it cannot be read.
        marks: What a text of JSON begins with; all else is a path.
    """
    path = Path(query).expanduser()
    try:
        if str(query).lstrip().startswith(marks):
            return str(query), json.loads(str(query))
        if not path.is_file():
            raise DataError("there is no such file")
        table = open_table(path)
        rows = [dict(zip(table.names, cells, strict=True)) for _, cells in table]
        if len(rows) != 1:
            raise DataError(f"{count(len(rows), word)}, but a query is one")
        return str(query), rows[0]
    except (DataError, OSError, ValueError) as cause:
        raise DataError(
            f"The query {str(query)!r} cannot be read as a {word} "
            f"({explain_unreadable(cause).rstrip('.')}): {advice}."
        ) from None


def open_text(path: Path) -> TextIO:
    """A file whose bytes come through, whatever they are."""
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")


def open_lines(path: Path) -> Table:
    """One column, without a name in the file."""
    table = Table(path, ("text",))

    def read() -> Iterator[Line]:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"line {number}", (line.strip(),)
                else:
                    table.n_blank += 1

    table.rows = read()
    return table


def open_csv(path: Path) -> Table:
    """Lines below a header.

    Where semicolons part cells, 0,5 is a number: so spreadsheets write in half the
    world.
    """
    mark, head = read_csv_header(path)
    table = Table(path, tuple(name.strip() for name in head))

    def read() -> Iterator[Line]:
        with open_text(path) as file:
            lines = csv.reader(file, delimiter=mark, strict=True)
            next(lines, None)
            while True:
                begun = lines.line_num + 1
                try:
                    cells = next(lines)
                except StopIteration:
                    return
                except csv.Error as cause:
                    if lines.line_num > begun:
                        raise DataError(
                            f"A quotation mark in line {begun} of {str(path)!r} is "
                            "never closed, so the line has no clear end: close it, "
                            "or double it if it belongs to the text."
                        ) from None
                    table.broken[f"line {begun}"] = str(cause)
                    continue
                if len(cells) == len(head):
                    if mark == ";":
                        cells = [*map(to_decimal_point, cells)]
                    yield f"line {begun}", tuple(cells)
                elif cells:
                    columns = count(len(cells), "column")
                    table.broken[f"line {begun}"] = f"{columns} instead of {len(head)}"

    table.rows = read()
    return table


def read_csv_header(path: Path) -> tuple[str, list[str]]:
    """What parts the cells of a file, and what its first line says."""
    marks, head = ("\t",) if path.suffix.lower() == ".tsv" else MARKS, []
    for mark in marks:
        with open_text(path) as file:
            head = next(csv.reader(file, delimiter=mark), [])
        if len(head) > 1:
            return mark, head
    return marks[0], head


def is_text(cell: Any) -> bool:
    r"""Whether a cell is free of bytes that are not UTF-8; numbers are.

    >>> is_text("here"), is_text(b"Z\xfcrich".decode(errors="surrogateescape"))
    (True, False)
    """
    if not isinstance(cell, str) or cell.isascii():
        return True
    try:
        cell.encode()
    except UnicodeEncodeError:  # kept as lone surrogates
        return False
    return True


def to_decimal_point(cell: str) -> str:
    """A number with its comma as a point; anything else as it is.

    >>> to_decimal_point("0,5"), to_decimal_point("1,000,000"), to_decimal_point("a,b")
    ('0.5', '1,000,000', 'a,b')
    """
    return cell.replace(",", ".") if DECIMAL.fullmatch(cell) else cell


def open_jsonl(path: Path) -> Table:
    """An object per line; what the first does not name is left aside."""
    table = Table(path, ())

    def read() -> Iterator[tuple[str, dict[str, Any]]]:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    item = json.loads(line)
                except ValueError as cause:
                    table.broken[f"line {number}"] = f"not JSON ({cause})"
                    continue
                if isinstance(item, dict):
                    yield f"line {number}", item
                else:
                    table.broken[f"line {number}"] = "not a JSON object"

    for _, first in read():
        table.names = tuple(first)
        break
    table.broken.clear()

    def read_cells() -> Iterator[Line]:
        for line, item in read():
            if not item.keys() <= {*table.names}:
                others = (name for name in item if name not in table.names)
                table.aside |= dict.fromkeys(others)
            yield line, tuple(item.get(name) for name in table.names)

    table.rows = read_cells()
    return table


def open_parquet(path: Path) -> Table:
    """Rows in the order of the file."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    failures = (arrow.ArrowException, UnicodeDecodeError, OSError)
    try:
        names = parquet.read_schema(path).names
    except failures as cause:
        why = str(cause).rstrip(".")
        raise DataError(f"{str(path)!r} cannot be read: {why}.") from None

    def read() -> Iterator[Line]:
        number = 0
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches():
                    columns = [column.to_pylist() for column in batch.columns]
                    for cells in zip(*columns, strict=True):
                        number += 1
                        yield f"row {number}", cells
        except failures as cause:
            raise DataError(
                f"{str(path)!r} cannot be read after row {number}: {cause}."
            ) from None

    return Table(path, tuple(names), read())


READERS = {
    ".txt": open_lines,
    ".csv": open_csv,
    ".tsv": open_csv,
    ".jsonl": open_jsonl,
    ".ndjson": open_jsonl,
    ".parquet": open_parquet,
}
"""How a file is opened, by its suffix."""


def has_columns(data: Any, names: str) -> bool:
    """Whether data are a table with all these columns, which commas part."""
    if is_hub(data):
        return {name.strip() for name in names.split(",")} <= {*open_hub(data).features}
    if not isinstance(data, str | Path) or Path(data).suffix.lower() not in READERS:
        return False
    table = open_table(Path(data).expanduser())
    return all(
        table.find_column((name.strip().lower(),)) is not None
        for name in names.split(",")
    )
