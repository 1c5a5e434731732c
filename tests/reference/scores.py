"""Scores and readings of whole sets, one number at a time, in float64."""

import math
from itertools import combinations

import torch

from ._scalars import dot, rows


def ranked(gallery, query) -> list[int]:
    """Gallery rows from the nearest on, by cosine; equals in their order."""
    gallery, (query,) = rows(gallery), rows(query[None])
    cosines = [dot(query, row).item() for row in gallery]
    return sorted(range(len(gallery)), key=lambda j: (-cosines[j], j))


def recall_at(k, gallery, labels, queries, truths) -> float:
    """Share of queries with one of their class among the k nearest."""
    found = 0
    for query, truth in zip(queries, truths, strict=True):
        found += any(labels[j] == truth for j in ranked(gallery, query)[:k])
    return found / len(queries)


def mean_average_precision(gallery, labels, queries, truths) -> float:
    """Mean over queries of the mean precision at each hit."""
    total = 0.0
    for query, truth in zip(queries, truths, strict=True):
        hits, precisions = 0, []
        for rank, j in enumerate(ranked(gallery, query), start=1):
            if labels[j] == truth:
                hits += 1
                precisions.append(hits / rank)
        total += sum(precisions) / len(precisions) if precisions else 0.0
    return total / len(queries)


def normalised_mutual_information(a, b) -> float:
    """2 I(A;B) / (H(A) + H(B)) of two labellings."""
    n = len(a)
    p, q, joint = {}, {}, {}
    for x, y in zip(a, b, strict=True):
        p[x] = p.get(x, 0) + 1 / n
        q[y] = q.get(y, 0) + 1 / n
        joint[x, y] = joint.get((x, y), 0) + 1 / n
    shared = sum(s * math.log(s / (p[x] * q[y])) for (x, y), s in joint.items())
    own = -sum(s * math.log(s) for law in (p, q) for s in law.values())
    return 2 * shared / own if own else 1.0


def adjusted_rand_index(a, b) -> float:
    """Agreement over pairs of rows, above what chance would give."""
    pairs = list(combinations(range(len(a)), 2))
    in_a = [a[i] == a[j] for i, j in pairs]
    in_b = [b[i] == b[j] for i, j in pairs]
    both = sum(x and y for x, y in zip(in_a, in_b, strict=True))
    chance = sum(in_a) * sum(in_b) / len(pairs)
    most = (sum(in_a) + sum(in_b)) / 2
    return (both - chance) / (most - chance) if most != chance else 1.0


def gradient_signal_to_noise(u, v, objective, batch_size) -> float:
    """Length of the mean gradient over the spread of single ones, unbiased."""
    d = u.shape[1]
    gradients = []
    for start in range(0, len(u) // batch_size * batch_size, batch_size):
        layer = torch.eye(d, dtype=torch.float64, requires_grad=True)
        part = slice(start, start + batch_size)
        loss = objective(u[part] @ layer, v[part] @ layer)
        (gradient,) = torch.autograd.grad(loss, layer)
        gradients.append(gradient.flatten().tolist())
    n = len(gradients)
    center = [sum(g[k] for g in gradients) / n for k in range(d * d)]
    noise = sum(math.dist(g, center) ** 2 for g in gradients) / (n - 1)
    signal = sum(c * c for c in center) - noise / n
    return math.sqrt(max(signal, 0) / noise)


def ridge_r2(x, y, strength, n_fit) -> float:
    """R² on the rows after n_fit of one ridge regression fitted on those before."""
    fit, test = x[:n_fit], x[n_fit:]
    mean = [sum(column) / n_fit for column in fit.T.tolist()]
    spread = [
        math.sqrt(sum((c - m) ** 2 for c in column) / n_fit)
        for column, m in zip(fit.T.tolist(), mean, strict=True)
    ]
    fit, test = (
        (part - torch.tensor(mean)) / torch.tensor(spread) for part in (fit, test)
    )
    center = sum(y[:n_fit].tolist()) / n_fit
    identity = torch.eye(x.shape[1], dtype=torch.float64)
    normal = fit.T @ fit / n_fit + strength * identity
    w = torch.linalg.solve(normal, fit.T @ (y[:n_fit] - center) / n_fit)
    guess, truth = (test @ w + center).tolist(), y[n_fit:].tolist()
    middle = sum(truth) / len(truth)
    left = sum((t - g) ** 2 for t, g in zip(truth, guess, strict=True))
    return 1 - left / sum((t - middle) ** 2 for t in truth)
