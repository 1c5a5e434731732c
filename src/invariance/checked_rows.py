"""What every diagnostic asks of its rows, checked in one place.

Rows come in as any floating type, with or without a gradient; they go on detached, in
at least float32 (float64 stays), and of unit length where a definition lives on the
sphere. A row of zeros has no direction: it stays zero, and its cosines count as 0.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Integer
from torch import Tensor
from torch.nn.functional import normalize

from .errors import DataError, SettingError, ShapeError
from .plain_numbers import plain_number

CHUNK_ELEMENTS = 2**22  # cosines held at one time: 16 MiB in float32


def as_rows(z: Tensor, name: str = "z", *, at_least: int = 1) -> Float[Tensor, "n d"]:
    """``z`` detached and in at least float32, or an error that says what is wrong."""
    if not isinstance(z, Tensor):
        raise DataError(
            f"{name} must be a torch tensor: got {type(z).__name__}. "
            "Convert it with torch.as_tensor."
        )
    if z.ndim != 2 or z.shape[1] == 0:
        raise ShapeError(
            f"{name} needs one row per sample, (n, d): got {tuple(z.shape)}. "
            "Flatten what belongs to one sample into one row."
        )
    if not z.is_floating_point():
        raise DataError(
            f"{name} must hold floating-point embeddings: got {z.dtype}. "
            f"If the values are meant as they are, pass {name}.float()."
        )
    if len(z) < at_least:
        raise ShapeError(
            f"{name} needs at least {at_least} row{'s' * (at_least > 1)}: "
            f"got {tuple(z.shape)}. "
            "Pass more samples at once."
        )
    broken = ~torch.isfinite(z).all(1)
    if broken.any():
        raise DataError(
            f"{name} has NaN or infinity in {int(broken.sum())} of {len(z)} rows "
            f"(first: row {int(broken.nonzero()[0])}). The encoder has diverged, or "
            "its precision overflowed: look there, or leave these rows out."
        )
    return z.detach().to(torch.promote_types(z.dtype, torch.float32))


def unit_rows(z: Tensor, name: str = "z", *, at_least: int = 1) -> Float[Tensor, "n d"]:
    """The checked rows, each divided by its length."""
    return normalize(as_rows(z, name, at_least=at_least), dim=1)


def as_pair(
    u: Tensor, v: Tensor, *, at_least: int = 1, unit: bool = False
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
    """Two views of the same samples: row i of ``u`` belongs to row i of ``v``."""
    check = unit_rows if unit else as_rows
    a, b = check(u, "u", at_least=at_least), check(v, "v", at_least=at_least)
    if a.shape != b.shape:
        raise ShapeError(
            "u and v need one row per sample and the same width: "
            f"got {tuple(u.shape)} and {tuple(v.shape)}."
        )
    dtype = torch.promote_types(a.dtype, b.dtype)
    return a.to(dtype), b.to(a.device, dtype)


def unit_pair(
    u: Tensor, v: Tensor, *, at_least: int = 1
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
    """Two views of the same samples, each row divided by its length."""
    return as_pair(u, v, at_least=at_least, unit=True)


def as_labels(labels: Tensor, n: int, name: str = "labels") -> Integer[Tensor, " n"]:
    """One integer per row, or an error that says what is wrong."""
    if not isinstance(labels, Tensor):
        raise DataError(
            f"{name} must be a torch tensor: got {type(labels).__name__}. "
            "Convert it with torch.as_tensor."
        )
    if labels.shape != (n,):
        raise ShapeError(
            f"{name} needs one label per row, ({n},): got {tuple(labels.shape)}."
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise DataError(
            f"{name} must be integers: got {labels.dtype}. Pass {name}.long()."
        )
    return labels.detach().long()


def above_zero(value: float | int, name: str) -> float:
    """``value`` as a float, or an error if it is not a positive finite number."""
    number = plain_number(value)
    if not isinstance(number, int | float) or not 0 < number < float("inf"):
        raise SettingError(f"{name} must be a finite number above 0: got {value!r}.")
    return float(number)


def score_chunks(
    x: Float[Tensor, "n d"], y: Float[Tensor, "m d"]
) -> Iterator[tuple[slice, Float[Tensor, "c m"]]]:
    """The inner products of ``x`` with all of ``y``, a few rows of ``x`` at a time."""
    step = max(1, CHUNK_ELEMENTS // len(y))
    for start in range(0, len(x), step):
        rows = slice(start, min(start + step, len(x)))
        with torch.autocast(x.device.type, enabled=False):  # cosines stay in float32
            scores = x[rows] @ y.T
        yield rows, scores
