"""Several views of unlike sizes, and who is compared with whom.

Targets, keys and what is remembered show a whole image; small crops only predict and
ask, and never meet each other.
"""

import itertools

import pytest
import torch
from torch import nn

from invariance.encoders import build_encoder
from invariance.methods import build, customize

IDS = torch.tensor([3, 23, 0, 7, 11, 5, 19, 2])
SIZES = (16, 8, 16, 8, 8)  # large and small crops, in any order
WHOLE, PARTS = (0, 2), (1, 3, 4)


@pytest.fixture
def crops():
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(8, 3, size, size, generator=generator) for size in SIZES]


def make(name, **options):
    torch.manual_seed(0)
    encoder = build_encoder("tiny", image_size=16)
    method = customize(name, hidden=32, width=16)
    return build(method, encoder, n_samples=24, **options).eval()


def rows_of(learner, views):
    """Unit projections of each view."""
    return [nn.functional.normalize(learner.online(view), dim=1) for view in views]


def test_swav_assigns_large_crops_only_and_all_others_predict_them(crops, monkeypatch):
    from invariance.objectives import sinkhorn

    learner, calls = make("swav", n_prototypes=6), []

    def count(logits, iterations):
        calls.append(len(logits))
        return sinkhorn(logits, iterations)

    monkeypatch.setattr("invariance.objectives._swav.sinkhorn", count)
    loss = learner(crops).loss
    assert calls == [8, 8]
    prototypes = nn.functional.normalize(learner.objective.prototypes, dim=1)
    scores = [row @ prototypes.T for row in rows_of(learner, crops)]
    expected = [
        -(sinkhorn(scores[a] / 0.05, 3) * (scores[b] / 0.1).log_softmax(1)).sum(1)
        for a in WHOLE
        for b in range(5)
        if a != b
    ]
    torch.testing.assert_close(loss, torch.stack(expected).mean())


@pytest.mark.parametrize("name", ["simclr", "info_nce", "sig_lip", "vicreg", "kcl"])
def test_small_crops_are_compared_with_large_ones_alone(name, crops):
    learner = make(name)
    pairs = [*itertools.combinations(WHOLE, 2), *itertools.product(WHOLE, PARTS)]
    expected = [learner([crops[a], crops[b]]) for a, b in pairs]
    # a pair of one large and one small crop is a pair like any other
    step = learner(crops)
    torch.testing.assert_close(
        step.loss, torch.stack([one.loss for one in expected]).mean()
    )
    u, v = (learner.online(crops[a]) for a in WHOLE)
    torch.testing.assert_close((step.u, step.v), (u.detach(), v.detach()))


def test_views_that_an_objective_puts_together_itself_are_all_there(crops):
    learner = make("multi_view")
    z = torch.stack([learner.online(crops[k]) for k in (*WHOLE, *PARTS)])
    torch.testing.assert_close(learner(crops).loss, learner.objective(z))


@pytest.mark.parametrize("name, scale", [("byol", 4.0), ("simsiam", 1.0)])
def test_large_crops_are_the_targets(name, scale, crops):
    learner = make(name)
    guesses = [learner.predictor(learner.online(view)) for view in crops]
    network = learner.online if learner.twin is None else learner.twin
    cosines = [
        torch.cosine_similarity(guesses[a], network(crops[b]), dim=1).mean()
        for b in WHOLE
        for a in range(5)
        if a != b
    ]
    expected = -scale * torch.stack(cosines).mean() + (4 if name == "byol" else 0)
    torch.testing.assert_close(learner(crops).loss, expected)


def contrast(u, key, ids=IDS, keys=None):
    """InfoNCE of anchors and keys with the other samples' keys as negatives."""
    keys = key if keys is None else keys
    logits = torch.cat([(u * key).sum(1, keepdim=True), u @ keys.T], 1) / 0.2
    same = ids[:, None] == ids.repeat(len(keys) // len(ids))
    logits[:, 1:][same] = -torch.inf
    return nn.functional.cross_entropy(logits, torch.zeros(len(u), dtype=torch.long))


def test_moco_asks_with_all_but_the_key(crops):
    learner = make("moco", size=40)
    rows = rows_of(learner, crops)
    key = nn.functional.normalize(learner.twin(crops[2]), dim=1)
    expected = torch.stack([contrast(rows[a], key) for a in (0, *PARTS)]).mean()
    torch.testing.assert_close(learner(crops, ids=IDS).loss, expected)
    learner.train()
    learner(crops, ids=IDS)
    learner.after_step(0.5)
    assert len(learner.negatives) == 8


@pytest.mark.parametrize("n_views", [2, 3])
def test_symmetric_moco_asks_with_every_view_and_remembers_all_keys(n_views):
    learner = make("moco", size=80, symmetric=True)
    generator = torch.Generator().manual_seed(0)
    views = [torch.rand(8, 3, 16, 16, generator=generator) for _ in range(n_views)]
    rows = rows_of(learner, views)
    keys = [nn.functional.normalize(learner.twin(view), dim=1) for view in views]
    expected = [
        contrast(rows[a], keys[b], keys=torch.cat(keys))
        for a, b in itertools.permutations(range(n_views), 2)
    ]
    torch.testing.assert_close(
        learner(views, ids=IDS).loss, torch.stack(expected).mean()
    )
    learner.train()
    for step in (1, 2):
        learner(views, ids=IDS)
        learner.after_step(0.5)
        assert len(learner.negatives) == 8 * n_views * step
    assert torch.equal(learner.negatives.ids[: 8 * n_views], IDS.repeat(n_views))


def test_a_bank_remembers_a_large_crop(crops):
    learner = make("ir", bank_momentum=0.0).train()
    learner(crops, ids=IDS)
    ((used, _),) = learner.used
    learner.after_step(0.5)
    assert used.shape == (8, 16)
    learner.eval()
    rows = rows_of(make("ir").train(), [torch.cat([crops[0], crops[2]])])[0][8:]
    torch.testing.assert_close(learner.negatives.z[IDS], rows.detach())


def test_nnclr_swaps_large_crops_for_neighbors(crops):
    learner = make("nnclr", size=20)
    rows = rows_of(learner, crops)
    guesses = [
        nn.functional.normalize(learner.predictor(learner.online(view)), dim=1)
        for view in crops
    ]
    expected = [  # without neighbors yet a row is its own
        nn.functional.cross_entropy(rows[a] @ guesses[b].T / 0.1, torch.arange(8))
        for a in WHOLE
        for b in range(5)
        if a != b
    ]
    loss = learner(crops, ids=IDS).loss
    torch.testing.assert_close(loss, torch.stack(expected).mean())
