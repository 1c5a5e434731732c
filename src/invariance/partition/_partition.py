r"""The one primitive: the log-partition of each row over its allowed columns.

$$P_i = \log\sum_{j\text{ allowed for }i} e^{a\,x_i\cdot y_j}$$

A pair is allowed when its ids differ and its score lies in the row's band. A row with
nothing left has P = -inf and gradient zero. Differentiable in x, y and the scale.

Beside it stand what objectives need that is no log-partition: sums of another function
of the scores, and, where the fused kernels can take a batch whole, a loss of two views
from raw rows to its gradient.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError, ShapeError, choose
from ..plain_numbers import plain_number
from . import _dense, _operations
from ._dense import FUNCTIONS
from ._plan import (
    Plan,
    is_rehearsing,
    keeps_scores,
    note,
    plan_pairs,
    resolve_precision,
    suits_fused_loss,
    suits_fused_unit_rows,
)
from ._processes import Share, gather_rows
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
    share: Share | None = None,
) -> Float[Tensor, " a"]:
    """Log of each row's sum of exp(scale * score) over the columns allowed to it.

    Args:
        x: Anchors. Half precision is raised to float32, float64 is kept.
        y: Candidates. Passing the same tensor as ``x`` halves the work.
        scale: Inverse temperature, a number or a 0-d tensor to be learned.
        row_ids: With ``column_ids``: pairs of equal ids are left out.
        column_ids: See ``row_ids``.
        low: Scores ``x_i . y_j`` (before scaling) below this are left out; a number
            or one per row.
        high: Scores above this are left out.
        backend: "auto", or one of ``invariance.partition.BACKENDS``;
            ``invariance.partition.explain`` says what "auto" does.
        precision: Of the fused GPU kernels, one of ``invariance.partition.PRECISIONS``;
            other backends compute in at least float32 whatever it says.
        longest: What no row of x or y exceeds in length, if that is known: 1 for unit
            rows. It saves checking whether an exponential could overflow.
        share: Where x and y are this process's rows of two matrices that are shared out
            alike (``share_rows``): then the log-partitions of all rows over all columns
            come out, on every process, each having computed its own rows.

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
        share=share,
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
    share: Share | None = None,
) -> Float[Tensor, "k a"]:
    """``log_partition`` at several scales from one pass over the scores."""
    symmetric = x is y and row_ids is column_ids and low is None and high is None
    pairs = _make_pairs(x, y, row_ids, column_ids, low, high, symmetric, longest)
    plan = plan_pairs(
        "log_partition", x, y, backend=backend, precision=precision, share=share
    )
    if plan.backend == "dense":
        note(plan)
        pairs = _gather_pairs(pairs, share)
        return _dense.log_partitions(pairs, _stack_scales(scales, pairs.x))
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
    share: Share | None = None,
) -> tuple[Float[Tensor, " a"], Float[Tensor, " b"]]:
    """Log-partitions of the rows and of the columns of one score matrix.

    Both directions of a symmetric InfoNCE or CLIP loss for one set of products.
    """
    pairs = _make_pairs(x, y, row_ids, column_ids, None, None, False, longest)
    name = "two_sided_log_partition"
    plan = plan_pairs(name, x, y, backend=backend, precision=precision, share=share)
    if plan.backend == "dense":
        note(plan)
        pairs = _gather_pairs(pairs, share)
        factors = _stack_scales([scale], pairs.x)
        transposed = Pairs(pairs.y, pairs.x, pairs.column_ids, pairs.row_ids)
        both = (_dense.log_partitions(p, factors)[0] for p in (pairs, transposed))
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
    share: Share | None = None,
) -> Float[Tensor, " a"]:
    """Each row's sum of an elementwise function of its scores, tile by tile.

    Args:
        x: Anchors.
        y: Candidates.
        function: "softplus", or a kernel "log", "imq", "riesz" of scores -D^2/2.
        parameter: The kernel's t, c or s.
        offset: Taken off every score first.
        row_ids: With ``column_ids``: pairs of equal ids are left out.
        column_ids: See ``row_ids``.
        backend: As for ``log_partition``.
        precision: Of the fused GPU kernels, as for ``log_partition``.
        share: As for ``log_partition``.
    """
    choose(FUNCTIONS, function, "function")
    parameter, offset = float(parameter), float(offset)
    symmetric = x is y and row_ids is column_ids
    pairs = _make_pairs(x, y, row_ids, column_ids, None, None, symmetric)
    # near D = 0 these are steeper than a 16-bit weight can be
    steep = function == "riesz" and parameter > -1
    how = {"backend": backend, "precision": precision}
    plan = plan_pairs("row_sums", x, y, steep=steep, share=share, **how)
    note(plan)
    if plan.backend == "dense":
        return _dense.row_sums(_gather_pairs(pairs, share), function, parameter, offset)
    compute = _operations.row_sums if share is None else _operations.shared_row_sums
    return compute(
        *(pairs.x, None if symmetric else pairs.y, row_ids, column_ids),
        *(function, parameter, offset, *_share_inputs(plan.share)),
        *(plan.backend, plan.precision == "exact"),
    )[0]


def _stream(
    pairs: Pairs, scales: Sequence[Number] | Tensor, plan: Plan, columns: bool
) -> tuple[Tensor, Tensor | None]:
    """Call the operation that computes the rows' sums and, if asked, the columns'."""
    x, y, fused = pairs.x, pairs.y, plan.backend == "triton"
    scale, factors = None if fused else _known_scale(scales, pairs), None
    if scale is None:
        factors, scale = _stack_scales(scales, x), _find_largest(scales)
    share, compute = plan.share, _operations.log_partitions
    if share is not None:
        compute = _operations.shared_log_partitions
    if is_rehearsing():
        kept = share is None and not fused and keeps_scores(x, y, factors)
        note(plan._replace(keeps_scores=kept))
    return compute(
        *(x, None if pairs.symmetric else y, pairs.row_ids, pairs.column_ids),
        *(pairs.low, pairs.high, factors, scale, pairs.longest, columns),
        *(*_share_inputs(share), plan.backend, plan.precision == "exact"),
    )


def _share_inputs(share: Share | None) -> tuple:
    """How an operation over processes takes the share."""
    return () if share is None else (list(share.sizes), share.rank, share.ring)


def _gather_pairs(pairs: Pairs, share: Share | None) -> Pairs:
    """The pairs of all processes: a matrix that is held whole is not shared out."""
    if share is None:
        return pairs
    x, y, *rest = (
        None if x is None else gather_rows(x, share=share) for x in pairs[:6]
    )
    assert x is not None and y is not None
    row_ids, column_ids, low, high = rest
    return Pairs(x, y, row_ids, column_ids, low, high, longest=pairs.longest)


def _known_scale(scales: Sequence[Number] | Tensor, pairs: Pairs) -> float | None:
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


def _find_largest(scales: Sequence[Number] | Tensor) -> float:
    """The size of the largest scale; infinite where one is a tensor."""
    if any(isinstance(scale, Tensor) for scale in scales):
        return math.inf
    return max([abs(float(scale)) for scale in scales], default=0.0)


def _stack_scales(scales: Sequence[Number] | Tensor, like: Tensor) -> Tensor:
    """One tensor of the computation's dtype and device, differentiable if asked."""
    if isinstance(scales, Tensor):
        return scales.to(like)
    parts = [_make_scale(scale, like) for scale in scales]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _make_scale(scale: Number, like: Tensor) -> Float[Tensor, "1"]:
    if isinstance(scale, Tensor):
        if scale.numel() != 1:
            raise ShapeError(
                "scale is one number for all pairs: got a tensor of shape "
                f"{tuple(scale.shape)}. To scale row by row, multiply x."
            )
        return scale.to(like).reshape(1)
    # full, not tensor: no copy from the host, so a CUDA graph can hold it
    return like.new_full((1,), _check_number("scale", scale))


def _check_number(name: str, number: Any) -> float | int:
    """The number, or an error in words."""
    value = plain_number(number)
    if not isinstance(value, int | float):
        raise SettingError(f"{name} must be a number or a tensor: got {number!r}.")
    return value


def _make_pairs(
    x: Tensor,
    y: Tensor,
    row_ids: Tensor | None,
    column_ids: Tensor | None,
    low: Band,
    high: Band,
    symmetric: bool,
    longest: float | int = math.inf,
) -> Pairs:
    """Rows in at least float32 and contiguous, with everything checked."""
    _check_tensors(x=x, y=y, row_ids=row_ids, column_ids=column_ids)
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
    low = None if low is None else _make_band("low", low, rows)
    high = None if high is None else _make_band("high", high, rows)
    return Pairs(
        rows, columns, row_ids, column_ids, low, high, symmetric, float(longest)
    )


def _make_band(name: str, bound: Number, rows: Tensor) -> Tensor:
    if not isinstance(bound, Tensor):
        value = _check_number(name, bound)
        if value != value:  # NaN is above and below nothing: it would leave nothing out
            raise SettingError(
                f"{name} must be a number: got nan. None means no limit."
            )
        return rows.new_full((len(rows),), value)
    bound = bound.detach().to(rows)
    if bound.ndim == 0:
        bound = bound.expand(len(rows))
    _check_length(name, bound, "row", rows)
    return bound.contiguous()


def _check_tensors(**inputs: Any) -> None:
    for name, x in inputs.items():
        if x is not None and not isinstance(x, Tensor):
            raise ShapeError(
                f"{name} must be a torch tensor, not {type(x).__name__}: convert with "
                "torch.as_tensor(...)."
            )


def _check_length(name: str, vector: Tensor | None, side: str, matrix: Tensor) -> None:
    if vector is not None and vector.shape != matrix.shape[:1]:
        raise ShapeError(
            f"{name} needs one entry per {side}: expected ({len(matrix)},), "
            f"got {tuple(vector.shape)}."
        )


# ---------------------------------------------------------------- fused from raw rows


def fused_loss(
    u: Tensor,
    v: Tensor,
    kind: str,
    *,
    scale: Number,
    negatives: str,
    log_count: float,
    precision: str = "auto",
    powers: tuple[float | int, ...] = (1.0,),
    parameters: tuple[float, ...] = (),
    anchors: Tensor | None = None,
    extra: Tensor | None = None,
    largest_scale: float | int | None = None,
) -> Tensor | None:
    """A mean over the 2n anchors of unit rows, or None if not for such rows.

    The gradient of unit rows is computed together with the loss and kept.

    Args:
        u: One view, raw rows.
        v: The other view.
        kind: Of ``triton._anchor_loss.KINDS``, which has the formulas.
        scale: Of the scores; a 0-d tensor gets its gradient, for the kinds in whose
            formula it stands in the logits alone.
        negatives: Where an anchor's negatives are: "all", "cross" or "within"; or
            "others", all rows but its own, where u and v are no views of each other.
        log_count: Logarithm of their number.
        precision: Of the products.
        powers: Factors on the logits, one log-partition each.
        parameters: Of the kind.
        anchors: What each of the 2n anchors weighs in the mean, in float32; else 1.
        extra: To be added to the gradient of the 2n unit rows, in float32: that of a
            term whose value the caller adds to the loss.
        largest_scale: What a scale that is a tensor cannot exceed, say because its
            temperature is clamped. Without it such a scale is not for this operation:
            one would have to wait for the device to know whether it is safe.
    """
    suits = suits_fused_loss(
        u,
        v,
        kind=kind,
        scale=scale,
        negatives=negatives,
        powers=powers,
        largest_scale=largest_scale,
    )
    if not suits:
        return None
    precision = resolve_precision(precision, u.dtype, u.device)
    reason = "two views, from raw rows to their gradient"
    note(Plan("pair_loss", "triton", precision, reason, tuple(u.shape)))
    learned, number = None, 1.0
    if isinstance(scale, Tensor):
        learned = scale.to(device=u.device, dtype=torch.float32).reshape(())
    else:
        number = float(scale)
    grad = torch.is_grad_enabled()
    by_scale = grad and learned is not None and learned.requires_grad
    return _operations.pair_loss(
        *(u, v, anchors, extra, learned, kind, parameters, number),
        *(tuple([float(number * power) for power in powers]), log_count, negatives),
        precision == "exact",
        (grad and u.requires_grad, grad and v.requires_grad, by_scale),
    )[0]


def class_pull(
    z: Tensor, labels: Tensor, factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradient of unit rows, who has others of its class (1 or 0), and the value.

    What pulls the rows of a class together, on a GPU: value and gradient at once.

    Args:
        z: Raw rows, for which ``suits_fused_loss``; not differentiated here.
        labels: An integer each.
        factor: Times the sum over rows of the mean product with the others of a row's
            class: that is the value, and twice that mean the gradient.
    """
    note(Plan("class_pull", "triton", "exact", "as its loss", tuple(z.shape)))
    return _operations.class_pull(z.detach(), labels, factor)


def fused_unit_rows(
    x: Float[Tensor, "*v n d"], shortest: float
) -> Float[Tensor, "*v n d"] | None:
    r"""Rows divided by their length, or None where there is no kernel for them.

    $z = x / |x|$ in float32, and $dx = (dz - z\,(z\cdot dz)) / |x|$: one kernel each,
    and nothing kept but lengths. Plain PyTorch would raise a copy of a 16-bit batch to
    float32 and keep that, more than all the rest of a fused loss needs.
    """
    if not suits_fused_unit_rows(x):
        return None
    reason = "no float32 copy of the rows is kept"
    note(Plan("unit_rows", "triton", "exact", reason, tuple(x.shape)))
    return _operations.unit_rows(x.flatten(0, -2), shortest)[0].view(x.shape)
