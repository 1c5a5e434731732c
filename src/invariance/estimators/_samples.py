"""Two variables as they come, checked and put in order, with notes on what was done."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, NotFiniteError, ShapeError

Rows = Tensor | np.ndarray | Sequence[float]
# a value that comes this often on average is a category; with many values, which could
# be counts or rounded numbers as well, it has to come more often
FEW_VALUES, REPEATS, REPEATS_OF_MANY = 32, 5, 50
COLUMNS_NAMED = 5
HUGE = 1e100  # squares and differences of numbers beyond overflow


@dataclass(frozen=True)
class Samples:
    """Paired rows in float64 on the CPU, without constant columns."""

    x: Tensor
    y: Tensor
    x_label: Tensor | None
    """The number of each row's value, where x has few values; else None."""
    y_label: Tensor | None
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.x)


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
            "rows. Leave out what has no partner."
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
    kept = []
    for z, name in ((a, "x"), (b, "y")):
        varies = (z != z[0]).any(0)
        if not varies.all():
            notes.append(f"constant {_name_columns(~varies)} of {name} left out")
        kept.append(_rescale_extremes(z[:, varies]))
    labels = [_number_values(z) for z in kept]
    return Samples(kept[0], kept[1], labels[0], labels[1], tuple(notes))


def _as_matrix(z: Rows, name: str) -> Tensor:
    try:
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


def _rescale_extremes(z: Tensor) -> Tensor:
    """Columns near the ends of float64 in other units: the information stays."""
    largest = z.abs().amax(0)
    extreme = (largest > HUGE) | (largest < 1 / HUGE)
    return torch.where(extreme, z / largest, z) if extreme.any() else z


def _number_values(z: Tensor) -> Tensor | None:
    """Numbers of the distinct rows, if they repeat often enough to be categories."""
    if z.shape[1] == 0:
        return None
    # one column is cheap to look at and decides most cases
    if not _repeats_enough(len(z[:, 0].unique()), len(z)):
        return None
    distinct, number = torch.unique(z, dim=0, return_inverse=True)
    return number if _repeats_enough(len(distinct), len(z)) else None


def _repeats_enough(values: int, rows: int) -> bool:
    return values * (REPEATS if values <= FEW_VALUES else REPEATS_OF_MANY) <= rows
