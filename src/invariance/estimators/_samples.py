"""Two variables as they come, checked and put in order, with notes on what was done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, NotFiniteError, ShapeError


@runtime_checkable
class Table(Protocol):
    """What makes an array of itself, such as a data frame."""

    def __array__(self) -> np.ndarray: ...


Rows = Tensor | np.ndarray | Sequence[float | int] | Table
# a value that comes this often on average is a category; with many values, which could
# be counts or rounded numbers as well, it has to come more often
FEW_VALUES, REPEATS, REPEATS_OF_MANY = 32, 5, 50
COLUMNS_NAMED = 5
HUGE = 1e100  # squares and differences of numbers beyond overflow


@dataclass(frozen=True)
class Columns:
    """How the columns of a variable were read, to read new rows in the same way."""

    name: str
    varies: Tensor
    """Which of the given columns are not constant; the others are left out."""
    unit: Tensor
    """What each column that is left was divided by."""
    values: Tensor | None
    """The distinct rows, where there are few; else None."""

    def read(self, z: Rows) -> tuple[Tensor, Tensor | None]:
        """New rows of the variable, and the numbers of their values if it has few."""
        rows = _as_matrix(z, self.name)
        if rows.shape[1] != len(self.varies):
            raise ShapeError(
                f"{self.name} had {len(self.varies)} columns when it was estimated, "
                f"got {rows.shape[1]}."
            )
        if not rows.isfinite().all():
            broken = _name_broken(rows, self.name).rstrip("; ")
            raise NotFiniteError(f"NaN or infinite numbers in {broken}: clean them.")
        rows = rows[:, self.varies] / self.unit
        if self.values is None:
            return rows, None
        same = (rows[:, None] == self.values).all(-1)
        if not same.any(1).all():
            first = int((~same.any(1)).nonzero()[0])
            raise DataError(
                f"Row {first} of {self.name} holds a value that was not among the "
                f"{len(self.values)} of the estimate: leave such rows out."
            )
        return rows, same.int().argmax(1)


@dataclass(frozen=True)
class Samples:
    """Paired rows in float64 on the CPU, without constant columns."""

    x: Tensor
    y: Tensor
    x_label: Tensor | None
    """The number of each row's value, where x has few values; else None."""
    y_label: Tensor | None
    notes: tuple[str, ...]
    x_columns: Columns
    y_columns: Columns

    def __len__(self) -> int:
        return len(self.x)

    def turn(self) -> "Samples":
        """The same samples with x and y exchanged."""
        return Samples(
            self.y,
            self.x,
            self.y_label,
            self.x_label,
            self.notes,
            self.y_columns,
            self.x_columns,
        )


def read_samples(x: Rows, y: Rows, *, drop_missing: bool = False) -> Samples:
    """Check two variables with one row per sample.

    Args:
        x: Rows of numbers, or a single column.
        y: The same; row i belongs to row i of x.
        drop_missing: Leave rows with NaN or infinite numbers out instead of refusing.
    """
    a, b = _as_matrix(x, "x"), _as_matrix(y, "y")
    if len(a) != len(b):
        raise ShapeError(
            f"x and y need one row each for every sample: got {len(a)} and {len(b)} "
            "rows. Leave out rows without a partner."
        )
    notes = []
    bad = ~(a.isfinite().all(1) & b.isfinite().all(1))
    if bad.any():
        if not drop_missing:
            raise NotFiniteError(
                f"{int(bad.sum())} of {len(a)} rows hold NaN or infinite numbers "
                f"({_name_broken(a, 'x')}{_name_broken(b, 'y')}the first is row "
                f"{int(bad.nonzero()[0])}). Clean them, or leave them out with "
                "drop_missing=True (--drop-missing)."
            )
        a, b = a[~bad], b[~bad]
        notes.append(f"{int(bad.sum())} rows with NaN or infinite numbers left out")
    if len(a) < 4:
        lost = f" ({notes[0]})" if notes else ""
        raise DataError(
            f"Information needs samples: got {len(a)} rows{lost}, expected 4 or more."
        )
    read = []
    for z, name in ((a, "x"), (b, "y")):
        varies = (z != z[0]).any(0)
        if not varies.all():
            notes.append(f"constant {_name_columns(~varies)} of {name} left out")
        unit = _find_units(z[:, varies])
        z = z[:, varies] / unit
        values, label = _number_values(z)
        read.append((z, label, Columns(name, varies, unit, values)))
    (x_rows, x_label, x_columns), (y_rows, y_label, y_columns) = read
    return Samples(x_rows, y_rows, x_label, y_label, tuple(notes), x_columns, y_columns)


def _as_matrix(z: Rows, name: str) -> Tensor:
    if not isinstance(z, Tensor) and isinstance(z, Table):
        z = np.asarray(z)
    if isinstance(z, np.ndarray) and z.dtype.kind not in "biufc":
        raise DataError(
            f"{name} must hold numbers, got an array of {z.dtype}: number its words, "
            f"as numpy.unique({name}, return_inverse=True)[1] does."
        )
    try:
        if isinstance(z, np.ndarray):
            # torch takes no strides below 0 and no bytes in another machine's order,
            # and warns of an array that cannot be written, as files are mapped
            z = np.require(z, z.dtype.newbyteorder("="), ["C", "W"])
        rows = torch.as_tensor(z).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{name} must hold numbers ({error}).") from error
    if rows.is_complex():
        raise DataError(f"{name} holds complex numbers: pass both parts as columns.")
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or 0 in rows.shape:
        raise ShapeError(
            f"{name} must be a table of one row per sample and at least one column, "
            f"got shape {tuple(rows.shape)}"
            + (": flatten what belongs to a sample." if rows.ndim > 2 else ".")
        )
    return rows.double()


def _name_broken(z: Tensor, name: str) -> str:
    bad = (~z.isfinite()).any(0)
    return f"{_name_columns(bad)} of {name}; " if bad.any() else ""


def _name_columns(these: Tensor) -> str:
    numbers = these.nonzero().flatten().tolist()
    some = ", ".join(map(str, numbers[:COLUMNS_NAMED]))
    more = ", ..." if len(numbers) > COLUMNS_NAMED else ""
    return f"column{'s' * (len(numbers) > 1)} {some}{more}"


def _find_units(z: Tensor) -> Tensor:
    """1, or the largest number of a column near the ends of float64.

    Other units leave the information as it is.
    """
    largest = z.abs().amax(0)
    extreme = (largest > HUGE) | (largest < 1 / HUGE)
    return torch.where(extreme, largest, 1.0)


def _number_values(z: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The distinct rows and each row's number, if they repeat enough for categories."""
    if z.shape[1] == 0:
        return None, None
    # one column is cheap to look at and decides most cases
    if not _repeats_enough(len(z[:, 0].unique()), len(z)):
        return None, None
    distinct, number = torch.unique(z, dim=0, return_inverse=True)
    return (
        (distinct, number) if _repeats_enough(len(distinct), len(z)) else (None, None)
    )


def _repeats_enough(values: int, rows: int) -> bool:
    return values * (REPEATS if values <= FEW_VALUES else REPEATS_OF_MANY) <= rows
