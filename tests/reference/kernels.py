"""Objectives that sum a kernel of the distance: kcl, align_uniform."""

import torch

from ._scalars import mean, rows, squared_distance


def kcl(u, v, *, kernel="gaussian", gamma=16.0, t=2.0, s=-1.0, normalize=True):
    """-2 mean_i k(u_i, v_i) + gamma [mean_{i<j} k(u_i, u_j) + the same of v]."""

    def gaussian(d2):
        return torch.exp(-t * d2)

    def log(d2):
        return -torch.log(1 + t * d2) / 2

    def imq(d2):
        return t / torch.sqrt(t**2 + d2)

    def riesz(d2):
        d2 = d2 if d2 > 1e-12 else torch.tensor(1e-12, dtype=torch.float64)
        return (1 if s > 0 else -1) * d2 ** (-s / 2)

    attract, repel = {
        "gaussian": (gaussian, gaussian),
        "log": (log, log),
        "imq": (imq, imq),
        "riesz": (riesz, riesz),
        "gaussian_riesz": (gaussian, riesz),
    }[kernel]
    u, v = rows(u, normalize), rows(v, normalize)
    n = len(u)
    attraction = mean([attract(squared_distance(u[i], v[i])) for i in range(n)])
    repulsion = [
        mean(
            [
                repel(squared_distance(z[i], z[j]))
                for i in range(n)
                for j in range(i + 1, n)
            ]
        )
        for z in (u, v)
    ]
    return -2 * attraction + gamma * (repulsion[0] + repulsion[1])


def align_uniform(
    u, v, *, alpha=2, t=2, align_weight=1, uniform_weight=1, normalize=True
):
    """align_weight * alignment + uniform_weight * mean of the views' uniformity."""
    u, v = rows(u, normalize), rows(v, normalize)
    spread = (log_mean_kernel(u, t) + log_mean_kernel(v, t)) / 2
    return align_weight * mean_distance(u, v, alpha) + uniform_weight * spread


def mean_distance(u, v, alpha):
    """mean_i ||u_i - v_i||^alpha over two lists of rows."""
    squares = [squared_distance(x, y) for x, y in zip(u, v, strict=True)]
    # a distance has no slope where the points coincide: none is taken
    return mean([d2 ** (alpha / 2) if d2 > 0 else 0 * d2 for d2 in squares])


def log_mean_kernel(z, t):
    """log mean_{i<j} exp(-t ||z_i - z_j||^2) over a list of rows."""
    kernels = [
        torch.exp(-t * squared_distance(z[i], z[j]))
        for i in range(len(z))
        for j in range(i + 1, len(z))
    ]
    return torch.log(mean(kernels))
