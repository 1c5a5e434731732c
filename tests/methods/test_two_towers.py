"""Two towers: what is computed is the formula, whole, in pieces and on processes."""

import pytest
import torch
from tests.processes import on_processes
from torch import nn
from torch.nn.functional import cross_entropy, logsigmoid, normalize

import invariance as inv
from invariance.encoders import Encoder, build_head
from invariance.errors import SettingError, ShapeError
from invariance.methods import TwoTowers
from invariance.objectives import LearnedTemperature

N, WIDTH = 12, 5
OBJECTIVES = {
    "clip": lambda: inv.InfoNCE(temperature=LearnedTemperature(0.07, minimum=0.01)),
    "siglip": lambda: inv.SigLIP(learnable=True),
}

LEARNED = {
    "clip": {"objective.temperature.log_scale"},
    "siglip": {"objective.log_scale", "objective.bias"},
}


def make_towers(objective, seed=0):
    torch.manual_seed(seed)
    image = Encoder(nn.Sequential(nn.Linear(7, 6), nn.Tanh()), input_shape=(7,))
    text = Encoder(nn.Sequential(nn.Linear(3, 4), nn.Tanh()), input_shape=(3,))
    heads = [build_head("linear", tower.width, out=WIDTH) for tower in (image, text)]
    return TwoTowers(image, heads[0], OBJECTIVES[objective](), text, heads[1]).double()


def make_pairs(n=N):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(n, d, generator=generator).double() for d in (7, 3)]


def direct_loss(name, learner, views):
    """As the papers have it, on the whole matrix of logits."""
    u = normalize(learner.head(learner.encoder(views[0])))
    v = normalize(learner.other_head(learner.other(views[1])))
    objective, target = learner.objective, torch.arange(len(u))
    if name == "clip":
        logits = objective.temperature.log_scale.exp() * u @ v.T
        return (cross_entropy(logits, target) + cross_entropy(logits.T, target)) / 2
    logits = objective.log_scale.exp() * u @ v.T + objective.bias
    sign = 2 * torch.eye(len(u)).double() - 1
    return -logsigmoid(sign * logits).sum() / len(u)


def gradients(loss, learner):
    named = dict(learner.named_parameters())
    return dict(
        zip(named, torch.autograd.grad(loss, list(named.values())), strict=True)
    )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_loss_and_gradients_are_the_direct_formula(name):
    """The learned temperature, or scale and bias, among them."""
    learner, views = make_towers(name), make_pairs()
    step, direct = learner(views), direct_loss(name, learner, views)
    torch.testing.assert_close(step.loss, direct, rtol=1e-12, atol=0)
    ours, theirs = gradients(step.loss, learner), gradients(direct, learner)
    assert LEARNED[name] <= ours.keys()
    for key, gradient in theirs.items():
        torch.testing.assert_close(ours[key], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_pieces_give_the_gradient_of_the_whole_batch(name):
    learner, views = make_towers(name), make_pairs()
    whole = gradients(learner(views).loss, learner)
    learner.micro_batch = 5
    pieces = gradients(learner(views).loss, learner)
    for key, gradient in whole.items():
        torch.testing.assert_close(pieces[key], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_processes_give_the_gradient_of_the_whole_batch(name, tmp_path):
    """What DistributedDataParallel averages, of shares of unequal sizes."""
    views, places = make_pairs(), [slice(0, 7), slice(7, N)]

    def work(rank):
        learner = make_towers(name)
        step = learner([view[places[rank]] for view in views])
        return step.loss.item(), gradients(step.loss, learner)

    learner = make_towers(name)
    loss = learner(views).loss
    whole = gradients(loss, learner)
    answers = on_processes(2, work, tmp_path)
    for value, _ in answers:
        assert value == pytest.approx(loss.item(), rel=1e-12)
    for key, gradient in whole.items():
        mean = (answers[0][1][key] + answers[1][1][key]) / 2
        torch.testing.assert_close(mean, gradient, rtol=1e-9, atol=1e-12)


def test_several_views_of_a_side_meet_the_other_side_only():
    learner, (image, text) = make_towers("clip"), make_pairs()
    learner.n_first = 2
    both = learner([image, image.flip(1), text]).loss
    learner.n_first = 1
    one, two = (learner([view, text]).loss for view in (image, image.flip(1)))
    torch.testing.assert_close(both, (one + two) / 2)


def test_a_learned_temperature_stays_above_a_hundredth():
    learner = make_towers("clip")
    with torch.no_grad():
        learner.objective.temperature.log_scale.fill_(9.0)
    learner(make_pairs())
    assert float(learner.objective.temperature) == pytest.approx(0.01)


def test_what_does_not_fit_is_refused():
    learner, views = make_towers("clip"), make_pairs()
    with pytest.raises(ShapeError, match="then the other's: got 1"):
        learner(views[:1])
    parts = learner.encoder, learner.head, learner.objective, learner.other
    with pytest.raises(SettingError, match="rows of one width: got heads of 5 and 9"):
        TwoTowers(*parts, build_head("linear", 4, out=9))
    with pytest.raises(SettingError, match=r"objective of two views.*got SupCon"):
        TwoTowers(*parts[:2], inv.SupCon(), learner.other, learner.other_head)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_loss_and_gradients_are_those_of_open_clip(name):
    """On the same logits, the learned numbers included."""
    from open_clip import loss as peer  # seconds, which others need not wait for

    learner, views = make_towers(name), make_pairs()
    u = normalize(learner.head(learner.encoder(views[0])))
    v = normalize(learner.other_head(learner.other(views[1])))
    if name == "clip":
        theirs = peer.ClipLoss()(u, v, learner.objective.temperature.log_scale.exp())
    else:
        how = learner.objective.log_scale.exp(), learner.objective.bias
        theirs = peer.SigLipLoss()(u, v, *how)
    ours = learner(views).loss
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=0)
    ours, theirs = gradients(ours, learner), gradients(theirs, learner)
    for key, gradient in theirs.items():
        torch.testing.assert_close(ours[key], gradient, rtol=1e-8, atol=1e-10)
