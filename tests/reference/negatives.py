"""Who the anchors are compared with: every set made by hand, one index at a time.

Sets are lists of row numbers. ``against`` is the algebra of the softmax objectives on
one positive logit and one list of negative logits an anchor; what is in those lists is
decided by the functions before it.
"""

import math

import torch

from ._scalars import dot, log_sum_exp, mean, rows, unit

# Memories.


def queue_rows(batches, size):
    """The (unit row, id) pairs a queue holds: in at the end, out at the front."""
    held = []
    for z, ids in batches:
        for i in range(len(z)):
            held.append((unit(z[i]), int(ids[i])))
            if len(held) > size:
                held.pop(0)
    return held


def bank_update(bank, z, ids, momentum):
    """M[i] <- normalise(m M[i] + (1 - m) f) for each f, unit, of sample i."""
    bank = [row.clone() for row in bank]
    for i in range(len(z)):
        own = int(ids[i])
        bank[own] = unit(momentum * bank[own] + (1 - momentum) * unit(z[i]))
    return torch.stack(bank)


# Sets of rows. ``own`` is the anchor's own row, which is in none of them.


def not_own(ids, own):
    """Numbers of the rows that are not of the anchor's sample."""
    return [j for j in range(len(ids)) if int(ids[j]) != int(own)]


def ranked(anchor, bank, own):
    """The other rows, nearest first."""
    others = [j for j in range(len(bank)) if j != int(own)]
    return sorted(others, key=lambda j: -dot(anchor, bank[j]).item())


def ball(anchor, bank, own, k):
    """The k nearest."""
    return ranked(anchor, bank, own)[:k]


def ring(anchor, bank, own, inner, outer):
    """The nearest ``outer`` without the nearest ``inner``."""
    return ranked(anchor, bank, own)[inner:outer]


def rank_of_share(share, n_rows):
    """How many of the other rows a share of them is, to the nearest number."""
    return round(share * (n_rows - 1))


def close_rows(labels, own):
    """The rows that share a cluster with the anchor in any of the clusterings."""
    found = []
    for j in range(len(labels[0])):
        shares = any(int(one[j]) == int(one[int(own)]) for one in labels)
        if j != int(own) and shares:
            found.append(j)
    return found


# Objectives, given logits.


def against(
    name,
    positives,
    negatives,
    *,
    temperature,
    log_weights=None,
    weight_sigma=None,
    keep_positive=False,
    gamma=1.0,
    prior=0.1,
    hardness=0.0,
):
    """The one-sided loss of anchors with these logits, negatives weighed or not."""
    if log_weights is None:
        log_weights = [[0.0] * len(logits) for logits in negatives]
    losses = []
    for i, (s, logits) in enumerate(zip(positives, negatives, strict=True)):
        weighed = list(zip(logits, log_weights[i], strict=True))
        plain = [w + x for x, w in weighed]
        if name in ("info_nce", "nt_xent"):
            losses.append(log_sum_exp([s, *plain]) - s)
        elif name == "dhel":
            losses.append(log_sum_exp(plain) - s)
        elif name == "dcl":
            weight = 1.0
            if weight_sigma is not None:
                cosines = [temperature * p.detach() for p in positives]
                nearness = [torch.exp(c / weight_sigma) for c in cosines]
                weight = 2 - len(positives) * nearness[i] / sum(nearness)
            losses.append(log_sum_exp(plain) - weight * s)
        elif name == "flat_nce":
            terms = [w + gamma * (x - s) for x, w in weighed]
            value = log_sum_exp([*terms, 0 * s] if keep_positive else terms) / gamma
            losses.append(torch.exp(value - value.detach()))
        elif name == "debiased":
            count = sum(math.exp(w) for _, w in weighed)
            tilted = sum(torch.exp(w + (1 + hardness) * x) for x, w in weighed)
            tilt = sum(torch.exp(w + hardness * x) for x, w in weighed) / count
            total = (tilted / tilt - prior * count * torch.exp(s)) / (1 - prior)
            floor = count * math.exp(-1 / temperature)
            if total < floor:
                total = torch.tensor(floor, dtype=torch.float64)
            losses.append(-torch.log(torch.exp(s) / (torch.exp(s) + total)))
        else:
            raise ValueError(name)
    return mean(losses)


def logits_of(u, z, sets, temperature):
    """Logits of each anchor with the rows of its set."""
    return [[dot(u[i], z[j]) / temperature for j in sets[i]] for i in range(len(sets))]


def local_aggregation(u, bank, ids, labels, *, k, temperature):
    """-log sum over C and B / sum over B, the anchor's own row in both."""
    losses = []
    for anchor, own in zip(rows(u), ids, strict=True):
        background = [int(own), *ball(anchor, bank, own, k)]
        both = [j for j in background if j == int(own) or j in close_rows(labels, own)]
        over = [
            log_sum_exp([dot(anchor, bank[j]) / temperature for j in part])
            for part in (both, background)
        ]
        losses.append(over[1] - over[0])
    return mean(losses)


def multi_view_against(z, negatives, *, temperature, aggregate):
    """negatives[l][i]: the logits of view l of image i with its negatives."""
    z = [rows(view) for view in z]
    n_views, n = len(z), len(z[0])
    losses = []
    for i in range(n):

        def s(a, b, i=i):
            return dot(z[a][i], z[b][i]) / temperature

        pairs = [(a, b) for a in range(n_views) for b in range(a + 1, n_views)]
        both_ways = pairs + [(b, a) for a, b in pairs]
        spread = [negatives[a][i] for a in range(n_views)]
        if aggregate in ("pairs", "poly"):
            for a, b in both_ways:
                losses.append(log_sum_exp([s(a, b), *spread[a]]) - s(a, b))
        elif aggregate == "mv_info_nce":
            positive = [s(a, b) for a, b in both_ways]
            everything = positive + [x for part in spread for x in part]
            losses.append(log_sum_exp(everything) - log_sum_exp(positive))
        elif aggregate == "mv_dhel":
            repel = sum(log_sum_exp(part) for part in spread)
            losses.append(repel - log_sum_exp([s(a, b) for a, b in pairs]))
    return mean(losses)


def sup_con_against(z, labels, held, held_labels, *, temperature):
    """SupCon whose denominator has the held rows of other classes besides."""
    z, losses = rows(z), []
    for i in range(len(z)):
        others = [a for a in range(len(z)) if a != i]
        positives = [p for p in others if labels[p] == labels[i]]
        further = not_own(held_labels, labels[i])
        everything = [dot(z[i], z[a]) / temperature for a in others]
        everything += [dot(z[i], held[j]) / temperature for j in further]
        if not positives:
            losses.append(0 * dot(z[i], z[i]))
            continue
        total = log_sum_exp(everything)
        losses.append(mean([total - dot(z[i], z[p]) / temperature for p in positives]))
    return mean(losses)


# Binary NCE.


def binary_nce_of(positives, noise, *, log_z=None):
    """softplus(c - s) + sum over noise of softplus(l - c), c = log Z + log k.

    k is the number of noise rows; Z, unless given, is the mean of e^l over all of the
    noise of all anchors, and a constant.
    """
    if log_z is None:
        everything = [logit.detach() for logits in noise for logit in logits]
        log_z = log_sum_exp(everything) - math.log(len(everything))
    losses = []
    for s, logits in zip(positives, noise, strict=True):
        c = log_z + math.log(len(logits))
        terms = [softplus(c - s)] + [softplus(logit - c) for logit in logits]
        losses.append(sum(terms))
    return mean(losses)


def softplus(x):
    return log_sum_exp([0 * x, x])


def binary_nce(u, v, *, temperature=0.07, log_z=None, normalize=True):
    """The noise of anchor u_i is the other rows of v."""
    u, v = rows(u, normalize), rows(v, normalize)
    n = len(u)
    noise = [[j for j in range(n) if j != i] for i in range(n)]
    positives = [dot(u[i], v[i]) / temperature for i in range(n)]
    return binary_nce_of(positives, logits_of(u, v, noise, temperature), log_z=log_z)


# Accepted negatives.


def acceptance_weights(r, weighted=True):
    """Weights of the kept rows: what each stands for among the proposals, or 1."""
    return [1 / float(p) if weighted else 1.0 for p in r]


# Prototypes.


def concentration(z, labels, centers):
    """phi_c = mean distance / log(n_c + 10), clipped to 10-90 %, mean one.

    A cluster of one or none has the largest of the others.
    """
    phi, lonely = [], []
    for c in range(len(centers)):
        members = [j for j in range(len(z)) if int(labels[j]) == c]
        lonely.append(len(members) < 2)
        distances = [math.dist(z[j].tolist(), centers[c].tolist()) for j in members]
        spread = sum(distances) / max(len(members), 1)
        phi.append(spread / math.log(len(members) + 10))
    phi = [max(phi) if alone else p for p, alone in zip(phi, lonely, strict=True)]
    low, high = (percentile(phi, q) for q in (0.1, 0.9))
    phi = [min(max(p, low), high) for p in phi]
    return [p * len(phi) / sum(phi) for p in phi]


def percentile(values, q):
    """Linear between the two nearest of the ordered values."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


# Partition estimates: numbers in, an estimate of Z (not of its logarithm) out.


def monte_carlo(s):
    return sum(math.exp(x) for x in s) / len(s)


def importance(s, p, q):
    """Draws from q: each counts p / q."""
    terms = [math.exp(x) * a / b for x, a, b in zip(s, p, q, strict=True)]
    return sum(terms) / len(terms)


def stratified(s, stratum, probability):
    total = 0.0
    for h in range(len(probability)):
        inside = [x for x, g in zip(s, stratum, strict=True) if g == h]
        total += probability[h] * monte_carlo(inside)
    return total


def control_variate(s, expected_first, expected_second, c=None):
    """mean of e^s - c (h - E h), h = 1 + s + s^2 / 2, from E s and E s^2."""
    h = [1 + x + x**2 / 2 for x in s]
    expected = 1 + expected_first + expected_second / 2
    if c is None:
        middle, top = sum(h) / len(h), monte_carlo(s)
        pairs = list(zip(s, h, strict=True))
        covariance = sum((math.exp(x) - top) * (y - middle) for x, y in pairs)
        c = covariance / sum((y - middle) ** 2 for y in h)
    terms = [math.exp(x) - c * (y - expected) for x, y in zip(s, h, strict=True)]
    return sum(terms) / len(terms)
