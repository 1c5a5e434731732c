"""Objectives without negatives: byol, sim_siam, barlow_twins, vicreg, swav."""

import torch

from ._scalars import dot, log_sum_exp, mean, rows


def byol(u, v, target_u=None, target_v=None):
    """mean_i (2 - 2 cos(u_i, sg target_v_i)) + (2 - 2 cos(v_i, sg target_u_i))."""
    first, second = cosines(u, v, target_u, target_v)
    return mean([4 - 2 * a - 2 * b for a, b in zip(first, second, strict=True)])


def sim_siam(u, v, target_u=None, target_v=None):
    """mean_i -(1/2) [cos(u_i, sg target_v_i) + cos(v_i, sg target_u_i)]."""
    first, second = cosines(u, v, target_u, target_v)
    return mean([-(a + b) / 2 for a, b in zip(first, second, strict=True)])


def cosines(u, v, target_u, target_v):
    target_u = rows((u if target_u is None else target_u).detach())
    target_v = rows((v if target_v is None else target_v).detach())
    u, v = rows(u), rows(v)
    n = len(u)
    return (
        [dot(u[i], target_v[i]) for i in range(n)],
        [dot(v[i], target_u[i]) for i in range(n)],
    )


def column(z, k):
    return [z[i, k] for i in range(len(z))]


def barlow_twins(u, v, *, off_diagonal_weight=0.0051):
    """sum_k (1 - c_kk)^2 + weight sum_{k != l} c_kl^2; a sum, not a mean.

    c is the cross-correlation of batch-normalised columns: biased variance and, as in
    batch norm, 1e-5 added to it.
    """
    n, d = u.shape

    def standardised(z, k):
        values = column(z, k)
        center = mean(values)
        variance = mean([(x - center) ** 2 for x in values])
        return [(x - center) / torch.sqrt(variance + 1e-5) for x in values]

    a = [standardised(u, k) for k in range(d)]
    b = [standardised(v, k) for k in range(d)]
    total = 0
    for k in range(d):
        for m in range(d):
            c = sum(a[k][i] * b[m][i] for i in range(n)) / n
            total = total + ((1 - c) ** 2 if k == m else off_diagonal_weight * c**2)
    return total


def vicreg(u, v, *, invariance_weight=25, variance_weight=25, covariance_weight=1):
    """25 mse + 25 (1/2) sum_views mean_k relu(1 - std_k) + sum_views sum c_kl^2 / d.

    mse is a mean over rows and columns; std = sqrt(unbiased variance + 1e-4).
    """
    n, d = u.shape
    invariance = mean([(u[i, k] - v[i, k]) ** 2 for i in range(n) for k in range(d)])
    variance, covariance = [], []
    for z in (u, v):
        centerd = []
        for k in range(d):
            center = mean(column(z, k))
            centerd.append([x - center for x in column(z, k)])

        def cov(k, m, centerd=centerd):
            return sum(centerd[k][i] * centerd[m][i] for i in range(n)) / (n - 1)

        hinges = []
        for k in range(d):
            gap = 1 - torch.sqrt(cov(k, k) + 1e-4)
            hinges.append(gap if gap > 0 else 0 * gap)
        variance.append(mean(hinges))
        covariance.append(
            sum(cov(k, m) ** 2 for k in range(d) for m in range(d) if k != m) / d
        )
    return (
        invariance_weight * invariance
        + variance_weight * (variance[0] + variance[1]) / 2
        + covariance_weight * (covariance[0] + covariance[1])
    )


def swav(
    u,
    v,
    prototypes,
    *,
    temperature=0.1,
    epsilon=0.05,
    iterations=3,
    normalize=True,
):
    """-(1/2) mean_i sum_c [q_v log softmax(S_u / temperature) + the swap]."""
    u, v, prototypes = (rows(z, normalize) for z in (u, v, prototypes))
    n, k = len(u), len(prototypes)
    scores_u = [[dot(row, p) for p in prototypes] for row in u]
    scores_v = [[dot(row, p) for p in prototypes] for row in v]
    total = []
    for codes_of, predict_from in ((scores_v, scores_u), (scores_u, scores_v)):
        codes = sinkhorn(codes_of, epsilon, iterations)
        for i in range(n):
            logits = [score / temperature for score in predict_from[i]]
            normaliser = log_sum_exp(logits)
            total.append(-sum(codes[i][c] * (logits[c] - normaliser) for c in range(k)))
    return mean(total)


def sinkhorn(scores, epsilon, iterations):
    """Codes without gradient: alternate prototypes -> 1/k and samples -> 1/n.

    The samples come last, so that each sample's code sums to 1.
    """
    n, k = len(scores), len(scores[0])
    q = [
        [torch.exp(scores[i][c].detach() / epsilon) for c in range(k)] for i in range(n)
    ]
    total = sum(q[i][c] for i in range(n) for c in range(k))
    q = [[q[i][c] / total for c in range(k)] for i in range(n)]
    for _ in range(iterations):
        for c in range(k):
            mass = sum(q[i][c] for i in range(n))
            for i in range(n):
                q[i][c] = q[i][c] / mass / k
        for i in range(n):
            mass = sum(q[i][c] for c in range(k))
            for c in range(k):
                q[i][c] = q[i][c] / mass / n
    return [[q[i][c] * n for c in range(k)] for i in range(n)]
