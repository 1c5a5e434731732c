"""One contract for every method of the catalogue."""

import copy
import itertools

import pytest
import torch
from torch import nn

from invariance.encoders import build_encoder
from invariance.errors import DataError, SettingError
from invariance.methods import METHODS, Method, build, customised
from invariance.objectives import OBJECTIVES
from invariance.views import ViewSet, multi_crop

SMALL = {"hidden": 32, "width": 16}


def make(name, **changes):
    torch.manual_seed(0)
    encoder = build_encoder("tiny", image_size=16)
    options = {"n_prototypes": 6} if name == "swav" else {}
    return build(customised(name, **SMALL, **changes), encoder, **options)


def batch(n_views=2, n=8, size=16):
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(n, 3, size, size, generator=generator)
    return [
        (images + 0.1 * torch.rand(images.shape, generator=generator)) / 1.1
        for _ in range(n_views)
    ]


LABELS = torch.arange(8) % 3


@pytest.mark.parametrize("name", METHODS)
def test_it_is_described(name):
    method = METHODS[name]
    assert method.objective in OBJECTIVES
    assert method.source
    assert method.encoder in ("one", "predictor", "momentum twin")
    assert method.negatives in ("batch", "none")
    assert method.labelled == (name == "supcon")


@pytest.mark.parametrize("name", METHODS)
def test_it_trains(name):
    learner = make(name)
    views = batch(METHODS[name].n_views)
    optimizer = torch.optim.SGD(
        [p for p in learner.parameters() if p.requires_grad], lr=1e-3
    )
    for done in range(2):
        step = learner(views, LABELS)
        assert step.loss.shape == () and bool(step.loss.isfinite())
        assert step.u.shape == step.v.shape == (8, learner.head.width)
        assert not step.u.requires_grad and not step.v.requires_grad
        optimizer.zero_grad()
        step.loss.backward()
        for part in (learner.encoder, learner.head):
            for k, p in part.named_parameters():
                assert p.grad is not None and bool(p.grad.isfinite().all()), k
            assert any(bool(p.grad.any()) for p in part.parameters())
        optimizer.step()
        learner.after_step((done + 1) / 2)


@pytest.mark.parametrize("name", METHODS)
def test_its_state_comes_back(name):
    learner, views = make(name), batch(METHODS[name].n_views)
    learner(views, LABELS)
    twin = make(name)
    twin.load_state_dict(copy.deepcopy(learner.state_dict()))
    assert torch.equal(learner(views, LABELS).loss, twin(views, LABELS).loss)


@pytest.mark.parametrize("name", METHODS)
def test_crops_of_two_sizes_go_through(name):
    learner = make(name)
    images = torch.rand(8, 3, 16, 16)
    views = ViewSet(multi_crop(16, n_local=1))
    crops = views(images, samples=torch.arange(8), seed=0, epoch=0)
    assert [len({v.shape[-1] for v in crops}), len(crops)] == [2, 3]
    assert bool(learner(crops, LABELS).loss.isfinite())


def test_more_views_than_two_are_averaged_over_pairs():
    learner = make("dcl").eval()
    views = batch(3)
    expected = [learner(list(pair)).loss for pair in itertools.combinations(views, 2)]
    torch.testing.assert_close(learner(views).loss, torch.stack(expected).mean())
    learner = make("byol").eval()
    expected = [learner(list(pair)).loss for pair in itertools.combinations(views, 2)]
    torch.testing.assert_close(learner(views).loss, torch.stack(expected).mean())


def test_supcon_without_labels_is_refused():
    with pytest.raises(DataError, match=r"supcon learns from labels.*simclr"):
        make("supcon")(batch())


def test_labels_change_nothing_for_the_others():
    learner, views = make("simclr").eval(), batch()
    assert torch.equal(learner(views).loss, learner(views, LABELS).loss)


def test_the_twin_follows():
    learner = make("byol", momentum=0.9)
    with torch.no_grad():
        for p in learner.encoder.parameters():
            p += 1.0
    online = [*learner.encoder.parameters(), *learner.head.parameters()]
    before = [p.clone() for p in learner.twin.network.parameters()]
    learner.after_step(0.5)  # half way, 0.9 has risen to 0.95
    for p, was, now in zip(
        learner.twin.network.parameters(), before, online, strict=True
    ):
        torch.testing.assert_close(p, 0.95 * was + 0.05 * now.detach())
    learner(batch()).loss.backward()
    assert all(p.grad is None for p in learner.twin.parameters())
    frozen = [p.clone() for p in learner.twin.network.parameters()]
    learner.after_step(1.0)
    assert all(map(torch.equal, learner.twin.network.parameters(), frozen))


def test_simsiam_has_no_twin_and_its_targets_no_gradient():
    learner = make("simsiam")
    assert learner.twin is None
    views = batch()
    with torch.no_grad():
        for p in learner.predictor[-1].parameters():
            p.zero_()
        learner.predictor[-1].bias.fill_(1.0)  # one guess for all
    learner(views).loss.backward()
    assert all(not p.grad.any() for p in learner.encoder.parameters())


def test_counts_may_come_as_floats_from_flags_and_files():
    encoder = build_encoder("tiny", image_size=16)
    learner = build("swav", encoder, n_prototypes=6.0, epsilon=1.0)
    assert learner.objective.prototypes.shape == (6, 128)
    with pytest.raises(SettingError, match="swav cannot take the settings"):
        build("swav", encoder, n_prototypes=6.5)


def test_sizes_of_one_kind_share_their_statistics():
    """Views of one size go through the network as one batch."""

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = nn.Conv2d(3, 4, 3), []

        def forward(self, x):
            self.seen.append(tuple(x.shape))
            return self.layer(x)

    encoder = build_encoder(Counting(), image_size=16)
    encoder.network.seen.clear()
    learner = build(customised("simclr", **SMALL), encoder)
    learner([*batch(2), *batch(1, size=8)])
    assert encoder.network.seen == [(16, 3, 16, 16), (8, 3, 8, 8)]


@pytest.mark.parametrize(
    "method, options, message",
    [
        ("simlcr", {}, "Did you mean 'simclr'"),
        (Method(objective="info_nec"), {}, "Did you mean 'info_nce'"),
        (Method(objective="byol", encoder="twin"), {}, "Unknown kind of encoder"),
        (
            Method(objective="nt_xent", encoder="momentum twin"),
            {},
            "needs an objective with targets",
        ),
        ("byol", {"temperature": 0.1}, "byol cannot take the settings"),
        ("simclr", {"temperature": 0.0}, "temperature must be a positive number"),
    ],
)
def test_what_cannot_be_built_is_said(method, options, message):
    with pytest.raises(SettingError, match=message):
        build(method, build_encoder("tiny", image_size=16), **options)
