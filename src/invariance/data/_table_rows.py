"""Tables to learn from: a sample per row, columns of numbers and of categories.

    people.csv          the first line names the columns; so .tsv, .jsonl and .parquet
    {"age": [...]}      columns in Python, or a frame of pandas, polars or pyarrow

A column is one of numbers where nine in ten of its cells are; else it is one of
categories. What says nothing is left out with a word: columns that never change or are
empty, and texts that differ from row to row. Mean, scale and categories are those of
the training rows, and kept: another table with the same columns, in any order, is read
in the same way, and what training did not have is read as missing.

The target is a column of classes, or of numbers to predict, for evaluation only. A row
is held out by the hash of its cells, so the same row is never in both parts.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import DataError, SettingError, suggest
from ..words import count, join_most
from ._load_request import Note, Origin, Request, check_unreadable
from ._marks import Mark
from ._row import UNREAD, Column, Row, clean, fit_column, to_category, to_number
from ._sentences import FIRST
from ._sources import NO_LABEL, Read, Stored
from ._split import own_parts, split_names
from ._tables import READERS, is_text, open_table

TARGETS = ("target", "label", "labels", "class", "y")
MOST_WHOLE, MOST_BROKEN = 100, 20  # classes that are whole numbers, or others


@dataclass
class Cells:
    """A table by columns, as it was found."""

    name: str
    columns: dict[str, list[Any]]
    places: list[str]
    """Where each row is, for people."""
    broken: dict[str, str] = field(default_factory=dict)
    parent: str = ""
    aside: tuple[str, ...] = ()
    """Names that some lines of a .jsonl file have, but not the first."""
    n_train: int | None = None
    """How many rows are to be learned from, those after them being the test part; None
    where the table has no parts of its own."""

    def require(self, names: Iterable[str], what: str) -> None:
        """Raise unless there are columns of these names."""
        absent = [name for name in names if name not in self.columns]
        if absent:
            near = suggest(absent[0], self.columns)
            raise DataError(
                f"{self.name} has no column {list_names(absent)}, {what}: it has "
                f"{list_names(self.columns)}.{near and ' '}{near}"
            )


@dataclass(frozen=True)
class Target:
    """The column that is kept apart, and what it says of each row."""

    name: str
    classes: list[str | None] | None = None
    """None for all where the column has no classes."""
    numbers: list[float] | None = None
    """Where it has numbers to predict instead; NaN where one is missing."""
    why: str = ""
    """Why it has neither."""

    @property
    def given(self) -> list[bool] | None:
        """Whether a row has a class or number; None where none is to be had."""
        if self.numbers is not None:
            return [number == number for number in self.numbers]
        if self.classes is not None:
            return [name is not None for name in self.classes]
        return None


def are_table_rows(data: Any, request: Request) -> bool:
    """Whether data are to be read as rows of a table: as asked, or as they look.

    A file with a column that is called as sentences are is one of sentences, unless a
    target or columns are asked for.

    >>> are_table_rows({"age": [3, 4]}, Request()), are_table_rows([3, 4], Request())
    (True, False)
    """
    if not isinstance(data, str | Path):
        return isinstance(data, Mapping) or is_frame(data)
    path = Path(data).expanduser()
    if path.suffix.lower() not in READERS or not path.is_file():
        return False
    if request.kind_name or request.target or request.columns:
        return request.kind_name in ("", Row.name)
    if request.text_column or request.captions is not None or path.suffix == ".txt":
        return False
    return open_table(path).find_column(FIRST) is None


def is_frame(data: Any) -> bool:
    """Whether data are a frame of pandas or polars, or a table of pyarrow."""
    return hasattr(data, "columns") and len(getattr(data, "shape", ())) == 2


def read_table_rows(data: Any, request: Request) -> Read:
    """One part of a table."""
    return read_cells(open_cells(data), request)


def read_cells(cells: Cells, request: Request) -> Read:
    """One part of a table, as it was found."""
    known = request.known_kind if isinstance(request.known_kind, Row) else None
    target = find_target(cells, request, known)
    names = choose_inputs(cells, request, known, target)
    given = None if target is None else target.given
    # as in training, whatever was left out there: else the parts would differ
    told_by = [n for n in known.told_by if n in cells.columns] if known else names
    rows = leave_out_broken(cells, told_by, request)
    n_whole = len(rows)
    if given is not None and request.split != "all" and request.labels:
        rows = [k for k in rows if given[k]]
    notes = describe_target(target, n_whole - len(rows))
    keys = ["\0".join(str(cells.columns[n][k]) for n in sorted(told_by)) for k in rows]
    parts = own_parts(cells.n_train, len(cells.places))
    split = partial(
        split_names,
        keys,
        what=cells.name,
        labeled=given is not None,
        word=Row.word,
        parts=[parts[k] for k in rows if parts],
    )
    chosen, n_held_out = split(request)
    if known is None:
        part = replace(request, split="train" if len(rows) > 1 else "all")
        learned, _ = split(part)
        apart = None if target is None else target.name
        known, more = fit_row(cells, names, [rows[k] for k in learned], apart)
        notes += more
        if cells.aside:
            what = join_most([*map(repr, cells.aside)])
            text = (
                f"Not in the first line, which names the columns, and left out: {what}."
            )
            notes += (Note("left out", text),)
    numbers = [rows[k] for k in chosen]
    values, strange = read_values(cells, known, numbers)
    items = Stored(values, known, numbers)
    if target is not None and target.classes is not None:
        items.labels, items.class_names = number_targets(target.classes, numbers)
    if target is not None and target.numbers is not None:
        items.quantities = torch.tensor([target.numbers[k] for k in numbers])
    mark, own_test = mark_cells(cells, target), cells.n_train is not None
    origin = Origin(mark, cells.parent, n_held_out, own_test=own_test)
    notes += strange
    return Read(cells.name, items, cells.broken, notes, parallel=False, origin=origin)


def open_cells(data: Any) -> Cells:
    """All cells of a file, a mapping or a frame."""
    if isinstance(data, str | Path):
        path = Path(data).expanduser()
        table = open_table(path)
        names, lines = table.names, [*table]
        check_cells(path.name, names, lines)
        columns = {name: [row[k] for _, row in lines] for k, name in enumerate(names)}
        places = [place for place, _ in lines]
        parent = path.resolve().parent.name
        aside = tuple(table.aside)
        cells = Cells(path.name, columns, places, table.broken, parent, aside)
    else:
        if hasattr(data, "to_pydict"):
            data = data.to_pydict()
        keys = [*(data if isinstance(data, Mapping) else data.columns)]
        names = tuple(map(str, keys))
        columns = {str(key): [*data[key]] for key in keys}
        lengths = {name: len(column) for name, column in columns.items()}
        if len({*lengths.values()}) > 1:
            sizes = ", ".join(f"{name!r} {n}" for name, n in lengths.items())
            raise DataError(f"The columns have different numbers of rows: {sizes}.")
        n = max(lengths.values(), default=0)
        cells = Cells("the table", columns, [f"row {k}" for k in range(n)])
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise DataError(
            f"{cells.name} has several columns called {list_names(twice)}: give each "
            "its own name."
        )
    if not cells.columns or not cells.places:
        what = "rows" if cells.columns else "columns"
        raise DataError(
            f"{cells.name} has no {what}: give a table with at least two rows."
        )
    return cells


def check_cells(
    name: str, names: Sequence[str], lines: Sequence[tuple[str, Sequence[Any]]]
) -> None:
    """Refuse a file that is not UTF-8, or whose first line is a row like the others."""
    for place, cells in (("line 1", names), *lines):
        if not all(map(is_text, cells)):
            raise DataError(
                f"{name} is not written in UTF-8, as {place} shows: save it as UTF-8."
            )
    # a year may be a name, 5.1 is none; what is no number is NaN, whose rest is none
    if any(to_number(each) % 1 > 0 for each in names):
        raise DataError(
            f"The first line of {name} should name the columns, but it reads like a "
            f"row of values ({list_names(names)}): put a line of names above it."
        )


def find_target(cells: Cells, request: Request, known: Row | None) -> Target | None:
    """The column to score by: as asked for, as in training, or by its usual name."""
    target = request.target
    if target is not None:
        cells.require([target], "named as the target")
        if target in request.columns:
            raise SettingError(
                f"{target!r} is the target, and is also among the columns to learn "
                "from, which would give it away: leave it out of --columns."
            )
    inputs = request.columns if known is None else [c.name for c in known.columns]
    usual = (n for n in cells.columns if n.lower() in TARGETS and n not in inputs)
    name = target or (known.target if known is not None else None) or next(usual, None)
    if name is None or name not in cells.columns:
        return None
    values = [clean(cell) for cell in cells.columns[name]]
    given = [value for value in values if value is not None]
    why = explain_no_classes(given)
    if not why:
        classes = [None if value is None else to_category(value) for value in values]
        return Target(name, classes)
    if are_quantities(given):
        numbers = [math.nan if value is None else to_number(value) for value in values]
        return Target(name, numbers=numbers)
    if target is not None and request.labels:
        raise DataError(
            f"The target {name!r} {why}, but scores need classes or numbers: name a "
            "column of these, or add --no-labels, which only keeps it out of "
            "training."
        )
    return Target(name, why=why)


def are_quantities(values: Sequence[str | float]) -> bool:
    """Whether these are numbers, and differ.

    >>> are_quantities([0.5, "0.7"]), are_quantities([2.0]), are_quantities(["a", 1.0])
    (True, False, False)
    """
    numbers = {to_number(value) for value in values}
    return len(numbers) > 1 and not any(map(math.isnan, numbers))


def explain_no_classes(values: Sequence[str | float]) -> str:
    """Why these are no classes, in a few words; empty where they are.

    >>> explain_no_classes(["a", "b", "a"]), explain_no_classes([0.5, 0.7, 0.1])
    ('', 'has 3 different numbers in 3 rows')
    """
    if not values:
        return "is empty"
    n, numbers = len({*map(to_category, values)}), [to_number(v) for v in values]
    what, most = "texts", len(values)
    if all(number == number for number in numbers):
        whole = all(number.is_integer() for number in numbers)
        what, most = "numbers", MOST_WHOLE if whole else MOST_BROKEN
    if n < 2:
        return "is the same in every row"
    if n > min(most, max(2, len(values) // 2)):
        return f"has {n:,} different {what} in {count(len(values), 'row')}"
    return ""


def describe_target(target: Target | None, n_unlabeled: int) -> tuple[Note, ...]:
    """What is to be known of the column that is kept apart."""
    if target is None:
        return ()
    if target.given is None:
        why = (
            f"{target.name!r} {target.why}: it is kept out of training, and there "
            "are no classes."
        )
        return (Note("left out", why),)
    what = f"Classes are from {target.name!r}."
    if target.numbers is not None:
        what = f"{target.name!r} is a number to predict."
    notes: tuple[Note, ...] = (Note("size", what),)
    if n_unlabeled:
        were = count(n_unlabeled, "row was", "rows were")
        text = f"{were} left out without a {target.name!r}: --no-labels trains on all."
        notes += (Note("left out", text),)
    return notes


def choose_inputs(
    cells: Cells, request: Request, known: Row | None, target: Target | None
) -> list[str]:
    """The columns that rows are read from."""
    if known is not None:
        names = [column.name for column in known.columns]
        cells.require(names, "which the encoder takes")
        return names
    if request.columns:
        cells.require(request.columns, "asked for to learn from")
        return [*dict.fromkeys(request.columns)]
    apart = None if target is None else target.name
    names = [name for name in cells.columns if name != apart]
    if not names:
        raise DataError(
            f"{cells.name} has no column but the target {apart!r}: give columns to "
            "learn from."
        )
    return names


def leave_out_broken(cells: Cells, names: list[str], request: Request) -> list[int]:
    """The rows that have something in them; others are remembered as broken."""
    present = [[clean(cell) is not None for cell in cells.columns[n]] for n in names]
    rows = []
    for k, (place, filled) in enumerate(
        zip(cells.places, zip(*present, strict=True), strict=True)
    ):
        if any(filled):
            rows.append(k)
        else:
            cells.broken[place] = "all of its cells are missing"
    n, most = len(rows) + len(cells.broken), request.max_bad_fraction
    check_unreadable(cells.name, cells.broken, n, most, word=Row.word)
    return rows


def fit_row(
    cells: Cells, names: list[str], rows: Sequence[int], target: str | None
) -> tuple[Row, tuple[Note, ...]]:
    """What a row is, by the training rows, and what to know about it."""
    columns, left_out, n_texts = [], [], 0
    for name in names:
        column = cells.columns[name]
        fitted = fit_column(name, [column[k] for k in rows])
        if isinstance(fitted, Column):
            columns.append(fitted)
        else:
            left_out.append(f"{name!r} ({fitted})")
            n_texts += fitted.is_text
    what = join_most(left_out)
    if not columns and n_texts == len(names):
        raise DataError(
            f"Every column of {cells.name} is text that differs from row to row: "
            f"{what}. To learn from sentences, use --text-column NAME."
        )
    if not columns:
        raise DataError(
            f"No column of {cells.name} has anything to learn from: {what}."
        )
    categories = sum(column.categories is not None for column in columns)
    parts = [
        f"{len(columns) - categories} of numbers",
        f"{categories} of categories",
        f"{sum(column.missing for column in columns)} with missing values",
    ]
    notes = [Note("size", f"Columns: {', '.join(parts)}.")]
    if left_out:
        notes.append(Note("left out", f"Columns left out: {what}."))
    return Row(columns, target, names), tuple(notes)


def read_values(
    cells: Cells, kind: Row, rows: Sequence[int]
) -> tuple[Float[Tensor, "n d"], tuple[Note, ...]]:
    """Rows as numbers, and a word on cells that training did not have."""
    values = torch.empty(len(rows), len(kind.columns))
    strange: list[str] = []
    for k, column in enumerate(kind.columns):
        given = [cells.columns[column.name][row] for row in rows]
        values[:, k] = torch.tensor([column.read(cell) for cell in given])
        absent = values[:, k].isnan().nonzero()[:, 0].tolist()
        texts = Counter(column.find_unread(given[row]) for row in absent)
        strange += [
            f"{column.name} {text!r} ({count(n, 'row')})"
            for text, n in texts.items()
            if text is not None
        ]
    if not strange:
        return values, ()
    return values, (Note("left out", f"{UNREAD}: {join_most(strange)}."),)


def number_targets(
    classes: Sequence[str | None], rows: Sequence[int]
) -> tuple[Int[Tensor, " n"], tuple[str, ...]]:
    """A number per row, and the classes' names: numbers by size, words in order.

    >>> number_targets(["10", "9", None], [0, 1, 2])
    (tensor([ 1,  0, -1]), ('9', '10'))
    """
    names = {name for name in classes if name is not None}
    numbers = {name: to_number(name) for name in names}
    if all(number == number for number in numbers.values()):
        ordered = sorted(names, key=lambda name: (numbers[name], name))
    else:
        ordered = sorted(names)
    places = {name: k for k, name in enumerate(ordered)}
    labels = [places.get(classes[k] or "", NO_LABEL) for k in rows]
    return torch.tensor(labels, dtype=torch.long), tuple(ordered)


def mark_cells(cells: Cells, target: Target | None) -> str:
    """A short mark of all cells but the target's, and one of the target's."""
    mark = Mark()
    for name in sorted(cells.columns):
        text = "\0".join([name, *map(str, cells.columns[name]), "\1"])
        apart = target is not None and name == target.name
        (mark.add_labels if apart else mark.add)(text.encode(errors="replace"))
    return str(mark)


def list_names(names: Iterable[str]) -> str:
    """The first few of some names, in quotation marks."""
    return join_most([repr(name) for name in names])
