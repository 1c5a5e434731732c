"""Corners in which a memory of negatives is easily wrong."""

import itertools
import math

import pytest
import torch
from tests import reference
from torch.autograd import grad

import invariance as inv
from invariance.encoders import build_encoder
from invariance.errors import InvarianceError, SettingError, ShapeError
from invariance.methods import Method, build
from invariance.negatives import (
    AcceptanceNetwork,
    Accepted,
    Clusters,
    Nearest,
    Prototypes,
    concentration,
    control_variate_partition,
    kmeans,
    stratified_partition,
)

from . import scenes
from .scenes import TAU, draw

U, V, IDS = torch.eye(4, 8), torch.eye(4, 8), torch.arange(4)


def full_queue():
    q = inv.Queue(6, 8)
    q.remember(U, IDS + 10)
    return q


@pytest.mark.parametrize("source", ["queue", "bank", "drawn"])
def test_binary_nce_counts_its_noise_without_the_own_row(source):
    scene = scenes.SOURCES[source](seed=4)
    objective = inv.BinaryNCE(TAU).double()
    ours = objective.against(scene.u, scene.v, scene.source, scene.ids)
    positives, noise, _ = scene.hand(scene.u, scene.v)
    torch.testing.assert_close(ours, reference.binary_nce_of(positives, noise))


@pytest.mark.parametrize(
    "make",
    [
        lambda bank: Accepted(bank, Nearest(0.1, 0.01), n_proposals=40),
        lambda bank: Prototypes(bank, n_clusters=4, warmup=0),
        lambda bank: inv.Neighbors(bank, k=9, n_clusters=4, warmup=0),
    ],
)
def test_binary_nce_refuses_what_is_no_plain_noise(make):
    source = make(inv.Bank(50, 8))
    with pytest.raises(SettingError, match="from a queue or a bank"):
        inv.BinaryNCE(TAU).against(U, None, source, IDS)


@pytest.mark.parametrize(
    "name", ["kcl", "sig_lip", "vicreg", "byol", "barlow_twins", "align_uniform"]
)
def test_objectives_without_softmax_say_so(name):
    with pytest.raises(SettingError, match="no softmax over negatives"):
        inv.OBJECTIVES[name]().against(U, V, full_queue(), IDS)


def test_build_refuses_them():
    m = Method(
        objective="kcl",
        encoder="momentum twin",
        negatives="queue",
        source_settings={"size": 16},
    )
    with pytest.raises(SettingError):
        build(m, build_encoder("tiny", image_size=16))


@pytest.mark.parametrize("name", ["ball", "annulus", "neighbors"])
def test_autocast_does_not_move_the_band(name):
    bank = inv.Bank(500, 32)
    source = {
        "ball": lambda: inv.Ball(bank, k=20),
        "annulus": lambda: inv.Annulus(bank, inner=5, outer=30),
        "neighbors": lambda: inv.Neighbors(bank, k=30, n_clusters=10, warmup=0),
    }[name]()
    source.refresh(1.0)
    u = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    outside = inv.InfoNCE(0.1).against(u, None, source, torch.arange(8))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = inv.InfoNCE(0.1).against(u, None, source, torch.arange(8))
    torch.testing.assert_close(inside, outside)


def test_autocast_does_not_round_the_accepted():
    bank = inv.Bank(500, 32)
    source = Accepted(bank, Nearest(1.0), n_proposals=200)
    u = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
    outside = inv.InfoNCE(0.1).against(u, None, source, torch.arange(8))
    bank.n_drawn.zero_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = inv.InfoNCE(0.1).against(u, None, source, torch.arange(8))
    torch.testing.assert_close(inside, outside)


def la(labels, k=3):
    bank = inv.Bank(4, 3).double()
    rows = torch.tensor(
        [[1.0, 0, 0], [0.98, 0.2, 0], [0.3, 1, 0], [0.1, 0.9, 0.5]], dtype=torch.float64
    )
    bank.z.copy_(torch.nn.functional.normalize(rows, dim=1))
    source = inv.Neighbors(bank, k=k, n_clusters=2, n_clusterings=1, warmup=0)
    source.refresh(0.0)
    source.labels.copy_(torch.tensor([labels]))
    return bank.z[:2].clone(), source


@pytest.mark.parametrize("objective", [inv.DCL, inv.DHEL, inv.FlatNCE])
def test_neighbors_with_little_left_of_the_ball(objective):
    u, source = la(
        [0, 0, 1, 1]
    )  # cosines 1, 0.98 close; 0.29, 0.10 not: 1e-5 of the ball
    u.requires_grad_()
    loss = objective(0.07).against(u, None, source, torch.arange(2))
    assert loss.isfinite() and grad(loss, u)[0].isfinite().all()


@pytest.mark.parametrize("objective", [inv.DCL, inv.DHEL, inv.FlatNCE])
def test_neighbors_with_nothing_left_of_the_ball(objective):
    u, source = la([0, 0, 0, 0])
    u.requires_grad_()
    loss = objective(0.07).against(u, None, source, torch.arange(2))
    assert loss.isfinite() and grad(loss, u)[0].isfinite().all()


def test_clusters_of_equal_rows_do_not_divide_by_zero():
    g = torch.Generator().manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(20, 8, generator=g), dim=1)
    z[:10] = z[[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]]
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3, 4, 4] + [5] * 5 + [6] * 5)
    centers = torch.stack(
        [torch.nn.functional.normalize(z[labels == c].mean(0), dim=0) for c in range(7)]
    )
    assert (concentration(z, Clusters(labels, centers)) > 0).all()


def test_the_learner_says_that_the_bank_is_too_small():
    learner = build("ir", build_encoder("tiny", image_size=16), n_samples=8)
    with pytest.raises(SettingError, match="size of the data set"):
        learner(list(torch.rand(2, 4, 3, 16, 16)), ids=torch.arange(4) + 6)


@pytest.mark.usefixtures("our_errors")
@pytest.mark.parametrize("z, ids", [(U[:, :5], IDS), (U, IDS[:2])])
def test_a_queue_says_what_it_cannot_take_in(z, ids):
    with pytest.raises(ShapeError):
        full_queue().remember(z, ids)


def test_the_first_batch_enters_the_queue_once_and_not_when_only_asked():
    learner = build("moco", build_encoder("tiny", image_size=16), size=64)
    views, ids = list(torch.rand(2, 8, 3, 16, 16)), torch.arange(8)
    learner.eval()(views, ids=ids)
    asked = len(learner.negatives)
    learner = build("moco", build_encoder("tiny", image_size=16), size=64)
    learner(views, ids=ids)
    learner.after_step(0.1)
    assert (asked, len(learner.negatives)) == (0, 8)


def test_an_empty_queue_is_refused():
    for objective in (inv.InfoNCE(), inv.DCL(), inv.FlatNCE(), inv.BinaryNCE()):
        with pytest.raises(SettingError, match="a first batch"):
            objective.against(U, V, inv.Queue(8, 8), IDS)


def test_own_rows_among_the_proposals_teach_nothing():
    torch.manual_seed(0)
    net = AcceptanceNetwork(3, rank=2, floor=0.9).double()
    bank = inv.Bank(5, 3).double()
    u = torch.nn.functional.normalize(draw(2, 3, seed=1), dim=1)
    scores = u @ bank.z.T
    ids = torch.tensor([0, 1])
    own = ids[:, None] == torch.arange(5)
    parameters = list(net.parameters())
    outcomes = [
        torch.tensor(k) for k in itertools.product([True, False], repeat=4) if any(k)
    ]

    def full(i, k):
        out = torch.zeros(5, dtype=torch.bool)
        out[~own[i]] = k
        return out

    def h(i, kept):
        return (3 * scores[i][kept]).logsumexp(0) - kept.sum().double().log()

    def chance(p, i, kept):
        return torch.where(kept, p[i], 1 - p[i])[~own[i]].prod()

    p = net(scores, u, bank.z)
    value = (
        sum(
            chance(p, i, full(i, k)) * h(i, full(i, k))
            for i in (0, 1)
            for k in outcomes
        )
        / 2
    )
    exact = torch.cat([g.flatten() for g in grad(value, parameters)])
    total = torch.zeros_like(exact)
    for a, b in itertools.product(outcomes, repeat=2):
        kept = torch.stack([full(0, a), full(1, b)])
        p = net(scores, u, bank.z)
        w = (chance(p, 0, kept[0]) * chance(p, 1, kept[1])).detach()
        total += w * torch.cat(
            [
                g.flatten()
                for g in grad(net.lesson(3 * scores, p, kept, kept, ~own), parameters)
            ]
        )
    torch.testing.assert_close(-5 * total, exact, rtol=1e-2, atol=1e-4)


def test_an_unknown_backend_of_kmeans():
    with pytest.raises(SettingError, match="faiss"):
        kmeans(torch.eye(4), 2, backend="fiass")


def test_control_variate_of_equal_draws():
    u, z = draw(3, 4, seed=0), draw(1, 4, seed=1)
    found = control_variate_partition(
        u,
        z,
        scale=1.0,
        mean=torch.zeros(4).double(),
        second_moment=torch.eye(4).double(),
    )
    assert found.isfinite().all()


def test_float64_stays_float64():
    s, stratum = draw(2, 6, seed=0), torch.tensor([0, 0, 0, 1, 1, 1])
    share = torch.tensor([0.3, 0.7]).double()
    found = stratified_partition(s, stratum, share)
    exact = torch.stack(
        [
            math.log(reference.stratified(r.tolist(), stratum.tolist(), share.tolist()))
            * torch.ones(()).double()
            for r in s
        ]
    )
    torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "method",
    [
        Method(objective="byol"),
        Method(objective="info_nce", negatives="none"),
        Method(objective="info_nce", positives="neighbors", encoder="predictor"),
        Method(objective="info_nce", negatives="ball", source_settings={"kk": 3}),
        Method(objective="info_nce", negatives="bank", source_settings={"k": 3}),
        Method(objective="info_nce", negatives="bank", encoder="predictor"),
        Method(objective="info_nce", positives="prototypes"),
    ],
)
def test_choices_that_do_not_fit_are_refused_in_words(method):
    with pytest.raises(SettingError):
        build(method, build_encoder("tiny", image_size=16), n_samples=10)


@pytest.mark.parametrize("make", [lambda bank: bank, inv.Ball])
def test_sup_con_refuses_sources_that_know_no_labels(make):
    source = make(inv.Bank(5000, 4))
    with pytest.raises(SettingError, match="a queue that remembers labels"):
        inv.SupCon().against(draw(6, 4, seed=0), None, source, torch.arange(6) % 2)


@pytest.mark.usefixtures("our_errors")
def test_labels_and_ids_are_checked():
    with pytest.raises(InvarianceError):
        inv.SupCon().against(U, None, full_queue(), IDS.float())
    with pytest.raises(InvarianceError):
        inv.MultiView().against(torch.stack([U, V]), None, full_queue(), IDS.float())
