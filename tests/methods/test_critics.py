"""A learned critic as a method's choice: its loss, its readings, who can have one."""

import math

import pytest
import torch
from tests.reference.critics import critic_score
from torch.nn.functional import logsigmoid

import invariance as inv
from invariance.encoders import build_encoder
from invariance.errors import SettingError
from invariance.methods import Method, build, customize, options_of

LEARNED = ["bilinear", "separable", "mlp"]
SIZES = {"width": 6, "hidden": 8}


def make(method="info_nce", critic="bilinear", **options):
    torch.manual_seed(0)
    method = customize(method, critic=critic, **SIZES)
    learner = build(method, build_encoder("tiny", image_size=16), **options).double()
    if learner.critic is not None:
        for p in learner.critic.parameters():  # one that starts at zero is no test
            torch.nn.init.normal_(p, std=0.3)
    return learner


def views(n=5, n_views=2):
    generator = torch.Generator().manual_seed(1)
    size = (n_views, n, 3, 16, 16)
    return list(torch.rand(*size, generator=generator, dtype=torch.float64))


def scores(learner, step):
    rows = [[critic_score(learner.critic, a, b) for b in step.v] for a in step.u]
    return torch.stack([torch.stack(row) for row in rows])


@pytest.mark.parametrize("critic", LEARNED)
def test_its_loss_and_gradients_are_those_of_the_scores(critic):
    learner = make(critic=critic, temperature=0.7)
    step = learner(views())
    u, v = learner.encode(learner.online, views())
    s = scores(learner, step._replace(u=u, v=v)) / 0.7
    own = torch.arange(len(s))
    cross_entropy = torch.nn.functional.cross_entropy
    slow = (cross_entropy(s, own) + cross_entropy(s.T, own)) / 2
    torch.testing.assert_close(step.loss, slow)
    learning = list(learner.parameters())
    ours = torch.autograd.grad(step.loss, learning, allow_unused=True)
    twin = torch.autograd.grad(slow, learning, allow_unused=True)
    assert sum(g is not None for g in ours) == len(learning)
    for got, want in zip(ours, twin, strict=True):
        want = torch.zeros_like(got) if want is None else want
        torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("critic", LEARNED)
def test_views_of_one_encoder_may_change_places(critic):
    learner = make(critic=critic)
    forth, back = (learner(v) for v in (views(), views()[::-1]))
    torch.testing.assert_close(forth.loss, back.loss)
    s = scores(learner, forth)
    torch.testing.assert_close(s, scores(learner, back).T)


@pytest.mark.parametrize("critic", LEARNED)
def test_readings_are_those_of_the_critic(critic):
    learner = make(critic=critic, temperature=0.7)
    step = learner(views(7)).with_ess().with_information()
    s, n = (scores(learner, step) / 0.7).detach(), 7
    negatives = s.masked_fill(torch.eye(n, dtype=torch.bool), -math.inf)
    both = [negatives.softmax(1), negatives.softmax(0).T]
    ess = torch.cat([1 / (w**2).sum(1) / (n - 1) for w in both]).mean()
    loss = torch.nn.functional.cross_entropy(s, torch.arange(n))
    found = (s.argmax(1) == torch.arange(n)).double().mean()
    expected = {"ess": ess, "info_nce": loss, "mi_nats": math.log(n) - loss}
    expected |= {"mi_ceiling": math.log(n), "mi_reachable": math.log(n)}
    for name, value in (expected | {"accuracy": found}).items():
        assert float(step.readings[name]) == pytest.approx(float(value)), name


@pytest.mark.parametrize("critic", LEARNED)
def test_one_sided_infonce_asks_by_rows_alone(critic):
    learner = make(critic=critic, symmetric=False)
    step = learner(views()).with_ess()
    s = scores(learner, step)
    slow = torch.nn.functional.cross_entropy(s, torch.arange(len(s)))
    torch.testing.assert_close(step.loss, slow)
    assert len(step.shares["ess"][0]()) == len(s)


@pytest.mark.parametrize("critic", ["bilinear", "separable"])
def test_yes_or_no_questions_take_inner_products(critic):
    learner = make("sig_lip", critic=critic)
    step = learner(views())
    s = learner.objective.scale * scores(learner, step) + learner.objective.bias
    kind = 2 * torch.eye(len(s)) - 1
    torch.testing.assert_close(step.loss, -logsigmoid(kind * s).sum() / len(s))


@pytest.mark.parametrize("critic", LEARNED)
@pytest.mark.parametrize("method", ["dcl", "flatclr"])
def test_objectives_across_views_take_all(method, critic):
    learner = make(method, critic=critic, negatives="cross")
    step = learner(views(n_views=3)).with_information()
    step.loss.backward()
    assert all(p.grad is not None for p in learner.critic.parameters())
    assert "ess" in step.with_ess().readings


@pytest.mark.parametrize("critic", LEARNED)
def test_pieces_give_the_whole_gradient(critic):
    learner = make(critic=critic).eval()  # batch norms see a piece at a time
    grads = []
    for micro_batch in (None, 2):
        learner.zero_grad()
        learner.micro_batch = micro_batch
        learner(views()).loss.backward()
        grads.append([p.grad.clone() for p in learner.parameters()])
    for whole, pieces in zip(*grads, strict=True):
        torch.testing.assert_close(whole, pieces)


@pytest.mark.parametrize(
    "method", ["simclr", "dcl", "kcl", "align_uniform", "byol", "supcon", "swav"]
)
def test_objectives_on_the_sphere_or_within_views_refuse(method):
    with pytest.raises(SettingError, match="scores a row of one view with one of the"):
        make(method)


@pytest.mark.parametrize(
    "method, critic, message",
    [
        ("sig_lip", "mlp", "SigLIP sums over inner products, but the mlp critic has"),
        ("moco", "bilinear", "remembered rows are compared by their cosines"),
        ("nnclr", "bilinear", "remembered rows are compared by their cosines"),
        ("cpc", "mlp", "step ahead is predicted by its own bilinear critic"),
        ("info_nce", "bilinaer", "Unknown critic 'bilinaer'. Did you mean 'bilinear'?"),
    ],
)
def test_what_does_not_go_together_is_said(method, critic, message):
    with pytest.raises(SettingError, match=message):
        make(method, critic)


def test_its_sizes_are_options():
    learner = make(critic="separable", critic_width=5, critic_depth=1, critic_embed=3)
    assert [p.shape[0] for p in learner.critic.critic.of_x.parameters()] == [5, 5, 4, 4]
    assert "normalize" not in options_of(customize("info_nce", critic="mlp"))
    with pytest.raises(SettingError, match=r"critic_width +64 +1 or more"):
        make(critic="mlp", critic_width=0)
    with pytest.raises(SettingError, match="Unknown option 'critic_width'"):
        make(critic="dot", critic_width=5)


def test_it_starts_undecided_and_at_temperature_one():
    torch.manual_seed(0)
    method = customize("info_nce", critic="bilinear", **SIZES)
    learner = build(method, build_encoder("tiny", image_size=16))
    loss = learner([v.float() for v in views()]).loss.item()
    assert loss == pytest.approx(math.log(5), abs=1e-5)
    assert learner.objective.temperature == 1.0
    mine = Method(objective="info_nce", critic="bilinear", settings={"temperature": 2})
    learner = build(mine, build_encoder("tiny", image_size=16))
    assert learner.objective.temperature == 2


def test_dot_is_what_it_was():
    assert make(critic="dot").critic is None
    assert isinstance(inv.methods.METHODS["info_nce"], Method)


def test_its_state_comes_back():
    learner, other = make(critic="mlp"), make(critic="mlp")
    with torch.no_grad():
        learner.critic.critic.of_x.weight.add_(1)
    other.load_state_dict(learner.state_dict())
    torch.testing.assert_close(learner(views()).loss, other(views()).loss)


@pytest.mark.parametrize("critic", LEARNED)
def test_of_two_encoders_each_keeps_its_place(critic):
    torch.manual_seed(0)
    method = customize("clip", critic=critic, **SIZES)
    encoders = [build_encoder("tiny", image_size=16) for _ in range(2)]
    learner = build(method, encoders[0], other=encoders[1]).double()
    for p in learner.critic.parameters():
        torch.nn.init.normal_(p, std=0.3)
    step = learner(views())
    s = scores(learner, step)
    own = torch.arange(len(s))
    cross_entropy = torch.nn.functional.cross_entropy
    slow = (cross_entropy(s, own) + cross_entropy(s.T, own)) / 2
    torch.testing.assert_close(step.loss, slow)
    swapped = scores(learner, step._replace(u=step.v, v=step.u)).T
    assert not torch.allclose(s, swapped)
