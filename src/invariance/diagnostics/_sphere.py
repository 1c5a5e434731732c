"""Where rows lie on the sphere: near their partners, and far from everything else.

Rows are normalized here. No value proves much alone: a collapsed encoder aligns its
views perfectly and covers nothing, so alignment is read beside uniformity.
"""

import math

import numpy as np
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from ..checked_rows import (
    above_zero,
    as_labels,
    as_unit_rows,
    divide_by_length,
    score_chunks,
    unit_pair,
)
from ..errors import DataError, SettingError, ShapeError
from ..partition import log_partition


def alignment(
    u: Float[Tensor, "n d"], v: Float[Tensor, "n d"], alpha: float | int = 2
) -> float:
    r"""How far apart the two views of one sample lie (Wang and Isola, 2020).

    $$\mathrm{alignment} = \frac1n\sum_i \lVert u_i - v_i\rVert^\alpha$$

    At alpha = 2 the range is [0, 4]: 0 when both views agree, 2 when they are
    unrelated. Small alone proves nothing: a collapsed encoder reaches 0 too.

    >>> import torch
    >>> alignment(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 3.0]]))
    2.0
    """
    alpha = above_zero(alpha, "alpha")
    u, v = unit_pair(u, v)
    return (u - v).square().sum(1).pow(alpha / 2).mean().item()


def uniformity(z: Float[Tensor, "n d"], t: float | int = 2) -> float:
    r"""How evenly rows cover the sphere (Wang and Isola, 2020).

    $$\mathrm{uniformity} = \log\frac{2}{n(n-1)}\sum_{i<j} e^{-t\lVert z_i-z_j\rVert^2}
      = \log\sum_i e^{P_i} - \log n(n-1) - 2t$$

    with P the log-partition at scale 2t over the other rows, so memory is linear in n.
    Between -4t and 0; 0 is collapse, ``uniform_sphere_uniformity(d)`` an even cover.
    A row of zeros has no direction and counts as at right angles to all others: a
    collapse to zeros reads -2t, and only ``effective_rank`` and ``collapse`` show it.

    >>> import torch
    >>> round(uniformity(torch.tensor([[1.0, 0.0], [0.0, 1.0]])), 4)
    -4.0
    """
    t = above_zero(t, "t")
    z = as_unit_rows(z, at_least=2)
    n = len(z)
    ids = torch.arange(n, device=z.device)
    others = log_partition(z, z, scale=2 * t, row_ids=ids, column_ids=ids)
    return others.logsumexp(0).item() - math.log(n * (n - 1)) - 2 * t


def uniform_sphere_uniformity(d: int, t: float | int = 2) -> float:
    r"""What ``uniformity`` expects of rows drawn uniformly from the sphere in R^d.

    $$\log \mathrm E\, e^{-t\lVert x-y\rVert^2} = -2t + \log{}_0F_1(;d/2;t^2)$$

    Tends to -2t as d grows. A finite set can lie lower: a regular simplex does.

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


def mmd_to_uniform(z: Float[Tensor, "n d"], t: float | int = 2) -> float:
    r"""Squared maximum mean discrepancy from the uniform law on the sphere.

    $$\mathrm{MMD}^2 = \frac{2}{n(n-1)}\sum_{i<j} k(z_i, z_j) - \mathrm E\,k(x, y),
      \qquad k(x, y) = e^{-t\lVert x-y\rVert^2}$$

    x and y are uniform. The kernel of a row with a uniform point has the same mean
    wherever the row lies, so two of the three terms are one, and the value is
    exp(uniformity) - exp(uniform_sphere_uniformity(d, t)): it ranks sets of rows of one
    width exactly as the uniformity does.

    1 - E k(x, y) is collapse, 0 an even cover. The estimate is unbiased, so rows that
    avoid each other more than independent ones do, as a simplex, read below 0.

    >>> import torch
    >>> round(mmd_to_uniform(torch.ones(5, 64)), 2)     # collapsed: 1 - 0.02
    0.98
    """
    z = as_unit_rows(z, at_least=2)
    even = uniform_sphere_uniformity(z.shape[1], t)
    return math.exp(uniformity(z, t)) - math.exp(even)


def energy_distance_to_uniform(z: Float[Tensor, "n d"]) -> float:
    r"""Energy distance from the uniform law on the sphere.

    $$2\,\mathrm E\lVert z-x\rVert - \mathrm E\lVert z-z'\rVert
      - \mathrm E\lVert x-y\rVert
      = m_d - \frac{2}{n(n-1)}\sum_{i<j}\lVert z_i-z_j\rVert,\qquad
      m_d = \frac{2^{d-1}\,\Gamma(d/2)^2}{\sqrt\pi\;\Gamma(d-\frac12)}$$

    x and y are uniform, and every row is m_d away from x on average, wherever it lies:
    4/pi on a circle, near the square root of 2 in many dimensions.

    m_d is collapse, 0 an even cover; below 0, as in ``mmd_to_uniform``, rows avoid each
    other. Unlike the kernel there it has no width, and far pairs count as near ones do.

    >>> import torch
    >>> round(energy_distance_to_uniform(torch.ones(5, 2)), 4)     # collapsed: 4 / pi
    1.2732
    """
    # near rows: float32 would put equal ones 3e-4 apart
    z = divide_by_length(as_unit_rows(z, at_least=2).double())
    n, d = z.shape
    total = 0.0
    for rows, cosines in score_chunks(z, z):
        cosines.diagonal(rows.start).fill_(1)  # a row is no distance from itself
        total += (2 - 2 * cosines).clamp_min(0).sqrt().sum().item()
    return uniform_sphere_distance(d) - total / (n * (n - 1))


def uniform_sphere_distance(d: int) -> float:
    """Mean distance of two points drawn uniformly from the sphere in R^d.

    >>> round(uniform_sphere_distance(3), 6)
    1.333333
    """
    log_mean = (d - 1) * math.log(2) + 2 * math.lgamma(d / 2)
    return math.exp(log_mean - math.log(math.pi) / 2 - math.lgamma(d - 0.5))


def wasserstein_to_uniform(
    z: Float[Tensor, "n d"], *, max_rows: int = 1000, seed: int = 0
) -> float:
    r"""Distance of the pairwise cosines from those of a uniform sphere.

    $$W_1 = \int_0^1 \big| F_n^{-1}(q) - F^{-1}(q) \big|\, dq$$

    F_n is the law of the cosines of all pairs i < j, F that of x·y for independent
    uniform x, y on the sphere of R^D: x·y = 2B - 1 with B ~ Beta((D-1)/2, (D-1)/2), of
    mean 0 and variance 1/D. D is the width of the rows.

    Between 0 and about 1; near 0 is even coverage, near 1 collapse. Unlike the
    uniformity it sees the whole law of the cosines, not mostly the closest pairs.

    Args:
        z: The rows; at least two, at least two wide.
        max_rows: Of more rows than this, so many are drawn without replacement.
        seed: Of that draw.

    >>> import torch
    >>> round(wasserstein_to_uniform(torch.ones(5, 64)), 4)     # collapsed
    1.0
    """
    z = as_unit_rows(z, at_least=2)
    n, d = z.shape
    if d < 2:
        raise ShapeError(f"A sphere needs rows at least 2 wide: got {tuple(z.shape)}.")
    if max_rows < 2:
        raise SettingError(f"max_rows must be at least 2: got {max_rows}.")
    if n > max_rows:
        generator = torch.Generator().manual_seed(seed)
        n, z = (
            max_rows,
            z[torch.randperm(n, generator=generator)[:max_rows].to(z.device)],
        )
    with torch.autocast(z.device.type, enabled=False):
        cosines = (z @ z.T)[*torch.triu_indices(n, n, 1, device=z.device)]
    return _distance_to_sphere_law(cosines.double().cpu().numpy().clip(-1, 1), d)


def _distance_to_sphere_law(cosines: Float[np.ndarray, " m"], d: int) -> float:
    r"""The integral, exactly, from its antiderivative between two steps of F_n.

    $$\int_{-1}^s x f(x)\,dx = -\frac{\Gamma(D/2)}{\Gamma((D-1)/2)\sqrt\pi}
      \cdot\frac{(1-s^2)^{(D-1)/2}}{D-1}$$
    """
    # most of a second that no start of training should wait for
    from scipy.special import betainc, betaincinv, gammaln

    a, m = (d - 1) / 2, len(cosines)
    log_density = math.fsum((gammaln(d / 2), -gammaln(a), -math.log(math.pi) / 2))

    def partial_mean(s: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        return -math.exp(log_density) * (1 - s**2) ** a / (d - 1)

    # the k-th smallest cosine stands for the levels k/m to (k+1)/m of the ideal law
    level = np.arange(m + 1) / m
    edge = 2 * betaincinv(a, a, level) - 1
    x = np.sort(cosines)
    # where the ideal quantile passes x: below it x - F^-1 counts, above it F^-1 - x
    split_level = betainc(a, a, (1 + x) / 2).clip(level[:-1], level[1:])
    split_mean = partial_mean(x.clip(edge[:-1], edge[1:]))
    edge_mean = partial_mean(edge)
    below = x * (split_level - level[:-1]) - (split_mean - edge_mean[:-1])
    above = (edge_mean[1:] - split_mean) - x * (level[1:] - split_level)
    return float((below + above).sum())


def tolerance(z: Float[Tensor, "n d"], labels: Integer[Tensor, " n"]) -> float:
    r"""How close samples of one class lie (after Wang and Liu, 2021).

    $$\mathrm{tolerance} = \operatorname{mean}_{\,i<j,\ y_i = y_j}\; z_i\cdot z_j$$

    Between -1 and 1: high when classes stay together, 0 for unrelated rows, 1 for
    collapse. The mean runs over the pairs of equal label, so the number of classes does
    not scale it, and a class weighs as its number of pairs. (Wang and Liu average
    z·z' 1[y = y'] over all pairs: this value times the share of pairs that agree.)

    >>> import torch
    >>> z = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> round(tolerance(z, torch.tensor([7, 7, 3])), 4)
    0.7071
    """
    z = as_unit_rows(z, at_least=2)
    labels = as_labels(labels, len(z)).to(z.device)
    order = labels.argsort(stable=True)
    _, counts = labels.unique(return_counts=True)
    sizes = counts.tolist()
    n_pairs = sum(size * (size - 1) for size in sizes)
    if n_pairs == 0:
        raise DataError(
            f"No two of the {len(z)} rows share a label. "
            "Pass class labels, not sample numbers, or more rows."
        )
    # pairs are never listed: within a class, the sum over i != j of z_i·z_j is
    # |sum of z_i|^2 - sum of |z_i|^2
    sums = torch.stack([rows.sum(0) for rows in z[order].split(sizes)])
    return ((sums.square().sum() - z.square().sum()) / n_pairs).item()
