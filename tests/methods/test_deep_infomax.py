"""Deep InfoMax: its loss, its gradient, its prior, its views, and what it refuses."""

import math

import pytest
import torch
from tests import reference
from torch import nn

import invariance as inv
from invariance.encoders import Encoder, build_encoder
from invariance.errors import SettingError, ShapeError
from invariance.methods import METHODS, build, customize, options_of

FORMS = ("dim", "dim_jsd", "dim_dv")
TWINS = {
    "dim": lambda u, v, **how: reference.info_nce(u, v, symmetric=False, **how),
    "dim_jsd": reference.jsd,
    "dim_dv": reference.dv,
}
EXACT = {"rtol": 1e-10, "atol": 1e-10}


def make(name="dim", *, head="linear", size=3, **options):
    """A learner on maps of 3 x 3 places with 4 channels, in double precision."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(2, 4, 1), nn.Tanh())
    encoder = Encoder(network, input_shape=(2, size, size), name="small")
    options = {"prior_weight": 0} | options
    method = customize(name, head=head, hidden=6, width=5)
    return build(method, encoder, **options).double()


def make_images(n=4, size=3, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 2, size, size, generator=generator, dtype=torch.float64)


def rows_of(learner, images):
    """Rows of places (n, 9, d), of the map (n, d), and summaries (n, d), by hand."""
    maps, places, whole = learner.encoder.network(images), None, None
    if learner.place_head is not None:
        places = learner.place_head(maps.flatten(2).mT.flatten(0, 1))
        places = places.view(len(images), 9, 5)
    if learner.map_head is not None:
        whole = learner.map_head(maps.flatten(1))
    return places, whole, learner.head(maps.mean((2, 3)))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("normalize", [False, True])
def test_loss_and_gradient_are_the_slow_twins(name, normalize):
    """The mean over places m of the pair loss of (l^m, s), and that of (g, s)."""
    learner, images = make(name, which="both", normalize=normalize), make_images()
    step = learner([images])
    places, whole, summaries = rows_of(learner, images)
    how = {"normalize": normalize, "temperature": 0.2}
    local = [TWINS[name](places[:, m], summaries, **how) for m in range(9)]
    local, over_map = torch.stack(local).mean(), TWINS[name](whole, summaries, **how)
    torch.testing.assert_close(step.parts["local"], local.detach(), **EXACT)
    torch.testing.assert_close(step.parts["global"], over_map.detach(), **EXACT)
    weights = [*learner.parameters()]
    pairs = [torch.autograd.grad(x, weights) for x in (step.loss, local + over_map)]
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", FORMS)
def test_local_is_the_objective_averaged_over_a_family_of_views(name):
    """The views paper's reading: each place is a view, contrasted with the summary."""
    learner, images = make(name), make_images(6)
    places, _, summaries = rows_of(learner, images)
    pair = {"dim": inv.InfoNCE(0.2, symmetric=False)}.get(name)
    pair = pair or inv.OBJECTIVES[METHODS[name].objective](temperature=0.2)
    family = [pair(places[:, m], summaries) for m in range(places.shape[1])]
    expected = torch.stack(family).mean()
    torch.testing.assert_close(learner([images]).loss, expected, **EXACT)


@pytest.mark.parametrize("name", FORMS)
def test_gradcheck(name):
    learner = make(name, which="both")
    images = make_images(3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: learner([x]).loss, images)


def test_views_look_for_each_other_s_summaries():
    learner, views = make(), [make_images(seed=k) for k in (1, 2, 3)]
    rows = [rows_of(learner, view) for view in views]
    pair = inv.InfoNCE(0.2, symmetric=False)
    expected = [
        pair(places[:, m], summaries)
        for a, (places, _, _) in enumerate(rows)
        for b, (_, _, summaries) in enumerate(rows)
        for m in range(9)
        if a != b
    ]
    expected = torch.stack(expected).mean()
    torch.testing.assert_close(learner(views).loss, expected, **EXACT)


@pytest.mark.parametrize("name, chance", [("dim", math.log(4)), ("dim_dv", 0.0)])
def test_where_nothing_tells_images_apart_the_loss_is_chance(name, chance):
    learner = make(name)
    with torch.no_grad():
        for head in (learner.head, learner.place_head):
            head[0].weight.zero_()  # what is left is the bias: all rows are alike
    step = learner([make_images()]).with_ess().with_information()
    assert step.loss.item() == pytest.approx(chance, abs=1e-9)
    assert learner.chance(4) == pytest.approx(chance)
    assert step.readings["mi_ceiling"].item() == pytest.approx(math.log(4))
    assert step.readings["mi_nats"].item() == pytest.approx(0, abs=1e-9)
    assert step.readings["accuracy"].item() == pytest.approx(0.25)
    if name == "dim":
        assert step.readings["ess"].item() == pytest.approx(1)


@pytest.mark.parametrize("name", FORMS)
def test_its_information_is_info_nce_of_its_scores(name):
    """Whatever it is trained by: the other losses' own values are no such bounds."""
    learner, images = make(name), make_images(6)
    step = learner([images]).with_information()
    places, _, summaries = rows_of(learner, images)
    family = [
        inv.info_nce(places[:, m], summaries, temperature=0.2, symmetric=False)
        for m in range(9)
    ]
    nats = math.log(6) - torch.stack(family).mean()
    torch.testing.assert_close(step.readings["mi_nats"], nats, **EXACT)


@pytest.mark.parametrize("name", ["dim", "dim_jsd"])
def test_memory_is_linear_in_the_batch(name):
    """No n M x n scores are kept for the backward pass."""
    n, kept = 512, []
    learner, images = make(name).float(), make_images(n).float()
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(x.numel()) or x, lambda x: x
    ):
        learner([images]).loss.backward()
    assert max(kept) <= n * 9 * 8 < n * 9 * n / 50


# ---------------------------------------------------------------- prior matching


def test_the_prior_pulls_two_ways():
    """Its part reaches the encoder alone, and the discriminator's part that alone."""
    learner, images = make(prior_weight=0.5, which="local"), make_images()
    step = learner([images])
    summaries = learner.head(learner.encoder(images))
    fooled, told = learner.prior(summaries, None)
    names, weights = zip(*learner.named_parameters(), strict=True)
    for part, expected in ((fooled, False), (told, True)):
        slopes = torch.autograd.grad(part, weights, allow_unused=True)
        reached = {k for k, x in zip(names, slopes, strict=True) if x is not None}
        assert reached and {k.startswith("prior.") for k in reached} == {expected}
    total = step.parts["local"] + 0.5 * step.parts["prior"]
    torch.testing.assert_close(step.loss.detach(), total + step.parts["discriminator"])


def test_a_blind_discriminator_costs_chance():
    learner = make(prior_weight=2)
    with torch.no_grad():
        for p in learner.prior.parameters():
            p.zero_()
    step = learner([make_images()])
    assert step.parts["prior"].item() == pytest.approx(math.log(2))
    assert step.parts["discriminator"].item() == pytest.approx(2 * math.log(2))
    assert learner.chance(4) == pytest.approx(math.log(4) + 4 * math.log(2))


def test_draws_are_uniform_and_go_on_where_they_were():
    prior = make(prior_weight=1).prior
    rows = prior.draw(4000)
    torch.testing.assert_close(rows.mean(0), torch.full((5,), 0.5), atol=0.02, rtol=0)
    torch.testing.assert_close(rows.var(0), torch.full((5,), 1 / 12), atol=4e-3, rtol=0)
    assert rows.min() >= 0 and rows.max() < 1
    other = make(prior_weight=1).prior
    other.load_state_dict(prior.state_dict())
    assert torch.equal(prior.draw(7), other.draw(7))
    assert not torch.equal(prior.draw(7), prior.draw(7))


def test_summaries_come_to_look_uniform():
    """By the prior alone: spread and mean of the sigmoids go where uniform ones are."""
    torch.manual_seed(0)
    prior = type(make(prior_weight=1).prior)(2, 32)
    network, noise = nn.Linear(2, 2), torch.Generator().manual_seed(0)
    with torch.no_grad():
        network.weight.copy_(0.3 * torch.eye(2))
        network.bias.copy_(torch.tensor([2.0, -2.0]))
    optimizer = torch.optim.Adam([*network.parameters(), *prior.parameters()], 0.02)
    for _ in range(300):
        z = network(torch.randn(128, 2, generator=noise))
        fooled, told = prior(z, None)
        optimizer.zero_grad()
        (fooled + told).backward()
        optimizer.step()
    rows = network(torch.randn(2000, 2, generator=noise)).sigmoid()
    assert (rows.mean(0) - 0.5).abs().max() < 0.15
    assert rows.std(0).min() > 0.2 and rows.std(0).max() < 0.4


# ---------------------------------------------------------------- choices


def test_pieces_of_a_batch_give_the_gradient_of_the_whole():
    images, gradients = make_images(6), []
    for micro_batch in (None, 4):
        learner = make(which="both", prior_weight=0.1)
        learner.micro_batch = micro_batch
        learner([images, images.flip(-1)]).loss.backward()
        gradients.append([p.grad for p in learner.parameters()])
    for whole, pieces in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, pieces, rtol=1e-10, atol=1e-12)


def test_its_encoder_is_saved_once():
    names = make(which="both", prior_weight=1).state_dict().keys()
    assert {name.partition(".")[0] for name in names} == {
        *("encoder", "head", "place_head", "map_head", "prior"),
    }


@pytest.mark.parametrize("objective", ["dcl", "flat_nce", "debiased", "nt_xent"])
def test_any_softmax_over_negatives_will_do(objective):
    method = customize("dim", objective=objective, settings={"temperature": 0.5})
    learner = build(method, make().encoder.float())
    learner([make_images().float()]).loss.backward()
    assert all(p.grad.isfinite().all() for p in learner.parameters())


def test_options():
    options = options_of("dim")
    assert options["which"].default == "local" and "symmetric" not in options
    assert options["prior_weight"].default == 0.1 and options["stage"].default is None
    settings = {"which": "global", "prior_weight": 0}
    method = customize("dim", settings=settings)
    learner = build(method, make().encoder.float())
    assert learner.which == "global" and learner.prior is None
    learner = build("dim", build_encoder("tiny"), stage=-3)
    assert learner.facts[0] == "local: a map of 8x8 places"


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: make(which="locale"), "Did you mean 'local'"),
        (lambda: make(prior_weight=-1), "prior_weight is 0 or more: got -1"),
        (lambda: make(stage=-2), "from stage -1, the last, to -1: got -2"),
        (
            lambda: build(customize("dim", head="none"), build_encoder("tiny")),
            'head cannot be "none"',
        ),
        (
            lambda: build("dim", nn.Sequential(nn.Flatten(), nn.Linear(3072, 4))),
            "Sequential has no feature map",
        ),
        (
            lambda: build(
                customize("dim", objective="vicreg", settings={}), make().encoder
            ),
            "vicreg does not say what several anchors of a sample cost",
        ),
        (
            lambda: build(customize("dim", negatives="bank"), make().encoder),
            "summaries of a batch, of one encoder",
        ),
        (
            lambda: build(customize("dim", critic="mlp"), make().encoder),
            "places are compared by the inner products",
        ),
        (lambda: make()([make_images(1)]), "at least 2 samples: got 1"),
        (
            lambda: make(which="global")([make_images(size=4)]),
            "whole maps of one size",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises((SettingError, ShapeError), match=message):
        call()
