"""Every choice of how a computation runs, and ``explain``, which says them in words.

On a CPU pairs are visited tile by tile; on a CUDA device by the fused kernels, except
where a small matrix is cheaper kept whole. A loss of two views, which the kernels take
from raw rows to its gradient, is fused at any size. The crossovers were measured once
(H200) and are shipped as a table: a choice at run time would cost time and could
differ.
"""

import importlib.util
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..checked_rows import is_transforming
from ..errors import SettingError, choose, unknown
from ._processes import Share, let_fit

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
TRANSFORMING = "torch.func's transforms take what PyTorch itself computes"

# Pairs (n x m) from which the fused kernels win over a kept matrix, by the width of a
# row: the first width that is wide enough counts.
FUSED_FROM = {128: 2**22, 256: 2**22, 2**31: 2**23}

# A loss of two views. Unit rows and a scale up to this: every sum of terms is an
# ordinary float32 number, and so is a weight divided by it.
SAFE_SCALE = 42.0
WIDEST_LOSS, WIDEST_UNIT_ROWS = 4096, 16384
MOST_SCALES = {"all": 2, "others": 2, "cross": 1, "within": 1}
# Kinds whose formula has the scale in it besides the logits: it must be a number.
FIXED_SCALE = ("debiased", "kernel")

# A tile of the score matrix is the only thing whose size is not linear in the batch,
# so its size is what a memory budget buys: on a CPU a few megabytes, to stay in the
# cache, on an accelerator enough to keep it busy.
CPU_TILE_BYTES = 2**21
DEVICE_TILE_BYTES = 256 * 2**20
CPU_KEPT_BYTES = 4 * 2**20
DEVICE_KEPT_BYTES = 64 * 2**20
LIVE_TILES = 3  # scores, exponentials and a mask or temporary exist at one time
ALIGN = 16  # matrix products like sides that are multiples of a vector register

# On a CPU threads share the tiles from so many pairs on. Then a side is cut into SPANS
# or more, if that leaves tiles of SHARED_TILE pairs and NARROWEST rows, and whether
# there are threads or not: results do not depend on their number. Beyond MOST_THREADS
# they would wait for Python's lock, which each needs for a few percent of its time.
SHARED_FROM = 2**20
SPANS = 8
SHARED_TILE = 2**16
NARROWEST = 32
MOST_THREADS = 16


class Plan(NamedTuple):
    """A backend, how precisely its tiles are multiplied, and the reason."""

    operation: str
    backend: str
    precision: str
    reason: str
    shape: tuple[int, ...] = ()
    """Rows, columns and width of a score matrix, or the shape of rows."""
    keeps_scores: bool = False
    """Whether the matrix stays in memory for the backward pass."""
    share: Share | None = None
    """Which rows of all processes these are, where each computes its own."""

    def __str__(self) -> str:
        size = " x ".join(str(side) for side in self.shape)
        kept = ", scores kept" if self.keeps_scores else ""
        how = f"{self.backend} ({self.precision}{kept})"
        text = f"{self.operation} of {size}: {how}: {self.reason}"
        return text if self.share is None else f"{text}; {self.share}"


# ---------------------------------------------------------------- explaining


class _Rehearsal(threading.local):
    plans: list[Plan] | None = None


_rehearsal = _Rehearsal()


def explain(call: Callable[..., Any], *args: Any, **settings: Any) -> tuple[Plan, ...]:
    """What a call would run, in order, and why.

    The call is rehearsed: it decides as usual, on the tensors it is given, but sums
    over no pairs (results are zeros). Any function that uses ``log_partition`` and
    the like will do, an objective or your own.

    >>> u, v = torch.randn(2, 512, 128)
    >>> import invariance as inv
    >>> for plan in explain(inv.dcl, u, v, temperature=0.1):
    ...     print(plan)
    log_partition of 1024 x 1024 x 128: blockwise (exact, scores kept): fused kernels \
need a CUDA device, and rows are on cpu
    """
    if isinstance(call, type) or not callable(call):
        raise SettingError(
            "explain calls a function, or an objective with its settings, as in "
            f"explain(inv.dcl, u, v) or explain(inv.DCL(), u, v): got {call!r}."
        )
    before, _rehearsal.plans = _rehearsal.plans, []
    try:
        with torch.no_grad():
            call(*args, **settings)
        return tuple(_rehearsal.plans)
    finally:
        _rehearsal.plans = before


def is_rehearsing() -> bool:
    """Whether an operation is to be noted and not computed."""
    return not torch.compiler.is_compiling() and _rehearsal.plans is not None


def note(plan: Plan) -> None:
    """Tell ``explain``, if it is asking, what is about to run."""
    if is_rehearsing():
        assert _rehearsal.plans is not None
        _rehearsal.plans.append(plan)


# ---------------------------------------------------------------- backends


def plan_pairs(
    operation: str,
    x: Tensor,
    y: Tensor,
    *,
    backend: str,
    precision: str,
    steep: bool = False,
    share: Share | None = None,
) -> Plan:
    """How a sum over the pairs of x and y runs: as asked, or as suits the rows.

    ``steep`` functions have slopes beyond a 16-bit weight's range. Over processes own
    rows meet the columns of all.
    """
    dtype, device = x.dtype, x.device
    if dtype != y.dtype:
        dtype = torch.promote_types(dtype, y.dtype)
    (n, d), m = x.shape, y.shape[0] if share is None else share.total
    _check_precision(precision)  # also where no kernel will use it
    if backend == "auto":
        backend, reason = _choose_backend(n, m, d, dtype, device, steep)
    else:
        _check_backend(backend, dtype, device)
        reason = TRANSFORMING if is_transforming() else "asked for"
        backend = "blockwise" if steep and backend == "triton" else backend
    share = None if share is None else let_fit(share, x)
    fused = backend == "triton"
    precision = resolve_precision(precision, dtype, device) if fused else "exact"
    return Plan(operation, backend, precision, reason, (n, m, d), share=share)


def _choose_backend(
    n: int, m: int, d: int, dtype: torch.dtype, device: torch.device, steep: bool
) -> tuple[str, str]:
    """What "auto" stands for, and why."""
    if is_transforming():
        return "dense", TRANSFORMING
    if not n or not m:
        return "blockwise", "there are no pairs"
    if steep:
        return "blockwise", "the function is too steep for weights in 16 bits"
    if obstacle := why_not_fused(device, dtype):
        return "blockwise", obstacle
    least = next(pairs for width, pairs in FUSED_FROM.items() if d <= width)
    if n * m < least:
        few = f"{n} x {m} scores are few: fused kernels win from {least:,} on"
        return "blockwise", few
    return "triton", f"{n} x {m} scores, from {least:,} on"


def _check_backend(backend: str, dtype: torch.dtype, device: torch.device) -> None:
    """Raise unless it can do what it is asked for."""
    choose(BACKENDS, backend, "backend")
    obstacle = ""
    if is_transforming() and backend != "dense":
        obstacle = TRANSFORMING
    elif backend == "triton":
        obstacle = why_not_fused(device, dtype)
    if obstacle:
        raise SettingError(
            f"backend={backend!r} cannot be used here: {obstacle}. Leave "
            "backend='auto'."
        )


def suits_fused_loss(
    u: Tensor,
    v: Tensor,
    *,
    kind: str = "spread",
    scale: float | int | Tensor,
    negatives: str,
    powers: Sequence[float | int] = (1.0,),
    largest_scale: float | int | None = None,
) -> bool:
    """Whether ``fused_loss`` takes two views from raw rows to their gradient."""
    if is_transforming() or why_not_fused(u.device, u.dtype):
        return False
    if isinstance(scale, Tensor):
        largest = None if kind in FIXED_SCALE else largest_scale
    else:
        largest = scale
    if largest is None:  # to ask a tensor for its number is a wait for the device
        return False
    reach = abs(largest) * max([1.0, *[abs(power) for power in powers]])
    return (
        0 < reach <= SAFE_SCALE
        and len(powers) <= MOST_SCALES[negatives]
        and u.dtype == v.dtype
        and u.shape[1] <= WIDEST_LOSS
        and _is_plain(u)
        and _is_plain(v)
    )


def _is_plain(x: Tensor) -> bool:
    """Whether rows have memory of their own; a subclass may be spread over devices."""
    return torch.compiler.is_compiling() or type(x) in (Tensor, torch.nn.Parameter)


def suits_fused_unit_rows(x: Tensor) -> bool:
    """Whether 16-bit rows are divided by their length in one kernel."""
    if x.dtype not in HALVES or not x.is_cuda or x.shape[-1] > WIDEST_UNIT_ROWS:
        return False
    return not (is_transforming() or why_not_fused(x.device, x.dtype))


def resolve_precision(precision: str, dtype: torch.dtype, device: torch.device) -> str:
    """What precision "auto" stands for."""
    _check_precision(precision)
    if precision != "auto":
        return precision
    if dtype in HALVES or torch.is_autocast_enabled(device.type):
        return "half"
    return "exact" if _float32_is_float32() else "half"


def _check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise SettingError(unknown("precision", precision, PRECISIONS))


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
    return _is_installed("triton")


@_constant
def _interpreting() -> bool:
    return _environment("TRITON_INTERPRET") == "1"


@_constant
def _device_is_able() -> bool:
    return _capability() >= (8,)


# each looked up once: they are asked at every call, and by the compiler's tracing


@cache
def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@cache
def _environment(name: str) -> str | None:
    return os.environ.get(name)


@cache
def _capability() -> tuple[int, ...]:
    return torch.cuda.get_device_capability() if torch.version.cuda else ()


# ---------------------------------------------------------------- tiles


def keeps_scores(x: Tensor, y: Tensor, scales: Tensor | None) -> bool:
    """Whether scores are kept for the backward pass: few, at one known scale."""
    if scales is not None:
        return False
    most = CPU_KEPT_BYTES if x.device.type == "cpu" else DEVICE_KEPT_BYTES
    return x.shape[0] * y.shape[0] * x.element_size() <= most


def tile_sides(n: int, m: int, itemsize: int, device: torch.device) -> tuple[int, int]:
    """Rows and columns of a tile, such that all live tiles fit the byte budget.

    >>> tile_sides(100_000, 100_000, 4, torch.device("cpu"))
    (416, 416)
    >>> tile_sides(256, 1_281_167, 4, torch.device("cpu"))
    (32, 5456)
    """
    on_cpu = device.type == "cpu"
    budget = CPU_TILE_BYTES if on_cpu else DEVICE_TILE_BYTES
    elements = max(budget // (itemsize * LIVE_TILES), 1)
    most_rows, most_columns = n, m
    if on_cpu and n * m >= SHARED_FROM:
        part = max(1 / SPANS, math.sqrt(SHARED_TILE / (n * m)))
        most_rows, most_columns = (
            max(math.ceil(part * length), NARROWEST) for length in (n, m)
        )
    rows = _even_side(n, min(math.isqrt(elements), most_rows))
    columns = _even_side(m, min(elements // rows, most_columns))
    return _even_side(n, min(elements // columns, most_rows)), columns


def count_threads(x: Tensor, y: Tensor, width: int) -> int:
    """How many threads share the tiles, of which ``width`` can be visited at once."""
    if x.device.type != "cpu" or not _is_plain(x):
        return 1
    if x.shape[0] * y.shape[0] < SHARED_FROM:
        return 1
    return max(min(torch.get_num_threads(), width, MOST_THREADS), 1)


def _even_side(length: int, most: int) -> int:
    """Split ``length`` into equal parts of at most about ``most``; a part's length."""
    if length <= most:
        return max(length, 1)
    most = max(most // ALIGN * ALIGN, min(most, ALIGN), 1)
    part = math.ceil(length / math.ceil(length / most))
    return min(math.ceil(part / ALIGN) * ALIGN, most)


def cut(length: int, side: int) -> Iterator[slice]:
    """Cut ``range(length)`` into slices of ``side``, the last one shorter."""
    for start in range(0, length, side):
        yield slice(start, min(start + side, length))
