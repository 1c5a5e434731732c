"""Bounds and classical estimators of mutual information, one number at a time.

A critic matrix is a float64 tensor g with g[i, j] the score of row i of x and row j of
y. Kept apart from the other twins: some share a name with an objective.
"""

import math

import torch

from ._scalars import log_sum_exp, mean


def strangers(g, i):
    return [g[i, j] for j in range(len(g)) if j != i]


def all_strangers(g):
    return [s for i in range(len(g)) for s in strangers(g, i)]


def log_mean_exp(terms):
    return log_sum_exp(terms) - math.log(len(terms))


def partners(g):
    return [g[i, i] for i in range(len(g))]


def softplus(t):
    return log_sum_exp([torch.zeros((), dtype=torch.float64), t])


def info_nce(g):
    n = len(g)
    return mean(
        [
            math.log(n) + g[i, i] - log_sum_exp([g[i, j] for j in range(n)])
            for i in range(n)
        ]
    )


def leave_one_out(g):
    return mean([g[i, i] - log_mean_exp(strangers(g, i)) for i in range(len(g))])


def tuba(g, log_a):
    n = len(g)
    first = mean([g[i, i] - log_a[i] for i in range(n)])
    second = mean(
        [
            torch.exp(g[i, j]) / torch.exp(log_a[i])
            for i in range(n)
            for j in range(n)
            if i != j
        ]
    )
    return 1 + first - second


def nwj(g):
    return mean(partners(g)) - mean([torch.exp(s - 1) for s in all_strangers(g)])


def donsker_varadhan(g):
    return mean(partners(g)) - torch.log(mean([torch.exp(s) for s in all_strangers(g)]))


def jensen_shannon(g):
    return -mean([softplus(-t) for t in partners(g)]) - mean(
        [softplus(t) for t in all_strangers(g)]
    )


def binary_nce(g, noise=None):
    k = len(g) - 1 if noise is None else noise
    is_partner = [torch.log(torch.sigmoid(t - math.log(k))) for t in partners(g)]
    is_not = [torch.log(1 - torch.sigmoid(t - math.log(k))) for t in all_strangers(g)]
    return mean(is_partner) + k * mean(is_not)


def smile(g, clip=5.0):
    low, high = math.exp(-clip), math.exp(clip)
    cut = [torch.exp(s).clamp(low, high) for s in all_strangers(g)]
    return mean(partners(g)) - torch.log(mean(cut))


def interpolated(g, log_a, alpha=0.5):
    n = len(g)
    first, second = [], []
    for i in range(n):
        a = torch.exp(log_a[i])
        for j in range(n):
            if j == i:
                continue
            kept = [torch.exp(g[i, k]) for k in range(n) if k != j]
            first.append(g[i, i] - torch.log(alpha * mean(kept) + (1 - alpha) * a))
            rest = mean([torch.exp(s) for s in strangers(g, i)])
            second.append(torch.exp(g[i, j]) / (alpha * rest + (1 - alpha) * a))
    return 1 + mean(first) - mean(second)


def flo(g, u):
    terms = []
    for i in range(len(g)):
        contrast = mean([torch.exp(s - g[i, i]) for s in strangers(g, i)])
        terms.append(u[i] + torch.exp(-u[i]) * contrast)
    return 1 - mean(terms)


def hard_negatives(g, fraction=0.5):
    k = max(1, math.ceil(fraction * (len(g) - 1)))
    terms = []
    for i in range(len(g)):
        hardest = sorted(strangers(g, i), key=lambda s: s.item())[-k:]
        terms.append(math.log(k + 1) + g[i, i] - log_sum_exp([g[i, i], *hardest]))
    return mean(terms)


def vince(positive, negatives, log_ratio=None):
    terms = []
    for i in range(len(positive)):
        candidates = [positive[i], *negatives[i]]
        term = positive[i] - log_mean_exp(candidates)
        weight = 1.0
        if log_ratio is not None:
            for ratio in log_ratio[i]:
                weight = weight * torch.exp(ratio)
        terms.append(weight * term)
    return mean(terms)


def ksg(x, y, neighbours=3):
    """x and y are lists of tuples of floats."""
    n = len(x)

    def digamma(m):
        return -0.5772156649015329 + sum(1 / k for k in range(1, m))

    def far(p, q):
        return max(abs(a - b) for a, b in zip(p, q, strict=True))

    terms = []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        joint = sorted(max(far(x[i], x[j]), far(y[i], y[j])) for j in others)
        radius = joint[neighbours - 1]
        in_x = sum(far(x[i], x[j]) < radius for j in others)
        in_y = sum(far(y[i], y[j]) < radius for j in others)
        terms.append(digamma(in_x + 1) + digamma(in_y + 1))
    return digamma(neighbours) + digamma(n) - sum(terms) / n


def plug_in(a, b):
    """a and b are lists of ints; without any correction."""
    n = len(a)
    nats = 0.0
    for value in set(a):
        for other in set(b):
            both = sum(p == value and q == other for p, q in zip(a, b, strict=True))
            if both:
                product = a.count(value) * b.count(other)
                nats += both / n * math.log(both * n / product)
    return nats


def gaussian(covariance, x_width):
    """Half the log of |Sx| |Sy| / |S|."""
    s = covariance
    dets = [
        torch.linalg.det(m) for m in (s[:x_width, :x_width], s[x_width:, x_width:], s)
    ]
    return 0.5 * math.log(dets[0] * dets[1] / dets[2])
