"""Kernels of the distance between rows: at the positives, and summed over all pairs.

A kernel k(x, y) depends on D = |x - y| alone. Sums over the pairs of one view stream
through the log-partition (Gaussian) or the same tiles (the others), so no distance
matrix is held.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..partition import FUNCTIONS, log_partition, row_sums
from ._rows import longest_row, sample_ids


def pair_kernel(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    kernel: str,
    parameter: float | int,
) -> Float[Tensor, " n"]:
    """k(u_i, v_i), row by row."""
    square = (u - v).square().sum(1)
    if kernel == "gaussian":
        return (-parameter * square).exp()
    value, _ = FUNCTIONS[kernel]
    return value(-square / 2, parameter)


def mean_kernels(
    views: Sequence[Float[Tensor, "n d"]],
    kernel: str,
    parameter: float | int,
    *,
    unit: bool,
    precision: str = "auto",
) -> Float[Tensor, ""]:
    """Mean of k over the pairs i < j of a view's rows, summed over the views.

    A U-statistic, unbiased for any n.
    """
    n = len(views[0])
    if kernel == "gaussian":
        sums = log_gaussian_sums(views, parameter, unit=unit, precision=precision).exp()
    else:
        how = _how(views[0], unit, precision) | {"offset": 1.0 if unit else 0.0}
        sums = torch.cat(
            [row_sums(*_rows(x, unit), kernel, parameter, **how) for x in views]
        )
    return sums.sum() / (n * (n - 1))


def log_gaussian_sums(
    views: Sequence[Float[Tensor, "n d"]],
    t: float | int,
    *,
    unit: bool,
    precision: str = "auto",
) -> Float[Tensor, "v n"]:
    """Log sum_{j != i} exp(-t |x_i - x_j|^2): a log-partition at scale 2t."""
    how = _how(views[0], unit, precision)
    how |= {"scale": 2 * t, "longest": longest_row(unit)}
    sums = torch.stack([log_partition(*_rows(x, unit), **how) for x in views])
    return sums - 2 * t if unit else sums


def _how(x: Tensor, unit: bool, precision: str) -> dict[str, Any]:
    ids = sample_ids(x)
    precision = precision if unit else "exact"
    return {"row_ids": ids, "column_ids": ids, "precision": precision}


def _rows(x: Tensor, unit: bool) -> tuple[Tensor, Tensor]:
    """Rows whose scores are -D^2/2, or for unit rows 1 - D^2/2."""
    return (x, x) if unit else _distance_rows(x)


def _distance_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows a and b with a_i . b_j = -|x_i - x_j|^2 / 2.

    A small distance is a difference of large squares: 16 bits do not hold it.
    """
    half = x.square().sum(1, keepdim=True) / 2
    one = torch.ones_like(half)
    return torch.cat([x, -half, one], 1), torch.cat([x, one, -half], 1)
