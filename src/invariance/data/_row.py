"""A row of a table: numbers and categories under names, some of them missing.

A row is one number per column: the number itself, or the place of a category among
those of the training rows; NaN where there is nothing. So a column is redrawn, hidden
or compared as a whole, whatever it holds. An encoder sees it laid out by ``expand``:
numbers less their mean over their scale, a 0 or 1 per category, and a 1 where a cell is
missing, for columns in which that happened.
"""

import math
from collections import Counter, abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from ..errors import DataError
from ..words import count, join_most
from ._kind import Kind
from ._tables import open_query

UNREAD = (
    "Read as missing, not a number, or a category that the training rows did not have"
)
MISSING = {"", "na", "n/a", "<na>", "nan", "nat", "null", "none", "?", "-"}
NUMBERS = 0.9  # of the cells of a column of numbers, at least
MOST_CATEGORIES = 256  # of a column; the rarer ones are read as missing
MOST_SHOWN = 16  # columns of a row, for people
NUMBER, CATEGORY, ABSENT = range(3)  # what an entry of an expanded row is


@dataclass(frozen=True)
class Column:
    """One column, as the training rows had it.

    Attributes:
        name: in the table's first line.
        mean: of the numbers.
        scale: their standard deviation.
        categories: in their order; None for a column of numbers.
        missing: whether some training rows had nothing here.

    >>> Column("color", categories=("blue", "red")).read("red")
    1.0
    >>> Column("age", mean=50, scale=10).read("n/a")
    nan
    """

    name: str
    mean: float | int = 0.0
    scale: float | int = 1.0
    categories: tuple[str, ...] | None = None
    missing: bool = False

    def read(self, cell: Any) -> float:
        """The cell as a number; NaN where it is missing, unknown or no number."""
        value = clean(cell)
        if value is None:
            return math.nan
        if self.categories is None:
            return to_number(value)
        return self.places.get(to_category(value), math.nan)

    def find_unread(self, cell: Any) -> str | None:
        """What a cell says, where that is read as if it were missing.

        >>> color = Column("color", categories=("blue", "red"))
        >>> color.find_unread("mauve"), color.find_unread("red"), color.find_unread("")
        ('mauve', None, None)
        """
        value = clean(cell)
        if value is None or not math.isnan(self.read(cell)):
            return None
        return to_category(value)

    @cached_property
    def places(self) -> dict[str, float]:
        """The number of each category."""
        return {name: float(k) for k, name in enumerate(self.categories or ())}

    def show(self, value: float) -> str:
        """A number of a row as a person reads it."""
        if math.isnan(value):
            return "missing"
        if self.categories is None:
            return f"{value:.4g}"
        return self.categories[min(max(round(value), 0), len(self.categories) - 1)]

    def describe(self) -> dict[str, Any]:
        """As JSON has it."""
        what: dict[str, Any] = {"mean": self.mean, "scale": self.scale}
        if self.categories is not None:
            what = {"categories": list(self.categories)}
        return {"name": self.name, **what, "missing": self.missing}


class Row(Kind):
    """A row of a table.

    Args:
        columns: what is read, in this order, each a ``Column`` or its description.
        target: the column of classes, which is never read as a part of a row.
        told_by: the columns whose cells decide which rows are held out, also those that
            nothing is learned from; empty: ``columns``.

    >>> from invariance.data import Column, Row
    >>> kind = Row([Column("age", 50, 10), Column("color", categories=("blue", "red"))])
    >>> row = kind.read({"color": "red", "age": 70, "name": "Ann"})
    >>> row, kind.show(row), kind.plain(row[None])
    (tensor([70.,  1.]), 'age 70 · color red', tensor([[2., 0., 1.]]))
    """

    name = word = "row"
    baseline = "raw columns"
    views = "scarf"
    measured = False  # see ``expand``

    def __init__(
        self,
        columns: abc.Sequence[Column | Mapping[str, Any]],
        target: str | None = None,
        told_by: abc.Sequence[str] = (),
    ) -> None:
        self.columns = tuple(map(as_column, columns))
        self.target = target
        self.told_by = tuple(told_by) or tuple(each.name for each in self.columns)
        super().__init__((len(self.columns),))

    @property
    def spread(self) -> tuple[float, ...]:
        """What noise is measured by: the scale of numbers, nothing for categories."""
        numbers = [column.categories is None for column in self.columns]
        pairs = zip(self.columns, numbers, strict=True)
        return tuple(float(column.scale) * number for column, number in pairs)

    @property
    def shape_words(self) -> str:
        """How many columns there are."""
        return f"{len(self.columns)} column{'s' * (len(self.columns) != 1)}"

    @cached_property
    def layout(self) -> tuple[Tensor, ...]:
        """For each entry of an expanded row: its column, what it is, and its numbers.

        The numbers are the category's place, and the mean and scale.
        """
        entries: list[tuple[int, int, int, float, float]] = []
        for k, column in enumerate(self.columns):
            if column.categories is None:
                entries.append((k, NUMBER, 0, column.mean, column.scale))
            for number in range(len(column.categories or ())):
                entries.append((k, CATEGORY, number, 0.0, 1.0))
            if column.missing:
                entries.append((k, ABSENT, 0, 0.0, 1.0))
        whose, role, place, mean, scale = zip(*entries, strict=True)
        whole = [torch.tensor(numbers) for numbers in (whose, role, place)]
        return (*whole, *(torch.tensor(x, dtype=torch.float32) for x in (mean, scale)))

    def read(self, raw: Any) -> Float[Tensor, " d"]:
        """A mapping by the columns' names, or all cells in their order."""
        pairs = zip(self.columns, self.cells(raw), strict=True)
        return torch.tensor([column.read(cell) for column, cell in pairs])

    def explain_unread(self, raw: Any) -> str:
        """Cells that are no number, or of a category that training did not have."""
        pairs = zip(self.columns, self.cells(raw), strict=True)
        texts = [(column.name, column.find_unread(cell)) for column, cell in pairs]
        unread = [f"{name} {text!r}" for name, text in texts if text is not None]
        return f"{UNREAD}: {join_most(unread)}" if unread else ""

    def cells(self, raw: Any) -> list[Any]:
        """The cell of each column."""
        names = [column.name for column in self.columns]
        if isinstance(raw, Mapping):
            absent = [name for name in names if name not in raw]
            if absent:
                raise DataError(f"it has no {join_most([*map(repr, absent)], most=3)}")
            cells = [raw[name] for name in names]
        else:
            cells = [*raw]
        if len(cells) != len(names):
            raise DataError(f"{len(cells)} cells instead of {len(names)}")
        return cells

    def prepare(
        self, batch: Shaped[Tensor, "n ..."], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "n d"]:
        """As it is, in float32 at least: half as many bits would lose categories."""
        return batch.to(dtype if dtype.itemsize >= 4 else torch.float32)

    def plain(self, batch: Float[Tensor, "n d"]) -> Float[Tensor, "n e"]:
        """The row as an encoder sees it."""
        return expand(batch, *(part.to(batch.device) for part in self.layout)).float()

    def open(self, query: Any) -> tuple[str, Any]:
        """A mapping, a text of one in JSON, or a table with one row."""
        if not isinstance(query, str | Path):
            return "query", query
        advice = 'give a table with one row, or a JSON object such as {"age": 63}'
        return open_query(query, "row", advice, marks=("{", "["))

    def show(self, sample: Float[Tensor, " d"]) -> str:
        """Columns and values; of very many columns the first few."""
        pairs = zip(self.columns, sample.tolist(), strict=True)
        parts = [f"{column.name} {column.show(value)}" for column, value in pairs]
        n_more = len(parts) - MOST_SHOWN
        more = [f"{n_more} more"] if n_more > 0 else []
        return " · ".join([*parts[:MOST_SHOWN], *more])

    def describe(self) -> dict[str, Any]:
        """All that is needed to read rows in the same way."""
        columns = [column.describe() for column in self.columns]
        about = {"name": self.name, "columns": columns, "target": self.target}
        return about | {"told_by": list(self.told_by)}


def expand(
    batch: Float[Tensor, "n d"],
    whose: Shaped[Tensor, " e"],
    role: Shaped[Tensor, " e"],
    place: Shaped[Tensor, " e"],
    mean: Float[Tensor, " e"],
    scale: Float[Tensor, " e"],
) -> Float[Tensor, "n e"]:
    """Rows laid out for an encoder; the other arguments are those of a ``layout``."""
    cells = batch.index_select(1, whose)
    missing = cells.isnan()
    numbers = ((cells - mean) / scale).masked_fill(missing, 0.0)
    absent, same = missing.to(numbers.dtype), (cells == place).to(numbers.dtype)
    signs = torch.where(role == ABSENT, absent, same)  # ONNX has no such of booleans
    return torch.where(role == NUMBER, numbers, signs)


def as_column(column: Column | Mapping[str, Any]) -> Column:
    """A column from what JSON has of it."""
    if isinstance(column, Column):
        return column
    about = dict(column)
    if about.get("categories") is not None:
        about["categories"] = tuple(about["categories"])
    return Column(**about)


def clean(cell: Any) -> str | float | None:
    """A cell as a text or a number; None where it is missing.

    >>> clean(" NA "), clean(True), clean(float("inf")), clean(" red ")
    (None, 'true', None, 'red')
    """
    if cell is None:
        return None
    if hasattr(cell, "item") and not isinstance(cell, Tensor):
        cell = cell.item()  # of numpy's
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, int | float):
        number = float(cell)
        return number if math.isfinite(number) else None
    text = cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell)
    text = text.strip()
    return None if text.lower() in MISSING else text


def to_number(value: Any) -> float:
    """A finite number, or NaN for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if abs(number) < 1e38 else math.nan  # the most of float32


def to_category(value: str | float) -> str:
    """A category's name; 3, 3.0 and "3" are the same.

    >>> to_category(3.0), to_category("3"), to_category(2000001.0)
    ('3', '3', '2000001')
    """
    return value if isinstance(value, str) else f"{value:.15g}"


@dataclass(frozen=True)
class Useless:
    """Why nothing is to be learned from a column."""

    why: str
    is_text: bool = False

    def __str__(self) -> str:
        return self.why


CONSTANT = Useless("the same in every row")


def fit_column(name: str, cells: Sequence[Any]) -> Column | Useless:
    """What a column is, or why nothing is to be learned from it.

    >>> fit_column("age", ["1", "3", ""])
    Column(name='age', mean=2.0, scale=1.0, categories=None, missing=True)
    >>> str(fit_column("town", ["here", "here"]))
    'the same in every row'
    """
    values = [value for value in map(clean, cells) if value is not None]
    missing = len(values) < len(cells)
    if not values:
        return Useless("all missing")
    read = np.array([to_number(value) for value in values])
    numbers = read[~np.isnan(read)]
    if len(numbers) >= NUMBERS * len(values):
        if not missing and len(numbers) == len(values) and np.ptp(numbers) == 0:
            return CONSTANT
        scale = float(f"{numbers.std():.6g}") or 1.0
        missing = missing or len(numbers) < len(values)
        return Column(name, float(f"{numbers.mean():.9g}"), scale, missing=missing)
    counts = Counter(map(to_category, values))
    if len(counts) == 1 and not missing:
        return CONSTANT
    if len(counts) > max(2, len(values) // 2):
        why = f"{len(counts):,} different texts in {count(len(cells), 'row')}"
        return Useless(why, is_text=True)
    most = sorted(counts, key=lambda category: (-counts[category], category))
    kept = tuple(sorted(most[:MOST_CATEGORIES]))
    return Column(name, categories=kept, missing=missing or len(kept) < len(most))
