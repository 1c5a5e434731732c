"""Which backend computes a log-partition, and why: ``explain`` says it in words.

On a CPU the tiles of ``_blockwise``; on a CUDA device the fused kernels, except where
a small matrix is cheaper kept whole (a loss of two views, which ``_pair_loss`` takes
from raw rows to a number, is fused at any size). The crossovers were measured once
(H200) and are shipped as a table: a choice at run time would cost time and could
differ.
"""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from ..errors import SettingError, choose

BACKENDS = {
    "dense": "the whole score matrix at once: the readable reference",
    "blockwise": "tile by tile, recomputed in the backward pass: linear memory",
    "triton": "fused CUDA kernels in 16-bit tiles with float32 sums: linear memory",
}
PRECISIONS = {
    "auto": "half for 16-bit rows, under autocast, or where PyTorch may use tf32 for "
    "float32 products; else exact",
    "half": "fused kernels round rows to 11 significant bits, once",
    "exact": "fused kernels keep 22 significant bits: float32's accuracy",
}
HALVES = (torch.float16, torch.bfloat16)

# Pairs (n x m) from which the fused kernels win over a kept matrix, by the width of a
# row: the first width that is wide enough counts.
FUSED_FROM = {128: 2**22, 256: 2**22, 2**31: 2**23}


@dataclass(frozen=True)
class Plan:
    """A backend, how precisely its tiles are multiplied, and the reason."""

    backend: str
    precision: str
    reason: str

    def __str__(self) -> str:
        return f"{self.backend} ({self.precision}): {self.reason}"


def explain(
    n: int,
    m: int,
    d: int,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    precision: str = "auto",
) -> Plan:
    """What ``backend="auto"`` does with n rows and m columns of width d, and why.

    >>> print(explain(512, 512, 128))
    blockwise (exact): fused kernels need a CUDA device, and rows are on cpu
    """
    obstacle = why_not_fused(torch.device(device), dtype)
    if obstacle:
        return Plan("blockwise", "exact", obstacle)
    precision = resolve(precision, dtype, torch.device(device))
    least = next(pairs for width, pairs in FUSED_FROM.items() if d <= width)
    if n * m < least:
        reason = f"{n} x {m} scores are few: fused kernels win from {least:,} on"
        return Plan("blockwise", "exact", reason)
    return Plan("triton", precision, f"{n} x {m} scores, from {least:,} on")


def resolve(precision: str, dtype: torch.dtype, device: torch.device) -> str:
    """What precision "auto" stands for."""
    choose(PRECISIONS, precision, "precision")
    if precision != "auto":
        return precision
    if dtype in HALVES or torch.is_autocast_enabled(device.type):
        return "half"
    return "exact" if _float32_is_float32() else "half"


def _constant(function: Callable[[], bool]) -> Callable[[], bool]:
    """``torch.compiler.assume_constant_result``, without importing the compiler."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@_constant
def _float32_is_float32() -> bool:
    """Whether PyTorch keeps float32 products; tf32 has the 11 bits of "half"."""
    return torch.get_float32_matmul_precision() == "highest"


@_constant
def _has_triton() -> bool:
    return _found("triton")


@_constant
def _interpreting() -> bool:
    return _environment("TRITON_INTERPRET") == "1"


@_constant
def _device_is_able() -> bool:
    return _capability() >= (8,)


# each looked up once: they are asked at every call, and by the compiler's tracing


@cache
def _found(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@cache
def _environment(name: str) -> str | None:
    return os.environ.get(name)


@cache
def _capability() -> tuple[int, ...]:
    return torch.cuda.get_device_capability() if torch.version.cuda else ()


def why_not_fused(device: torch.device, dtype: torch.dtype) -> str:
    """Why the fused kernels cannot run, or nothing if they can."""
    if dtype == torch.float64:
        return "fused kernels compute in float32, and rows are float64"
    if device.type != "cuda" and not (device.type == "cpu" and _interpreting()):
        return f"fused kernels need a CUDA device, and rows are on {device.type}"
    if not _has_triton():
        return "fused kernels need Triton, which is not installed"
    if device.type == "cuda" and not _device_is_able():
        return "fused kernels need an NVIDIA device of compute capability 8.0 or more"
    return ""


def check_fused(device: torch.device, dtype: torch.dtype) -> None:
    """Raise if the fused kernels were asked for and cannot run."""
    obstacle = why_not_fused(device, dtype)
    if obstacle:
        raise SettingError(
            f"backend='triton' cannot be used here: {obstacle}. Leave backend='auto'."
        )
