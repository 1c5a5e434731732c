"""What every objective asks of its embeddings, and the unit rows it computes with."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import NotFiniteError, ShapeError
from ..partition import ZERO_LENGTH, fused_unit_rows, gather_rows

HALVES = (torch.float16, torch.bfloat16)


def unit_rows(x: Float[Tensor, "*v n d"]) -> Float[Tensor, "*v n d"]:
    """Rows of length one in at least float32; a zero row stays zero.

    >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    fused = fused_unit_rows(x, ZERO_LENGTH)
    if fused is not None:
        return fused
    x = at_least_float32(x)
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    # dividing by 1, not by a tiny number, keeps the gradient of a zero row moderate
    return x / length.masked_fill(length <= ZERO_LENGTH, 1.0)


def longest_row(unit: bool) -> float:
    """What is known of the rows' length, for ``log_partition``."""
    return 1.0 if unit else math.inf


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision is raised to float32; float32 and float64 are kept."""
    if x.dtype in (torch.float32, torch.float64):
        return x
    return x.to(torch.promote_types(x.dtype, torch.float32))


def ready_rows(x: Float[Tensor, "*v n d"], unit: bool) -> Float[Tensor, "*v n d"]:
    """Rows in at least float32 and, if asked, of unit length."""
    return unit_rows(x) if unit else at_least_float32(x)


def tile_precision(*rows: Tensor) -> str:
    """How precisely a fused kernel need multiply rows made from these.

    Their unit rows are float32, but rows that came in 16 bits carry no more than those:
    rounding them once more, to the 11 bits of a float16, costs little.
    """
    return "half" if all(x.dtype in HALVES for x in rows) else "auto"


def paired_rows(
    u: Tensor, v: Tensor, *, normalize: bool = True, gather: bool = False
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
    """Two views checked, raised to float32 and, unless asked not to, of unit length.

    With ``gather`` the rows of all processes, with the gradient of the whole batch.
    """
    u, v = take_pair(u, v, gather)
    return ready_rows(u, normalize), ready_rows(v, normalize)


def take_pair(u: Tensor, v: Tensor, gather: bool) -> tuple[Tensor, Tensor]:
    """Two views as they came, those of all processes if asked."""
    check_pair(u, v, least=1 if gather else 2)
    if gather:
        u, v = gather_rows(u), gather_rows(v)
        check_pair(u, v)
    return u, v


def check_pair(u: Tensor, v: Tensor, least: int = 2) -> None:
    """Raise unless u and v are two views of the same samples."""
    check_tensor(u, "u")
    check_tensor(v, "v")
    if u.ndim == v.ndim == 2 and u.shape != v.shape:
        raise ShapeError(
            f"u and v need one row per sample: got {tuple(u.shape)} and "
            f"{tuple(v.shape)}. If the last batch is short, load with drop_last=True."
        )
    check_rows(u, "u", least=least)
    check_rows(v, "v", least=least)
    if u.device != v.device:
        raise ShapeError(
            f"u and v must be on one device: got {u.device} and {v.device}."
        )


def full_precision(x: Tensor) -> torch.autocast:
    """No autocast: products of unit rows in half precision lose the ranking."""
    return torch.autocast(x.device.type, enabled=False)


def anchor_rows(
    u: Tensor, v: Tensor | None, ids: Tensor, *, normalize: bool = True
) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"] | None]:
    """Anchors and, if given, their positives, checked as ``paired_rows`` does."""
    check_ids(ids, len(u))
    if v is None:
        check_rows(u, "u", least=1)
        return ready_rows(u, normalize), None
    check_pair(u, v, least=1)
    return ready_rows(u, normalize), ready_rows(v, normalize)


def check_ids(ids: Tensor, n: int) -> None:
    """Raise unless there is one integer per sample."""
    if ids.shape != (n,) or ids.is_floating_point():
        raise ShapeError(
            f"ids need one integer per sample: expected ({n},), got {tuple(ids.shape)} "
            f"of {ids.dtype}."
        )


def take_views(z: Tensor, gather: bool = False) -> Tensor:
    """Several views of every sample as they came, those of all processes if asked."""
    check_views(z, least=1 if gather else 2)
    if gather:
        z = gather_rows(z.transpose(0, 1)).transpose(0, 1)
        check_views(z)
    return z


def check_views(z: Tensor, least: int = 2) -> None:
    """Raise unless z is several views of the same samples."""
    if z.ndim != 3 or z.shape[0] < 2:
        raise ShapeError(
            "z needs the shape (views, n, d) with at least two views: got "
            f"{tuple(z.shape)}. Stack them with torch.stack([u, v, ...])."
        )
    check_rows(z.detach().flatten(0, 1), "z", least=least * z.shape[0])


def check_tensor(x: Tensor, name: str) -> None:
    """Raise unless x is a tensor."""
    if not isinstance(x, Tensor):
        raise ShapeError(
            f"{name} must be a torch tensor, not {type(x).__name__}: convert with "
            "torch.as_tensor(...)."
        )


def check_rows(x: Tensor, name: str, *, least: int = 2) -> None:
    """Raise unless x is a finite floating-point matrix with enough rows.

    On an accelerator, and inside a compiled graph, looking for NaN would stall the
    queue; there a NaN comes out as a NaN loss instead.
    """
    check_tensor(x, name)
    if x.ndim != 2:
        raise ShapeError(
            f"{name} needs the shape (n, d), one row per sample: got {tuple(x.shape)}."
        )
    if not x.is_floating_point():
        raise ShapeError(
            f"{name} must be floating point, not {x.dtype}: pass embeddings, or "
            "convert with .float()."
        )
    if x.shape[0] < least or x.shape[1] < 1:
        raise ShapeError(
            f"{name} needs at least {least} rows of at least one number, since a "
            f"sample is contrasted with the others: got {tuple(x.shape)}. If the last "
            "batch is short, load with drop_last=True."
        )
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return
    # one NaN or infinity makes the sum one too; only then are its rows looked for
    bad = 0
    if not math.isfinite(float(x.detach().sum())):
        bad = int((~torch.isfinite(x.detach())).any(1).sum())
    if bad:
        raise NotFiniteError(
            f"{name} has NaN or infinite numbers in {bad} of {len(x)} rows. The "
            "network has diverged or its input is broken: lower the learning rate, "
            "clip the gradient, or check the data."
        )


def sample_ids(x: Float[Tensor, "n d"]) -> Int[Tensor, " n"]:
    """0, 1, 2, ...: equal ids mark rows of one sample, never each other's negatives."""
    return torch.arange(len(x), device=x.device)
