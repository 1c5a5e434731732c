"""The ESS of every method is that of the negatives its loss has, pair by pair."""

import copy
import itertools
import math

import pytest
import torch
from tests import reference
from tests.image_methods import IMAGE_METHODS
from tests.reference._scalars import dot, rows

from invariance.encoders import build_encoder
from invariance.methods import build, customize

N, N_SAMPLES = 6, 24
IDS, LABELS = torch.arange(N) * 3, torch.arange(N) % 3
SMALL = {"hidden": 16, "width": 4}
OPTIONS = {  # sizes that 24 samples can fill
    "ball": {"k": 5, "temperature": 0.5},
    "annulus": {"inner": 2, "outer": 7, "outer_start": 9},
    "vince": {"n_proposals": 12},
    "vince_plus": {"n_proposals": 12},
    "flatclr": {"gamma": 2.0},
}
# which rows (view b, sample j) are negatives of an anchor (view a, sample i)
IN_BATCH = {
    "all": lambda a, i, b, j: i != j,
    "cross": lambda a, i, b, j: i != j and a != b,
    "within": lambda a, i, b, j: i != j and a == b,
    "classes": lambda a, i, b, j: LABELS[i] != LABELS[j],
}
KIND = {"info_nce": "cross", "dhel": "within", "supcon": "classes"}
POWER = {"hcl": 2.0, "flatclr": 2.0}  # 1 + hardness; gamma


def learner_of(name):
    torch.manual_seed(0)
    encoder = build_encoder("tiny", image_size=16)
    method = customize(name, **SMALL)
    return build(method, encoder, n_samples=N_SAMPLES, **OPTIONS.get(name, {}))


@pytest.fixture
def views():
    return list(torch.rand(4, N, 3, 16, 16, generator=torch.Generator().manual_seed(1)))


def project(network, views):
    with torch.no_grad():
        return [rows(z.double()) for z in network(torch.cat(views)).chunk(len(views))]


def scores_in_batch(name, learner, views):
    z = project(learner.online, views)
    allowed = IN_BATCH[KIND.get(name, "all")]
    everyone = list(itertools.product(range(len(z)), range(N)))
    for a, i in everyone:
        yield [dot(z[a][i], z[b][j]) for b, j in everyone if allowed(a, i, b, j)]


def scores_of_neighbors(learner, views):
    """While the support is empty, a neighbor is the row itself."""
    with torch.no_grad():
        z = learner.online(torch.cat(views))
        guesses = [rows(g.double()) for g in learner.predictor(z).chunk(len(views))]
    z = [rows(x.double()) for x in z.chunk(len(views))]
    for a, b in itertools.permutations(range(len(z)), 2):
        for i in range(N):
            yield [dot(z[a][i], guesses[b][j]) for j in range(N) if j != i]


def scores_of_places(learner, views):
    """Places of one view with the other samples' summaries of the other."""
    images = torch.cat(views)
    with torch.no_grad():
        maps = learner.encoder.feature_map(images)
        places = learner.place_head(maps.flatten(2).mT.flatten(0, 1)).double()
        places = places.unflatten(0, (len(views), N, -1))
    summaries = project(learner.online, views)
    for a, b in itertools.permutations(range(len(views)), 2):
        for i in range(N):
            for place in rows(places[a][i]):
                yield [dot(place, summaries[b][j]) for j in range(N) if j != i]


def scores_of_keys(learner, views):
    """Before anything is in the queue: the other samples' keys of this batch."""
    (queries,), (keys,) = (
        project(learner.online, views[:1]),
        project(learner.twin, views[1:]),
    )
    for i in range(N):
        yield [dot(queries[i], keys[j]) for j in range(N) if j != i]


def scores_in_bank(name, source, z):
    """By a copy of the source, whose dice fall the same way."""
    bank = source.bank or source
    for view in z:
        drawn = range(N_SAMPLES)
        if name == "ir_sampled":
            drawn = source.draw(source.n_draws).tolist()
        if name == "ir_stratified":
            drawn = source.draw().tolist()
        if name == "ir_control_variate":
            drawn = bank.draw(source.n_draws).tolist()
        if name.startswith("vince"):
            drawn = bank.draw(source.n_proposals).tolist()
            dice = bank.throw_dice(N, len(drawn))
        for i, own in enumerate(IDS.tolist()):
            scores = {k: dot(view[i], bank.z[j].double()) for k, j in enumerate(drawn)}
            others = [k for k, j in enumerate(drawn) if j != own]
            ranked = sorted(others, key=lambda k: -scores[k])
            if name == "ball":
                others = ranked[:5]
            elif name == "annulus":
                others = ranked[2:9]
            elif name.startswith("vince"):
                masked = torch.tensor(
                    [scores[k] if k in others else -math.inf for k in range(len(drawn))]
                )[None].float()
                u = view[i][None].float()
                r = source.acceptance(masked, u, bank.z[drawn])[0]
                others = [k for k in others if dice[i, k] < r[k]]
                assert others
            yield [scores[k] for k in others]


def scores_by_hand(name, learner, views):
    method = IMAGE_METHODS[name]
    if method.positives == "neighbors":
        return scores_of_neighbors(learner, views)
    if method.positives == "places":
        return scores_of_places(learner, views)
    if method.negatives == "batch":
        return scores_in_batch(name, learner, views)
    if method.negatives == "queue":
        return scores_of_keys(learner, views)
    z = project(learner.online, views)
    return scores_in_bank(name, copy.deepcopy(learner.negatives), z)


@pytest.mark.parametrize("name", IMAGE_METHODS)
def test_the_ess_of_every_method(name, views):
    learner = learner_of(name)
    views = views[: IMAGE_METHODS[name].n_views]
    objective = learner.objective
    by_hand = None
    if objective.negatives is not None:
        scale = POWER.get(name, 1.0) / objective.temperature
        by_hand = [
            reference.effective_share([scale * s for s in scores])
            for scores in scores_by_hand(name, learner, views)
        ]
    step = learner(views, labels=LABELS, ids=IDS).with_ess()
    if by_hand is None:
        assert "ess" not in step.readings
    else:
        expected = sum(by_hand) / len(by_hand)
        assert float(step.readings["ess"]) == pytest.approx(expected, rel=1e-4)
        assert expected < 0.99  # or any negatives would do


def test_methods_without_a_softmax_have_none():
    without = {n for n in IMAGE_METHODS if learner_of(n).objective.negatives is None}
    assert without == {
        "kcl",
        "ir_nce",
        "sig_lip",
        "dim_jsd",
        "dim_dv",
        "flo",
        "align_uniform",
        "byol",
        "simsiam",
        "barlow_twins",
        "vicreg",
        "swav",
    }


def test_prototypes_have_an_ess_of_their_own(views):
    options = {"warmup": 0.0, "n_clusters": 4, "n_clusterings": 2}
    encoder = build_encoder("tiny", image_size=16)
    learner = build(customize("pcl", **SMALL), encoder, n_samples=N_SAMPLES, **options)
    learner.before_epoch(0.0)
    step = learner(views[:2], ids=IDS).with_ess()
    (u,) = project(learner.online, views[:1])
    shares = []
    for prototypes in learner.prototypes:
        for anchor, own in zip(u, prototypes.labels[IDS], strict=True):
            logits = [
                dot(anchor, center.double()) / (0.2 * float(phi))
                for c, (center, phi) in enumerate(
                    zip(prototypes.centers, prototypes.concentration, strict=True)
                )
                if c != own
            ]
            shares.append(reference.effective_share(logits))
    expected = sum(shares) / len(shares)
    assert float(step.readings["ess/prototypes"]) == pytest.approx(expected, rel=1e-4)


def test_the_reading_changes_nothing_that_is_trained(views):
    """A bank that draws throws the same dice, whether it is asked or not."""
    losses = []
    for asks in (False, True):
        learner = learner_of("vince_plus")
        for _ in range(3):
            step = learner(views[:2], ids=IDS)
            if asks:
                step = step.with_ess()
            learner.after_step(0.5)
        losses.append(step.loss.item())
    assert losses[0] == losses[1]


def test_negatives_are_counted(views):
    learner = learner_of("moco")
    assert learner.negatives.n_negatives == 0
    learner(views[:2], ids=IDS)
    learner.after_step(0.1)
    assert learner.negatives.n_negatives == N
    counts = {"ir": 23, "ir_sampled": 23, "ball": 5, "annulus": 7, "la": 23}
    counts |= {"vince": 12}
    for name, n in counts.items():
        assert learner_of(name).negatives.n_negatives == n
