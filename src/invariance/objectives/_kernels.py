"""Kernels of the distance between rows: at the positives, and summed over all pairs.

A kernel k(x, y) depends on D = |x - y| alone. Sums over the pairs of one view stream
through the log-partition (Gaussian) or the same tiles (the others), so no distance
matrix is held.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ..partition import log_partition, row_sums
from ..partition._elementwise import FUNCTIONS
from ._rows import sample_ids


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


def mean_kernel(
    x: Float[Tensor, "n d"],
    kernel: str,
    parameter: float | int,
    *,
    unit: bool,
    precision: str = "auto",
) -> Float[Tensor, ""]:
    """Mean of k over the pairs i < j of x's rows: a U-statistic, unbiased for any n."""
    n = len(x)
    if kernel == "gaussian":
        return log_gaussian_sums(
            x, parameter, unit=unit, precision=precision
        ).exp().sum() / (n * (n - 1))
    ids = sample_ids(x)
    rows, columns, offset = (x, x, 1.0) if unit else (*_distance_rows(x), 0.0)
    sums = row_sums(
        rows,
        columns,
        kernel,
        parameter,
        offset=offset,
        row_ids=ids,
        column_ids=ids,
        precision=precision if unit else "exact",
    )
    return sums.sum() / (n * (n - 1))


def log_gaussian_sums(
    x: Float[Tensor, "n d"],
    t: float | int,
    *,
    unit: bool,
    precision: str = "auto",
) -> Float[Tensor, " n"]:
    """Log sum_{j != i} exp(-t |x_i - x_j|^2), which is a log-partition at scale 2t."""
    ids = sample_ids(x)
    if unit:
        return (
            log_partition(
                x, x, scale=2 * t, row_ids=ids, column_ids=ids, precision=precision
            )
            - 2 * t
        )
    rows, columns = _distance_rows(x)
    return log_partition(
        rows, columns, scale=2 * t, row_ids=ids, column_ids=ids, precision="exact"
    )


def _distance_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows a and b with a_i . b_j = -|x_i - x_j|^2 / 2.

    A small distance is a difference of large squares: 16 bits do not hold it.
    """
    half = x.square().sum(1, keepdim=True) / 2
    one = torch.ones_like(half)
    return torch.cat([x, -half, one], 1), torch.cat([x, one, -half], 1)
