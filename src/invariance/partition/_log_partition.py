r"""The one primitive: the log-partition of each row over its allowed columns.

$$P_i = \log\sum_{j\text{ allowed for }i} e^{a\,x_i\cdot y_j}$$

A pair is allowed when its ids differ and its score lies in the row's band. A row with
nothing left has P = -inf and gradient zero. Differentiable in x, y and the scale.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError, ShapeError, choose
from . import _dense, _fused, _operators
from ._elementwise import FUNCTIONS
from ._plan import BACKENDS, Plan, check_fused, explain, resolve
from ._tiles import Pairs

Number = float | int | Tensor
Band = float | int | Float[Tensor, " n"] | None


def log_partition(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "m d"],
    *,
    scale: Number,
    row_ids: Int[Tensor, " n"] | None = None,
    column_ids: Int[Tensor, " m"] | None = None,
    low: Band = None,
    high: Band = None,
    backend: str = "auto",
    precision: str = "auto",
    longest: float | int = math.inf,
) -> Float[Tensor, " n"]:
    """Log of each row's sum of exp(scale * score) over the columns allowed to it.

    Args:
        x: Anchors. Half precision is raised to float32, float64 is kept.
        y: Candidates. Passing the same tensor as ``x`` halves the work.
        scale: Inverse temperature, a number or a 0-d tensor to be learned.
        row_ids: With ``column_ids``: pairs of equal ids are left out.
        column_ids: See ``row_ids``.
        low: Scores ``x_i . y_j`` (before scaling) below this are left out; a number
            or one a row.
        high: Scores above this are left out.
        backend: "auto", or one of ``invariance.partition.BACKENDS``;
            ``invariance.partition.explain`` says what "auto" does.
        precision: Of the fused GPU kernels, one of ``invariance.partition.PRECISIONS``;
            other backends compute in at least float32 whatever it says.
        longest: What no row of x or y exceeds in length, if that is known: 1 for unit
            rows. It spares looking whether an exponential could overflow.

    >>> x = torch.eye(3)
    >>> ids = torch.arange(3)
    >>> log_partition(x, x, scale=1.0, row_ids=ids, column_ids=ids)  # log 2
    tensor([0.6931, 0.6931, 0.6931])
    """
    return log_partitions(
        x,
        y,
        scales=[scale],
        row_ids=row_ids,
        column_ids=column_ids,
        low=low,
        high=high,
        backend=backend,
        precision=precision,
        longest=longest,
    ).squeeze(0)


def log_partitions(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "m d"],
    *,
    scales: Sequence[Number] | Float[Tensor, " k"],
    row_ids: Int[Tensor, " n"] | None = None,
    column_ids: Int[Tensor, " m"] | None = None,
    low: Band = None,
    high: Band = None,
    backend: str = "auto",
    precision: str = "auto",
    longest: float | int = math.inf,
) -> Float[Tensor, "k n"]:
    """``log_partition`` at several scales from one pass over the scores."""
    symmetric = x is y and row_ids is column_ids and low is None and high is None
    pairs = _pairs(x, y, row_ids, column_ids, low, high, symmetric, longest)
    plan = _plan(backend, precision, x, y)
    if plan.backend == "dense":
        return _dense.log_partitions(pairs, _scales(scales, pairs.x))
    rows, _ = _stream(pairs, scales, plan, columns=False)
    return rows


def two_sided_log_partition(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "m d"],
    *,
    scale: Number,
    row_ids: Int[Tensor, " n"] | None = None,
    column_ids: Int[Tensor, " m"] | None = None,
    backend: str = "auto",
    precision: str = "auto",
    longest: float | int = math.inf,
) -> tuple[Float[Tensor, " n"], Float[Tensor, " m"]]:
    """Log-partitions of the rows and of the columns of one score matrix.

    Both directions of a symmetric InfoNCE or CLIP loss for one set of products.
    """
    pairs = _pairs(x, y, row_ids, column_ids, None, None, False, longest)
    plan = _plan(backend, precision, x, y)
    if plan.backend == "dense":
        factors = _scales([scale], pairs.x)
        turned = Pairs(pairs.y, pairs.x, pairs.column_ids, pairs.row_ids)
        both = (_dense.log_partitions(p, factors)[0] for p in (pairs, turned))
        return next(both), next(both)
    rows, columns = _stream(pairs, [scale], plan, columns=True)
    assert columns is not None
    return rows.squeeze(0), columns.squeeze(0)


def row_sums(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, "m d"],
    function: str,
    parameter: float | int = 0.0,
    *,
    offset: float | int = 0.0,
    row_ids: Int[Tensor, " n"] | None = None,
    column_ids: Int[Tensor, " m"] | None = None,
    backend: str = "auto",
    precision: str = "auto",
) -> Float[Tensor, " n"]:
    """Each row's sum of an elementwise function of its scores, tile by tile.

    Args:
        x: Anchors.
        y: Candidates.
        function: "softplus", or a kernel "log", "imq", "riesz" of scores -D^2/2.
        parameter: The kernel's t, c or s.
        offset: Taken off every score first.
        row_ids: With ``column_ids``: pairs of equal ids are left out.
        column_ids: See ``row_ids``.
        backend: "auto", "blockwise" or "triton".
        precision: Of the fused GPU kernels, as for ``log_partition``.
    """
    choose(FUNCTIONS, function, "function")
    parameter, offset = float(parameter), float(offset)
    symmetric = x is y and row_ids is column_ids
    pairs = _pairs(x, y, row_ids, column_ids, None, None, symmetric)
    tensors = (pairs.x, pairs.y, pairs.row_ids, pairs.column_ids)
    plan = _plan(backend, precision, x, y)
    # near D = 0 these are steeper than a 16-bit weight can be
    steep = function == "riesz" and parameter > -1
    if plan.backend == "triton" and not steep:
        modes = (symmetric, plan.precision == "exact", function, parameter, offset)
        return _fused.fused_row_sums(*tensors, *modes)[0]
    return _operators.row_sums(*tensors, symmetric, function, parameter, offset)


def _stream(
    pairs: Pairs, scales: Sequence[Number] | Tensor, plan: Plan, columns: bool
) -> tuple[Tensor, Tensor | None]:
    """Call the operation that computes the rows' sums and, if asked, the columns'."""
    x, y, symmetric = pairs.x, pairs.y, pairs.symmetric
    masks = (pairs.row_ids, pairs.column_ids, pairs.low, pairs.high)
    if plan.backend == "triton":
        modes = (symmetric, columns, plan.precision == "exact")
        return _fused.fused_log_partitions(x, y, *masks, _scales(scales, x), *modes)
    scale, factors = _known(scales, pairs), None
    if scale is None:
        scale, factors = 1.0, _scales(scales, x)
    how = (factors, scale, pairs.longest, symmetric, columns)
    return _operators.log_partitions(x, y, *masks, *how)


def _known(scales: Sequence[Number] | Tensor, pairs: Pairs) -> float | None:
    """The one scale, if it can go into rows and products instead of every score.

    Bands speak of unscaled scores, and half of a negative scale has no place in x and
    half in y: those stay outside, as a learned scale does.
    """
    if len(scales) != 1 or not isinstance(scales[0], int | float):
        return None
    if pairs.low is not None or pairs.high is not None:
        return None
    scale = float(scales[0])
    return scale if scale > 0 or not pairs.symmetric else None


def _plan(backend: str, precision: str, x: Tensor, y: Tensor) -> Plan:
    """The backend asked for, or the one that suits the rows."""
    (n, d), m = x.shape, y.shape[0]
    dtype = x.dtype
    if dtype != y.dtype:
        dtype = torch.promote_types(dtype, y.dtype)
    if backend == "auto" and n and m:
        return explain(n, m, d, device=x.device, dtype=dtype, precision=precision)
    if backend == "auto":
        return Plan("blockwise", "exact", "there are no pairs")
    choose(BACKENDS, backend, "backend")
    if backend == "triton":
        check_fused(x.device, dtype)
    return Plan(backend, resolve(precision, dtype, x.device), "asked for")


def _scales(scales: Sequence[Number] | Tensor, like: Tensor) -> Tensor:
    """One tensor of the computation's dtype and device, differentiable if asked."""
    if isinstance(scales, Tensor):
        return scales.to(like)
    # full, not tensor: no copy from the host, so a CUDA graph can hold it
    parts = [
        s.to(like).reshape(1) if isinstance(s, Tensor) else like.new_full((1,), s)
        for s in scales
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _pairs(
    x: Tensor,
    y: Tensor,
    row_ids: Tensor | None,
    column_ids: Tensor | None,
    low: Band,
    high: Band,
    symmetric: bool,
    longest: float | int = math.inf,
) -> Pairs:
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ShapeError(
            "A log-partition takes rows x (n, d) and columns y (m, d) of one width: "
            f"got {tuple(x.shape)} and {tuple(y.shape)}."
        )
    if not (x.is_floating_point() and y.is_floating_point()):
        raise ShapeError(
            f"Rows must be floating point: got {x.dtype} and {y.dtype}. "
            "Convert with .float()."
        )
    if x.device != y.device:
        raise ShapeError(
            f"Rows and columns must be on one device: got {x.device} and {y.device}."
        )
    if (row_ids is None) != (column_ids is None):
        raise SettingError(
            "Pairs are left out by equal ids: give both row_ids and column_ids, or "
            "neither."
        )
    _check_length("row_ids", row_ids, "row", x)
    _check_length("column_ids", column_ids, "column", y)
    dtype = x.dtype
    if dtype != y.dtype or dtype not in (torch.float32, torch.float64):
        both = torch.promote_types(dtype, y.dtype)
        dtype = torch.promote_types(both, torch.float32)
        x, y = x.to(dtype), y if symmetric else y.to(dtype)
    rows = x.contiguous()
    columns = rows if symmetric else y.contiguous()
    low = None if low is None else _band("low", low, rows)
    high = None if high is None else _band("high", high, rows)
    return Pairs(
        rows, columns, row_ids, column_ids, low, high, symmetric, longest=float(longest)
    )


def _band(name: str, bound: Number, rows: Tensor) -> Tensor:
    if not isinstance(bound, Tensor):
        return rows.new_full((len(rows),), float(bound))
    bound = bound.detach().to(rows)
    if bound.ndim == 0:
        bound = bound.expand(len(rows))
    _check_length(name, bound, "row", rows)
    return bound.contiguous()


def _check_length(name: str, vector: Tensor | None, side: str, matrix: Tensor) -> None:
    if vector is not None and vector.shape != matrix.shape[:1]:
        raise ShapeError(
            f"{name} needs one entry a {side}: expected ({len(matrix)},), "
            f"got {tuple(vector.shape)}."
        )
