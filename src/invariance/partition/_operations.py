"""Every operation on pairs of rows, declared once for all its backends.

A sum over pairs runs tile by tile ("blockwise") or in fused kernels ("triton"); a loss
of two views, class sums and unit rows in fused kernels alone. What stands here are the
inputs, the outputs with their shapes, and who computes them; ``Operation`` makes of it
a node for torch.compile and a function for eager mode.
"""

import math
from typing import Any

import torch
from torch import Tensor

from ._layout import tile_shape
from ._operator import Operation
from ._plan import keeps_scores

# y is None where it is x, and ids and bands are those of a symmetric matrix
_PAIRS = "Tensor x, Tensor? y, Tensor? row_ids, Tensor? column_ids"
# what a fused sum keeps, so that the float32 rows can be freed: rounded ones
_ROUNDED = {"triton": ("x", "y")}


def _kept_shapes(inputs: Any, scales: Tensor | None) -> tuple:
    """Scores if they are kept, or rounded rows x and y with their bounds."""
    x, y = inputs.x, inputs.x if inputs.y is None else inputs.y
    if inputs.backend != "triton":
        kept = keeps_scores(x, y, scales)
        return x.new_empty(x.shape[0], y.shape[0]) if kept else None, None, None
    x_tiles, y_tiles = (
        x.new_empty(
            tile_shape(z.shape[0], z.shape[1], inputs.exact), dtype=torch.float16
        )
        for z in (x, y)
    )
    return x_tiles, None if inputs.y is None else y_tiles, x.new_empty(2)


def _partition_shapes(inputs: Any) -> tuple:
    x, y, scales = inputs.x, inputs.y, inputs.scales
    k, m = 1 if scales is None else scales.shape[0], (x if y is None else y).shape[0]
    columns = x.new_empty(k, m) if inputs.with_columns else None
    return x.new_empty(k, x.shape[0]), columns, *_kept_shapes(inputs, scales)


log_partitions = Operation(
    "log_partitions",
    # scales are a tensor, or None where there is one and it is known: the number scale,
    # which beside a tensor is the largest of them, or infinite where that is not known
    f"{_PAIRS}, Tensor? low, Tensor? high, Tensor? scales, float scale, float longest, "
    "bool with_columns, str backend, bool exact",
    ("rows", "columns", "kept", "y_tiles", "bounds"),
    _partition_shapes,
    {
        "blockwise": ("_tiled.log_partitions", "_tiled.log_partition_gradients"),
        "triton": ("triton.log_partitions", "triton.log_partition_gradients"),
    },
    differentiable=("x", "y", "scales"),
    results=2,
    freed=_ROUNDED,
)


def _sum_shapes(inputs: Any) -> tuple:
    # a tensor of scales: scores are never kept
    return inputs.x.new_empty(inputs.x.shape[0]), *_kept_shapes(inputs, inputs.x)


row_sums = Operation(
    "row_sums",
    f"{_PAIRS}, str function, float parameter, float offset, str backend, bool exact",
    ("sums", "kept", "y_tiles", "bounds"),
    _sum_shapes,
    {
        "blockwise": ("_tiled.row_sums", "_tiled.row_sum_gradients"),
        "triton": ("triton.row_sums", "triton.row_sum_gradients"),
    },
    differentiable=("x", "y"),
    freed=_ROUNDED,
)


# ---------------------------------------------------------------- over processes

# each has rows and columns of its own, as many of either, and gets the sums of all
_SHARE = "int[] sizes, int rank, bool ring"


def travels_in_halves(inputs: Any) -> bool:
    """Whether rows of at most unit length are rounded to 16 bits in any case."""
    bounded = getattr(inputs, "longest", math.inf) <= 1
    return inputs.backend == "triton" and not inputs.exact and bounded


def _kept_rows_shapes(inputs: Any) -> tuple:
    """The rows of all processes, and their ids, if they are kept."""
    if inputs.ring:
        return None, None
    x, ids = inputs.x, inputs.row_ids
    n = sum(inputs.sizes)
    rows = x.new_empty(n, x.shape[1])
    rows = rows.half() if travels_in_halves(inputs) else rows
    return rows, None if ids is None else ids.new_empty(n)


def _shared_partition_shapes(inputs: Any) -> tuple:
    k = 1 if inputs.scales is None else inputs.scales.shape[0]
    rows = inputs.x.new_empty(k, sum(inputs.sizes))
    columns = torch.empty_like(rows) if inputs.with_columns else None
    return rows, columns, *_kept_rows_shapes(inputs)


shared_log_partitions = Operation(
    "shared_log_partitions",
    f"{_PAIRS}, Tensor? low, Tensor? high, Tensor? scales, float scale, float longest, "
    f"bool with_columns, {_SHARE}, str backend, bool exact",
    ("rows", "columns", "all_rows", "all_ids"),
    _shared_partition_shapes,
    dict.fromkeys(
        ("blockwise", "triton"),
        ("_shared.log_partitions", "_shared.log_partition_gradients"),
    ),
    differentiable=("x", "y", "scales"),
    results=2,
)

shared_row_sums = Operation(
    "shared_row_sums",
    f"{_PAIRS}, str function, float parameter, float offset, {_SHARE}, str backend, "
    "bool exact",
    ("sums", "all_rows", "all_ids"),
    lambda inputs: (
        inputs.x.new_empty(sum(inputs.sizes)),
        *_kept_rows_shapes(inputs),
    ),
    dict.fromkeys(
        ("blockwise", "triton"),
        ("_shared.row_sums", "_shared.row_sum_gradients"),
    ),
    differentiable=("x", "y"),
)

# ---------------------------------------------------------------- in fused kernels


def _float32(x: Tensor, *shape: int) -> Tensor:
    return x.new_empty(shape, dtype=torch.float32)


# What it keeps are terms whose number depends on the device, hence ``ahead``.
pair_loss = Operation(
    "pair_loss",
    "Tensor u, Tensor v, Tensor? anchors, Tensor? extra, Tensor? learned, str kind, "
    "float[] parameters, float scale, float[] scales, float log_count, str negatives, "
    "bool exact, bool[] wanted",
    ("loss", "vectors", "terms"),
    lambda inputs: (_float32(inputs.u), None, None),
    {"triton": ("triton.pair_loss", "triton.pair_loss_gradients")},
    differentiable=("u", "v", "learned"),
    ahead=True,
)

class_pull = Operation(
    "class_pull",
    "Tensor z, Tensor labels, float factor",
    ("gradient", "anchors", "value"),
    lambda inputs: (
        _float32(inputs.z, *inputs.z.shape),
        _float32(inputs.z, inputs.z.shape[0]),
        _float32(inputs.z),
    ),
    {"triton": ("triton.class_pull", "")},
    results=3,
)

unit_rows = Operation(
    "unit_rows",
    "Tensor x, float least",
    ("unit", "lengths"),
    lambda inputs: (
        _float32(inputs.x, *inputs.x.shape),
        _float32(inputs.x, inputs.x.shape[0]),
    ),
    {"triton": ("triton.unit_rows", "triton.unit_row_gradients")},
    differentiable=("x",),
)
