r"""Uniformity: how evenly rows cover the sphere (Wang and Isola, 2020).

$$\mathrm{uniformity} = \log\frac{2}{n(n-1)}\sum_{i<j} e^{-t\lVert z_i-z_j\rVert^2}
  = \log\sum_i e^{P_i} - \log n(n-1) - 2t$$

with P the log-partition at scale 2t over the other rows, so memory is linear in n.
Between -4t and 0; 0 is collapse. Independent uniform rows reach, in expectation,

$$\log \mathrm E\, e^{-t\lVert x-y\rVert^2} = -2t + \log{}_0F_1(;d/2;t^2)$$

which tends to -2t as d grows. A finite set can lie lower: a regular simplex does.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import ShapeError
from ..partition import log_partition
from ._rows import above_zero, unit_rows


def uniformity(z: Float[Tensor, "n d"], t: float | int = 2) -> float:
    """Log of the mean Gaussian kernel over all pairs of normalised rows.

    >>> import torch
    >>> round(uniformity(torch.tensor([[1.0, 0.0], [0.0, 1.0]])), 4)
    -4.0
    """
    t = above_zero(t, "t")
    z = unit_rows(z, at_least=2)
    n = len(z)
    ids = torch.arange(n, device=z.device)
    others = log_partition(z, z, scale=2 * t, row_ids=ids, column_ids=ids)
    return others.logsumexp(0).item() - math.log(n * (n - 1)) - 2 * t


def uniform_sphere_uniformity(d: int, t: float | int = 2) -> float:
    """What ``uniformity`` expects of rows drawn uniformly from the sphere in R^d.

    >>> round(uniform_sphere_uniformity(128), 4)
    -3.9375
    """
    if d < 1:
        raise ShapeError(f"d is a number of dimensions, at least 1: got {d}.")
    t = above_zero(t, "t")
    # 0F1(; d/2; t^2) = sum_k t^2k / (k! (d/2)_k): all terms positive, so nothing
    # cancels, and in logarithms nothing overflows
    log_sum = log_term = 0.0
    k = 0
    while log_term > log_sum - 40 or k < t:
        log_term += 2 * math.log(t) - math.log(d / 2 + k) - math.log(k + 1)
        high, low = max(log_sum, log_term), min(log_sum, log_term)
        log_sum = high + math.log1p(math.exp(low - high))
        k += 1
    return log_sum - 2 * t
