"""Objectives that compare a positive logit with a sum of exponentials."""

import math

import torch
from torch import Tensor

from ._scalars import dot, log_sum_exp, mean, rows


def info_nce(u, v, *, temperature=0.1, symmetric=True, normalize=True):
    """LSE_j s_ij - s_ii over the n rows of the other view, positive included."""
    u, v = rows(u, normalize), rows(v, normalize)

    def one_way(a, b):
        losses = []
        for i in range(len(a)):
            logits = [dot(a[i], b[j]) / temperature for j in range(len(b))]
            losses.append(log_sum_exp(logits) - logits[i])
        return mean(losses)

    return (one_way(u, v) + one_way(v, u)) / 2 if symmetric else one_way(u, v)


def nt_xent(u, v, *, temperature=0.5, normalize=True):
    """2n anchors; each picks its partner out of the 2n - 1 other rows."""
    z, n = rows(u, normalize) + rows(v, normalize), len(u)
    losses = []
    for i in range(2 * n):
        partner = (i + n) % (2 * n)
        logits = [dot(z[i], z[k]) / temperature for k in range(2 * n) if k != i]
        losses.append(log_sum_exp(logits) - dot(z[i], z[partner]) / temperature)
    return mean(losses)


def negative_logits(own, other, i, temperature, negatives) -> list[Tensor]:
    """Logits of anchor own[i] against the other samples' rows."""
    logits = []
    for j in range(len(own)):
        if j == i:
            continue
        logits.append(dot(own[i], other[j]) / temperature)
        if negatives == "all":
            logits.append(dot(own[i], own[j]) / temperature)
    return logits


def dcl(u, v, *, temperature=0.1, negatives="all", weight_sigma=None, normalize=True):
    """-w_i s_ii + LSE over negatives only (decoupled contrastive learning)."""
    assert negatives in ("all", "cross")
    u, v = rows(u, normalize), rows(v, normalize)
    n = len(u)
    weights = [torch.tensor(1.0, dtype=torch.float64) for _ in range(n)]
    if weight_sigma is not None:
        scores = [dot(u[k], v[k]).detach() / weight_sigma for k in range(n)]
        total = log_sum_exp(scores)
        weights = [2 - n * torch.exp(scores[i] - total) for i in range(n)]
    losses = []
    for own, other in ((u, v), (v, u)):
        for i in range(n):
            positive = weights[i] * dot(own[i], other[i]) / temperature
            logits = negative_logits(own, other, i, temperature, negatives)
            losses.append(log_sum_exp(logits) - positive)
    return mean(losses)


def dhel(u, v, *, temperature=0.3, views="mean", normalize=True):
    """-s_ii + LSE over the same view's other rows; no positive, no cross-view."""
    u, v = rows(u, normalize), rows(v, normalize)
    n = len(u)
    losses = []
    for i in range(n):
        positive = dot(u[i], v[i]) / temperature
        within_u = log_sum_exp(
            [dot(u[i], u[j]) / temperature for j in range(n) if j != i]
        )
        within_v = log_sum_exp(
            [dot(v[i], v[j]) / temperature for j in range(n) if j != i]
        )
        spread = {
            "first": within_u,
            "sum": within_u + within_v,
            "mean": (within_u + within_v) / 2,
        }[views]
        losses.append(spread - positive)
    return mean(losses)


def flat_nce(
    u,
    v,
    *,
    temperature=0.1,
    negatives="all",
    keep_positive=False,
    gamma=1.0,
    normalize=True,
):
    """exp(v_i - stopgrad v_i): always 1, only the gradient means something.

    v_i = (1/gamma) [LSE_j gamma (s_ij - s_ii) - log n_negatives], with a further term
    0 (the positive against itself) inside the LSE when keep_positive.
    """
    assert negatives in ("all", "cross")
    u, v = rows(u, normalize), rows(v, normalize)
    losses = []
    for own, other in ((u, v), (v, u)):
        for i in range(len(u)):
            positive = dot(own[i], other[i]) / temperature
            logits = negative_logits(own, other, i, temperature, negatives)
            terms = [gamma * (logit - positive) for logit in logits]
            if keep_positive:
                terms.append(0 * positive)
            value = (log_sum_exp(terms) - math.log(len(logits))) / gamma
            losses.append(torch.exp(value - value.detach()))
    return mean(losses)


def debiased(u, v, *, temperature=0.5, prior=0.1, hardness=0.0, normalize=True):
    """-log pos / (pos + Ng), Ng the negatives' sum with the false ones taken out.

    Ng = (S - prior * N * pos) / (1 - prior), at least N exp(-1/temperature), where N is
    2n - 2 and S = sum e^l, or sum(e^{hardness l} e^l) / mean e^{hardness l}.
    """
    u, v = rows(u, normalize), rows(v, normalize)
    losses = []
    for own, other in ((u, v), (v, u)):
        for i in range(len(u)):
            positive = torch.exp(dot(own[i], other[i]) / temperature)
            logits = negative_logits(own, other, i, temperature, "all")
            count = len(logits)
            tilts = [torch.exp(hardness * logit) for logit in logits]
            tilted = sum(
                tilt * torch.exp(logit)
                for tilt, logit in zip(tilts, logits, strict=True)
            ) / mean(tilts)
            negative = (tilted - prior * count * positive) / (1 - prior)
            floor = -1 / torch.as_tensor(temperature, dtype=torch.float64)
            negative = torch.maximum(negative, count * floor.exp())
            losses.append(-torch.log(positive / (positive + negative)))
    return mean(losses)


def sup_con(z, labels, *, temperature=0.1, normalize=True):
    """L_out: minus the mean log-probability of the same-label rows.

    No base-temperature factor; an anchor alone in its class counts 0.
    """
    z, n = rows(z, normalize), len(z)
    losses = []
    for i in range(n):
        others = [a for a in range(n) if a != i]
        positives = [p for p in others if labels[p] == labels[i]]
        if not positives:
            losses.append(0 * dot(z[i], z[i]))
            continue
        total = log_sum_exp([dot(z[i], z[a]) / temperature for a in others])
        losses.append(mean([total - dot(z[i], z[p]) / temperature for p in positives]))
    return mean(losses)


def sig_lip(u, v, *, scale=10.0, bias=-10.0, normalize=True):
    """softplus(-m_ij (scale c_ij + bias)), summed over all n^2 pairs, over n."""
    u, v = rows(u, normalize), rows(v, normalize)
    n = len(u)
    total = []
    for i in range(n):
        for j in range(n):
            logit = scale * dot(u[i], v[j]) + bias
            margin = -logit if i == j else logit
            total.append(log_sum_exp([0 * margin, margin]))
    return sum(total) / n


def jsd(u, v, *, temperature=0.1, normalize=True):
    """softplus(-s_ii) over partners, plus softplus(s_ij) over strangers: two means."""
    u, v = rows(u, normalize), rows(v, normalize)
    alike, unlike = [], []
    for i in range(len(u)):
        for j in range(len(u)):
            score = dot(u[i], v[j]) / temperature
            margin, kind = (-score, alike) if i == j else (score, unlike)
            kind.append(log_sum_exp([0 * margin, margin]))
    return mean(alike) + mean(unlike)


def flo(u, v, *, temperature=0.5, slope=1.0, bias=0.0, normalize=True):
    """d + exp(log mean_j e^s_ij - s_ii - d) - 1 of both directions, d = b - k s_ii."""
    u, v = rows(u, normalize), rows(v, normalize)
    n = len(u)
    losses = []
    for own, other in ((u, v), (v, u)):
        for i in range(n):
            positive = dot(own[i], other[i]) / temperature
            logits = negative_logits(own, other, i, temperature, "cross")
            contrast = log_sum_exp(logits) - math.log(n - 1) - positive
            dual = bias - slope * positive
            excess = contrast - dual
            low = min(excess, torch.tensor(5.0, dtype=torch.float64))
            losses.append(dual + torch.exp(low) * (1 + excess - low) - 1)
    return mean(losses)


def unified(
    u,
    v,
    *,
    temperature=0.5,
    psi="log1p",
    cross_weight=1.0,
    within_weight=1.0,
    normalize=True,
):
    """psi(c1 sum_j e^(s_ij - s_ii) + c2 sum_j e^(a_ij - s_ii)) of all 2n anchors."""
    named = {
        "log1p": torch.log1p,
        "log": torch.log,
        "identity": lambda x: x,
        "sqrt": torch.sqrt,
    }
    u, v = rows(u, normalize), rows(v, normalize)
    losses = []
    for own, other in ((u, v), (v, u)):
        for i in range(len(u)):
            positive = dot(own[i], other[i]) / temperature
            total = torch.tensor(0.0, dtype=torch.float64)
            for j in range(len(u)):
                if j != i:
                    across = dot(own[i], other[j]) / temperature - positive
                    within = dot(own[i], own[j]) / temperature - positive
                    total = total + cross_weight * torch.exp(across)
                    total = total + within_weight * torch.exp(within)
            losses.append(named[psi](total))
    return mean(losses)


def dv(u, v, *, temperature=0.1, normalize=True):
    """log of the mean of e^s_ij over strangers, minus the mean of s_ii."""
    u, v = rows(u, normalize), rows(v, normalize)
    n = len(u)
    scores = [[dot(u[i], v[j]) / temperature for j in range(n)] for i in range(n)]
    strange = [scores[i][j] for i in range(n) for j in range(n) if i != j]
    log_mean = log_sum_exp(strange) - math.log(len(strange))
    return log_mean - mean([scores[i][i] for i in range(n)])
