"""Readings of a set of embeddings; each returns a float."""

import math

import numpy
from scipy.integrate import quad
from scipy.stats import beta

from ._scalars import dot, log_sum_exp, rows
from .kernels import log_mean_kernel, mean_distance
from .softmax_family import negative_logits


def alignment(u, v, alpha=2) -> float:
    """mean_i ||u_i - v_i||^alpha of unit rows."""
    return mean_distance(rows(u), rows(v), alpha).item()


def uniformity(z, t=2) -> float:
    """log mean_{i<j} exp(-t ||z_i - z_j||^2) of unit rows."""
    return log_mean_kernel(rows(z), t).item()


def effective_rank(z) -> float:
    """RankMe: exp of the entropy of the singular values of z, raw and uncenterd."""
    values = numpy.linalg.svd(z.detach().numpy(), compute_uv=False)
    shares = [value / sum(values) + 1e-7 for value in values]
    return math.exp(-sum(p * math.log(p) for p in shares))


def tolerance(z, labels) -> float:
    """Mean cosine over the pairs i < j of equal label; every pair counts the same."""
    z = rows(z)
    same = [
        dot(z[i], z[j]).item()
        for i in range(len(z))
        for j in range(i + 1, len(z))
        if labels[i] == labels[j]
    ]
    return sum(same) / len(same)


def effective_sample_size(u, v, *, temperature, negatives="cross") -> float:
    """Mean over both views' anchors of 1 / (m sum_j w_ij^2), softmax over m rows."""
    u, v = rows(u), rows(v)
    shares = []
    for own, other in ((u, v), (v, u)):
        for i in range(len(u)):
            logits = negative_logits(own, other, i, temperature, negatives)
            shares.append(effective_share(logits))
    return sum(shares) / len(shares)


def effective_share(logits) -> float:
    """1 / (m sum_j w_j^2), w the softmax of m logits; NaN without any."""
    if not logits:
        return math.nan
    total = log_sum_exp(list(logits))
    weights = [math.exp(logit - total) for logit in logits]
    return 1 / (len(weights) * sum(w**2 for w in weights))


def mmd_to_uniform(z, t=2) -> float:
    """Mean kernel of the pairs less that of uniform points, by quadrature."""
    d = z.shape[1]
    z = rows(z)
    kernels = [math.exp(-t * squared_distance(z[i], z[j])) for i, j in pairs_of(len(z))]
    law = beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    even = quad(lambda c: math.exp(-t * (2 - 2 * c)) * law.pdf(c), -1, 1)[0]
    return sum(kernels) / len(kernels) - even


def energy_distance_to_uniform(z) -> float:
    """Mean distance of uniform points, by quadrature, less that of the pairs."""
    d = z.shape[1]
    z = rows(z)
    distances = [math.sqrt(squared_distance(z[i], z[j])) for i, j in pairs_of(len(z))]
    law = beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    even = quad(lambda c: math.sqrt(2 - 2 * c) * law.pdf(c), -1, 1)[0]
    return even - sum(distances) / len(distances)


def pairs_of(n):
    return [(i, j) for i in range(n) for j in range(i + 1, n)]


def squared_distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True))


def split_info_nce(u, v, *, temperature) -> tuple[float, float]:
    """Minus the mean positive logit, and the mean log-partition of both directions."""
    u, v = rows(u), rows(v)
    n = len(u)
    s = [[dot(u[i], v[j]) / temperature for j in range(n)] for i in range(n)]
    down = [[s[i][j] for i in range(n)] for j in range(n)]
    sums = [log_sum_exp(line) for line in [*s, *down]]
    pull = -sum(s[i][i] for i in range(n)) / n
    return pull.item(), sum(sums).item() / (2 * n)


def wasserstein_to_uniform(z) -> float:
    """W1 between the cosines i < j and those of uniform points: integral |F_n - F|.

    On the sphere of R^d a cosine is 2B - 1 with B ~ Beta((d-1)/2, (d-1)/2).
    """
    d = z.shape[1]
    z = rows(z)
    cosines = sorted(
        min(1.0, max(-1.0, dot(z[i], z[j]).item()))
        for i in range(len(z))
        for j in range(i + 1, len(z))
    )
    law = beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    edges = [-1.0, *cosines, 1.0]
    area = 0.0
    for k in range(len(edges) - 1):
        left, right, level = edges[k], edges[k + 1], k / len(cosines)
        crossing = min(right, max(left, law.ppf(level)))
        for a, b in ((left, crossing), (crossing, right)):
            if b > a:
                area += quad(lambda x, level=level: abs(level - law.cdf(x)), a, b)[0]
    return area
