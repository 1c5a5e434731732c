"""Every source of negatives beside its sets made by hand, and every objective."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from tests import reference
from tests.reference._scalars import dot, log_sum_exp, rows
from torch import Tensor

import invariance as inv
from invariance.negatives import Accepted, Between, Nearest, Prototypes

TAU = 0.5
# torch takes the logarithm of a whole number, such as that of the rows kept, in float32
LOOSE = {"rtol": 1e-9, "atol": 1e-9}

OBJECTIVES = {
    "info_nce": (inv.InfoNCE, {}),
    "nt_xent": (inv.NTXent, {}),
    "dcl": (inv.DCL, {}),
    "dclw": (inv.DCL, {"weight_sigma": 0.5}),
    "dhel": (inv.DHEL, {}),
    "flat_nce": (inv.FlatNCE, {}),
    "flat_nce with the positive": (inv.FlatNCE, {"keep_positive": True}),
    "flat_nce gamma 2": (inv.FlatNCE, {"gamma": 2.0}),
    "flat_nce gamma -0.5": (inv.FlatNCE, {"gamma": -0.5}),
    "debiased": (inv.Debiased, {}),
    "debiased hard": (inv.Debiased, {"hardness": 1.0}),
    "debiased at its floor": (inv.Debiased, {"prior": 0.9}),
}
NAMES = {cls: name for name, cls in inv.OBJECTIVES.items()}


@dataclass(frozen=True)
class Scene:
    """Anchors, a source, and by hand what it compares them with."""

    source: Any
    u: Tensor
    v: Tensor | None
    ids: Tensor
    by_hand: Callable[[list[Tensor], list[Tensor] | None], Any]
    """Unit rows in; positive logits, negative logits and log-weights out."""
    tolerance: dict[str, float] = field(
        default_factory=lambda: {"rtol": 1e-9, "atol": 1e-9}
    )

    def hand(self, u: Tensor, v: Tensor | None) -> Any:
        return self.by_hand(rows(u), None if v is None else rows(v))

    @property
    def everyone_has_negatives(self) -> bool:
        _, negatives, _ = self.hand(self.u, self.v)
        return all(map(len, negatives))


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def some_ids(n: int, n_samples: int, seed: int) -> Tensor:
    return torch.randperm(n_samples, generator=torch.Generator().manual_seed(seed))[:n]


def queue(seed=0, n=4, d=3, size=7, batches=(3, 5, 2), n_samples=10) -> Scene:
    """Batches that do not divide it; ids come back, some of them the anchors'."""
    source, told = inv.Queue(size, d).double(), []
    for k, length in enumerate(batches):
        ids = some_ids(length, n_samples, seed + 10 * k)
        told.append((draw(length, d, seed=seed + 20 * k + 1), ids))
        source.remember(*told[-1])
    held = reference.queue_rows(told, size)
    ids = some_ids(n, n_samples, seed + 3)

    def by_hand(u, v):
        sets = [reference.not_own([i for _, i in held], own) for own in ids]
        negatives = reference.logits_of(u, [z for z, _ in held], sets, TAU)
        return [dot(a, b) / TAU for a, b in zip(u, v, strict=True)], negatives, None

    return Scene(source, draw(n, d, seed=seed), draw(n, d, seed=seed + 1), ids, by_hand)


def bank_scene(seed, n, d, n_samples, make, sets_of) -> Scene:
    """A source on a memory bank; ``sets_of`` lists the negatives of one anchor."""
    ids = some_ids(n, n_samples, seed)
    bank = inv.Bank(n_samples, d, seed=seed).double()
    bank.z.copy_(torch.stack(rows(draw(n_samples, d, seed=seed + 5))))
    source, z = make(bank), bank.z.clone()

    def by_hand(u, v):
        pairs = list(zip(u, ids, strict=True))
        sets = [sets_of(a, z, own) for a, own in pairs]
        positives = [dot(a, z[own]) / TAU for a, own in pairs]
        return positives, reference.logits_of(u, z, sets, TAU), None

    return Scene(source, draw(n, d, seed=seed), None, ids, by_hand)


def bank(seed=0, n=4, d=3, n_samples=9) -> Scene:
    def everyone(anchor, z, own):
        return reference.not_own(range(len(z)), own)

    return bank_scene(seed, n, d, n_samples, lambda b: b, everyone)


def drawn(seed=0, n=4, d=3, n_samples=9, n_draws=6) -> Scene:
    """The rows a copy of the bank draws; one's own row may be among them."""
    scene = bank(seed, n, d, n_samples)
    scene.source.n_draws = n_draws
    spare = copy.deepcopy(scene.source)
    lot, z = spare.draw(n_draws), spare.z

    def by_hand(u, v):
        sets = [[int(j) for j in lot if j != own] for own in scene.ids]
        positives, _, _ = scene.by_hand(u, v)
        return positives, reference.logits_of(u, z, sets, TAU), None

    return Scene(scene.source, scene.u, None, scene.ids, by_hand)


def ball(seed=0, n=4, d=3, n_samples=9, k=3, share=None) -> Scene:
    rank = k if share is None else reference.rank_of_share(share, n_samples)
    asked = {"k": k} if share is None else {"share": share}
    return bank_scene(
        seed,
        n,
        d,
        n_samples,
        lambda b: inv.Ball(b, **asked),
        lambda anchor, z, own: reference.ball(anchor, z, own, rank),
    )


def annulus(seed=0, n=4, d=3, n_samples=9, inner=2, outer=6) -> Scene:
    inside, outside = (
        reference.rank_of_share(r, n_samples) if isinstance(r, float) else r
        for r in (inner, outer)
    )
    return bank_scene(
        seed,
        n,
        d,
        n_samples,
        lambda b: inv.Annulus(
            b,
            **{
                f"{name}_share" if isinstance(r, float) else name: r
                for name, r in (("inner", inner), ("outer", outer))
            },
        ),
        lambda anchor, z, own: reference.ring(anchor, z, own, inside, outside),
    )


def between(seed=0, n=4, d=3, n_samples=12, low=-0.4, high=0.8) -> Scene:
    """A ring by similarity; without an upper end, a ball."""

    def inside(anchor, z, own):
        others = reference.not_own(range(len(z)), own)
        return [j for j in others if low <= dot(anchor, z[j]) <= high]

    def make(b):
        if high == 1:
            return inv.Ball(b, min_similarity=low)
        return inv.Annulus(b, min_similarity=low, max_similarity=high)

    return bank_scene(seed, n, d, n_samples, make, inside)


def near(seed=0, n=4, d=3, n_samples=12, low=-0.4) -> Scene:
    return between(seed, n, d, n_samples, low, high=1)


def neighbors(seed=0, n=4, d=3, n_samples=12, k=7, n_clusters=4, n_clusterings=2):
    """Clusterings at random; the positive is the close part of the ball."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(n_clusters, (n_clusterings, n_samples), generator=generator)

    def make(b):
        source = inv.Neighbors(
            b, k=k, n_clusters=n_clusters, n_clusterings=n_clusterings, warmup=0
        )
        source.refresh(0.0)
        source.labels.copy_(labels)
        return source

    scene = bank_scene(seed, n, d, n_samples, make, lambda *_: [])
    z = scene.source.bank.z.clone()

    def by_hand(u, v):
        positives, negatives = [], []
        for anchor, own in zip(u, scene.ids, strict=True):
            ball = reference.ball(anchor, z, own, k)
            close = reference.close_rows(labels, own)
            near = [int(own), *(j for j in ball if j in close)]
            far = [j for j in ball if j not in close]
            positives.append(log_sum_exp([dot(anchor, z[j]) / TAU for j in near]))
            negatives.append([dot(anchor, z[j]) / TAU for j in far])
        return positives, negatives, None

    return Scene(scene.source, scene.u, None, scene.ids, by_hand)


def accepted(
    seed=0,
    n=4,
    d=3,
    n_samples=9,
    n_proposals=8,
    share=0.25,
    floor=0.3,
    weighted=False,
    limits=None,
) -> Scene:
    """The dice of a copy of the bank say what is proposed and what is kept."""
    scene = bank(seed, n, d, n_samples)
    memory = scene.source
    rule = Nearest(share, floor) if limits is None else Between(*limits, floor)
    source = Accepted(memory, rule, n_proposals=n_proposals, weighted=weighted)
    spare = copy.deepcopy(memory)
    lot, z = spare.draw(n_proposals), spare.z
    dice = spare.throw_dice(n, n_proposals)

    def by_hand(u, v):
        positives, _, _ = scene.by_hand(u, v)
        negatives, log_weights = [], []
        for i, (anchor, own) in enumerate(zip(u, scene.ids, strict=True)):
            scores = [dot(anchor, z[j]) for j in lot]
            ranked = [
                -math.inf if j == own else s.item()
                for s, j in zip(scores, lot, strict=True)
            ]
            best = sorted(ranked, reverse=True)
            low, high = best[max(round(share * n_proposals), 1) - 1], math.inf
            if limits is not None:
                low, high = limits
            r = [1.0 if low <= s <= high else floor for s in ranked]
            others = [k for k in range(n_proposals) if lot[k] != own]
            kept = [k for k in others if float(dice[i, k]) < r[k]]
            if not kept and others and not weighted:
                kept = [max(others, key=lambda k: (r[k], -k))]
            weights = reference.acceptance_weights([r[k] for k in kept], weighted)
            log_weights.append(
                torch.tensor(weights, dtype=torch.float64).log().tolist()
            )
            negatives.append([scores[k] / TAU for k in kept])
        return positives, negatives, log_weights

    return Scene(source, scene.u, None, scene.ids, by_hand, LOOSE)


def weighted(seed=0, **sizes) -> Scene:
    return accepted(seed, weighted=True, **sizes)


def similar(seed=0, **sizes) -> Scene:
    return accepted(seed, limits=(-0.3, 0.7), **sizes)


def stratified(seed=0, n=4, d=3, n_samples=9, n_draws=6, n_clusters=2) -> Scene:
    """A row from each cell, drawn by the dice of a copy of the bank; weight N / K."""
    scene = bank(seed, n, d, n_samples)
    source = inv.Stratified(scene.source, n_draws=n_draws, n_clusters=n_clusters)
    source.refresh(0.0)
    spare = copy.deepcopy(scene.source)
    dice, z = spare.throw_dice(1, n_draws)[0].tolist(), spare.z
    size = n_samples / n_draws
    places = [int((k + dice[k]) * size) for k in range(n_draws)]
    lot = [int(source.order[place]) for place in places]

    def by_hand(u, v):
        sets = [[j for j in lot if j != own] for own in scene.ids]
        positives, _, _ = scene.by_hand(u, v)
        weights = [[math.log(size)] * len(chosen) for chosen in sets]
        return positives, reference.logits_of(u, z, sets, TAU), weights

    return Scene(source, scene.u, None, scene.ids, by_hand, LOOSE)


def prototypes(seed=0, n=4, d=3, n_samples=12, n_clusters=4) -> Scene:
    """Centres of k-means as it comes, each with its own temperature."""

    def make(b):
        source = Prototypes(b, n_clusters=n_clusters, warmup=0).double()
        source.refresh(0.0)
        return source

    scene = bank_scene(seed, n, d, n_samples, make, lambda *_: [])
    source = scene.source
    z, labels, centers = source.bank.z, source.labels.clone(), source.centers.clone()

    def by_hand(u, v):
        phi = reference.concentration(z, labels, centers)
        positives, negatives = [], []
        for anchor, own in zip(u, scene.ids, strict=True):
            logits = [
                dot(anchor, c) / (TAU * p) for c, p in zip(centers, phi, strict=True)
            ]
            mine = int(labels[own])
            positives.append(logits[mine])
            negatives.append([x for c, x in enumerate(logits) if c != mine])
        return positives, negatives, None

    return Scene(source, scene.u, None, scene.ids, by_hand, LOOSE)


SOURCES = {
    "queue": queue,
    "bank": bank,
    "drawn": drawn,
    "ball": ball,
    "annulus": annulus,
    "near": near,
    "between": between,
    "neighbors": neighbors,
    "accepted": accepted,
    "similar": similar,
    "weighted": weighted,
    "stratified": stratified,
    "prototypes": prototypes,
}
