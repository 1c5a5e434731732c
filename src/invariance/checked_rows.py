"""What every diagnostic asks of its rows, checked in one place.

Rows come in as any floating type, with or without a gradient; they go on detached, in
at least float32 (float64 stays), and of unit length where a definition lives on the
sphere. A row of zeros has no direction: it stays zero, and its cosines count as 0.
"""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from .errors import DataError, SettingError, ShapeError
from .plain_numbers import plain_number
from .randomness import ARITHMETIC

SHORTEST = 1e-12  # a row that is shorter has no direction and stays as it is
CHUNK_ELEMENTS = 2**22  # cosines held at one time: 16 MiB in float32, on a GPU 256


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


def as_unit_rows(
    z: Tensor, name: str = "z", *, at_least: int = 1
) -> Float[Tensor, "n d"]:
    """The checked rows, each divided by its length."""
    return divide_by_length(as_rows(z, name, at_least=at_least))


def divide_by_length(x: Float[Tensor, "*v n d"]) -> Float[Tensor, "*v n d"]:
    """Rows of length one; a zero row stays zero.

    >>> divide_by_length(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    length = row_lengths(x)
    # dividing by 1, not by a tiny number, keeps the gradient of a zero row moderate
    return x / length.masked_fill(length <= SHORTEST, 1.0)


def row_lengths(x: Float[Tensor, "*v n d"]) -> Float[Tensor, "*v n 1"]:
    """The length of each row, also where its square is beyond what a float can hold.

    For those all rows are measured again at a smaller scale. On a CPU that happens only
    if there are any; elsewhere asking would cost more than measuring.

    >>> row_lengths(torch.tensor([[3e30, 4e30], [3.0, 4.0]]))
    tensor([[5.0000e+30],
            [5.0000e+00]])
    """
    lengths = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    if may_look(x) and not bool(lengths.detach().isinf().any()):
        return lengths
    shrink = 2.0 ** (-512 if x.dtype == torch.float64 else -64)  # exact, and enough
    again = torch.linalg.vector_norm(x * shrink, dim=-1, keepdim=True) / shrink
    return torch.where(lengths.isinf(), again, lengths)


def may_look(x: Tensor) -> bool:
    """Whether a value can be asked for: at no cost, and if there is one.

    An accelerator would have to finish all its work first; a graph that is compiled,
    and torch.func's transforms, have no values to ask for.
    """
    unknown = torch.compiler.is_compiling() or is_transforming()
    return x.device.type == "cpu" and not unknown


def is_transforming() -> bool:
    """Whether one of torch.func's transforms (grad, vmap, hessian) is at work."""
    compiling = torch.compiler.is_compiling()
    return not compiling and torch._C._functorch.maybe_current_level() is not None


def as_pair(
    u: Tensor, v: Tensor, *, at_least: int = 1, unit: bool = False
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
    """Two views of the same samples: row i of ``u`` belongs to row i of ``v``."""
    check = as_unit_rows if unit else as_rows
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
        raise SettingError(f"{name} must be above 0 and finite: got {value!r}.")
    return float(number)


def exact_product(
    x: Float[Tensor, "n d"], y: Float[Tensor, "m d"]
) -> Float[Tensor, "n m"]:
    """X y' in float32 proper: tf32 would mix up the ranks of near rows."""
    with ARITHMETIC:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            return x @ y.T
        finally:
            torch.set_float32_matmul_precision(before)


def score_chunks(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "m e"],
    score: Callable[[Tensor, Tensor], Tensor] = exact_product,
) -> Iterator[tuple[slice, Float[Tensor, "c m"]]]:
    """Scores of ``x`` with all of ``y``, a few rows of ``x`` at a time.

    They are inner products, unless another function of rows is given.
    """
    elements = CHUNK_ELEMENTS * (16 if x.device.type == "cuda" else 1)
    step = max(1, elements // len(y))
    for start in range(0, len(x), step):
        rows = slice(start, min(start + step, len(x)))
        with torch.autocast(x.device.type, enabled=False):  # cosines stay in float32
            scores = score(x[rows], y)
        yield rows, scores
