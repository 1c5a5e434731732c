"""The ESS of each source's negatives, beside sets made by hand, and its control."""

import itertools
import math
import warnings

import pytest
import torch
from tests import reference
from torch.autograd import grad

import invariance as inv
from invariance.errors import SettingError
from invariance.negatives import Accepted, Prototypes, accept_learned, accept_similar
from invariance.objectives import ALONE
from invariance.training import Ess, EssController

from . import scenes
from .scenes import OBJECTIVES, SOURCES, TAU, draw

POWERS = {"flat_nce gamma 2": 2.0, "flat_nce gamma -0.5": -0.5, "debiased hard": 2.0}


def shares_by_hand(scene, power):
    _, negatives, log_weights = scene.hand(scene.u, scene.v)
    if log_weights is None:
        log_weights = [[0.0] * len(logits) for logits in negatives]
    return [
        reference.effective_share(
            [power * x + w for x, w in zip(logits, weights, strict=True)]
        )
        for logits, weights in zip(negatives, log_weights, strict=True)
    ]


@pytest.mark.parametrize("objective", ["info_nce", *POWERS])
@pytest.mark.parametrize("source", SOURCES)
def test_shares_of_every_source(source, objective):
    scene = SOURCES[source](seed=4)
    make, options = OBJECTIVES[objective]
    make(TAU, **options).against(scene.u, scene.v, scene.source, scene.ids)
    expected = torch.tensor(shares_by_hand(scene, POWERS.get(objective, 1.0))).double()
    torch.testing.assert_close(scene.source.shares(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("k", [1, 3, 11])
def test_neighbors_that_are_nearly_all_of_the_ball(k):
    """At twice the scale of a low temperature little is left of it in float32."""
    scene = scenes.neighbors(seed=2, k=k)
    source, cold = scene.source.float(), 0.02
    u = scene.u.float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one row, nothing may be left
        inv.InfoNCE(cold).against(u, None, source, scene.ids)
    expected = torch.tensor(shares_by_hand(scene, TAU / cold))
    torch.testing.assert_close(
        source.shares(), expected, rtol=1e-3, atol=1e-4, equal_nan=True
    )


# ---------------------------------------------------------------- control

N = 300


def bank_of_groups():
    """Rows in bunches, so that an anchor's nearest rows differ from its others."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(10, 16, generator=generator).repeat(N // 10, 1)
    bank = inv.Bank(N, 16)
    rows = centers + 0.8 * torch.randn(N, 16, generator=generator)
    bank.z.copy_(torch.nn.functional.normalize(rows, dim=1))
    return bank


def queue_of_groups():
    queue = inv.Queue(N, 16)
    queue.remember(bank_of_groups().z, torch.arange(N))
    return queue


def clusters_of_groups(kind, **settings):
    source = kind(bank_of_groups(), n_clusters=10, warmup=0, **settings)
    source.refresh(0.0)
    return source


CONTROLLED = {
    "queue": queue_of_groups,
    "bank": bank_of_groups,
    "ball": lambda: inv.Ball(bank_of_groups(), share=0.1),
    "near": lambda: inv.Ball(bank_of_groups(), min_similarity=0.2),
    "ring": lambda: inv.Annulus(bank_of_groups(), inner_share=0.02, outer_share=0.3),
    "neighbors": lambda: clusters_of_groups(inv.Neighbors, k=150),
    "prototypes": lambda: clusters_of_groups(Prototypes),
    "accepted": lambda: Accepted(bank_of_groups(), n_proposals=100),
    "weighted": lambda: accept_similar(bank_of_groups(), weighted=True),
}


@pytest.mark.parametrize("name", CONTROLLED)
def test_the_controller_brings_the_sources_own_negatives_to_the_target(name):
    source, ids = CONTROLLED[name](), torch.arange(32)
    u = (source.bank or source).z[ids] + 0.1 * draw(32, 16, seed=3).float()
    objective = inv.InfoNCE(temperature=0.2)
    controller = EssController(objective, Ess(target=0.3, rate=0.02))
    readings = []
    for _ in range(150):
        objective.against(u, u, source, ids)
        readings.append(float(source.shares().nanmean()))
        controller.update(readings[-1], 0.0)
    last = sum(readings[-40:]) / 40  # of dice and of steps up and down
    assert last == pytest.approx(0.3, abs=0.02)


def test_a_ball_by_hand_at_the_target():
    """What the batch's other rows would read is another number altogether."""
    bank = bank_of_groups()
    source, ids = inv.Ball(bank, share=0.1), torch.arange(32)
    u = torch.nn.functional.normalize(bank.z[ids] + 0.1 * draw(32, 16, seed=3), dim=1)
    objective = inv.InfoNCE(temperature=0.2)
    controller = EssController(objective, Ess(target=0.3, rate=0.01))
    for _ in range(300):
        objective.against(u, None, source, ids)
        controller.update(source.shares().mean(), 0.0)
    scale = 1 / objective.temperature
    one, two, none = source.negative(u, ids, scales=[scale, 2 * scale, 0.0])
    assert (2 * one - two - none).exp().mean().item() == pytest.approx(0.3, abs=0.01)
    temperature = objective.temperature
    batch = inv.effective_sample_size(u, bank.z[ids].double(), temperature=temperature)
    assert abs(batch - 0.3) > 0.1


def test_targets_below_one_negative_are_refused():
    with pytest.raises(SettingError, match="At least one of 3 negatives carries"):
        EssController(inv.InfoNCE(), Ess(target=0.3), n_negatives=3)


def test_no_negatives_move_no_temperature():
    objective = inv.InfoNCE(temperature=0.2)
    controller = EssController(objective, Ess(target=0.3))
    controller.update(torch.tensor(math.nan), 0.0)
    assert objective.temperature == 0.2


# ---------------------------------------------------------------- nothing to compare


def one_own_row():
    queue = inv.Queue(4, 3)
    queue.remember(torch.eye(2, 3), torch.tensor([0, 0]))
    return queue


def one_cluster():
    source = inv.Neighbors(inv.Bank(3, 3), k=2, n_clusters=2, warmup=0)
    source.refresh(0.0)
    source.labels.zero_()
    return source


ALONE_WITH = {
    "queue": one_own_row,
    "drawn": lambda: inv.Bank(3, 3, n_draws=1),
    "ball": lambda: inv.Ball(inv.Bank(3, 3), min_similarity=0.999),
    "ring": lambda: inv.Annulus(
        inv.Bank(3, 3), min_similarity=0.998, max_similarity=0.999
    ),
    "neighbors": one_cluster,
    "accepted": lambda: Accepted(inv.Bank(3, 3), n_proposals=1),
    "weighted": lambda: accept_similar(inv.Bank(3, 3), n_proposals=1, weighted=True),
    "between": lambda: accept_similar(inv.Bank(3, 3), min_similarity=0.999, floor=0),
    "learned": lambda: accept_learned(inv.Bank(3, 3), n_proposals=1),
    "learned, weighted": lambda: accept_learned(
        inv.Bank(3, 3), n_proposals=1, weighted=True
    ),
}
AGGREGATES = ("pairs", "poly", "mv_info_nce", "mv_dhel")


@pytest.mark.filterwarnings("ignore:No anchor")
@pytest.mark.parametrize("source", ALONE_WITH)
def test_anchors_left_with_nothing_give_finite_numbers(source):
    """Some anchors alone, or all; value, gradient and what the source learns."""
    made = [make(TAU, **options) for make, options in OBJECTIVES.values()]
    made += [inv.MultiView(TAU, aggregate=a) for a in AGGREGATES]
    made += [inv.BinaryNCE(TAU)] if source in ("queue", "drawn") else []
    cases = itertools.product(made, [(0, 0, 0), (0, 1, 2), (2, 1, 1)])
    for seed, (objective, ids) in enumerate(cases):
        torch.manual_seed(seed)
        memory, ids = ALONE_WITH[source](), torch.tensor(ids)
        u, v = torch.randn(2, 3, 3).requires_grad_().unbind()
        rows = (torch.stack([u, v]), None) if objective.takes == "views" else (u, v)
        loss = objective.against(*rows, memory, ids)
        lesson = memory.own_loss()
        loss = loss if lesson is None else loss + lesson
        inputs = [u, *memory.parameters()]
        slopes = grad(loss, inputs, allow_unused=True)
        assert loss.isfinite(), (objective, ids)
        assert all(g is None or g.isfinite().all() for g in slopes), (objective, ids)


def test_an_anchor_whose_proposals_are_its_own_row_has_no_gradient():
    source = Accepted(inv.Bank(2, width=3), n_proposals=1)
    u = torch.randn(2, 3, requires_grad=True)
    loss = inv.InfoNCE(0.2).against(u, None, source, torch.tensor([0, 1]))
    source.bank.n_drawn.zero_()
    own = int(source.bank.draw(1))
    slope = grad(loss, u)[0]
    assert (slope[own] == 0).all() and (slope[1 - own] != 0).any()


def test_a_batch_without_any_negative_is_said():
    ids = torch.zeros(3, dtype=torch.long)
    for objective in (inv.InfoNCE(), inv.DCL(), inv.FlatNCE(), inv.BinaryNCE()):
        with pytest.warns(UserWarning, match="No anchor of this batch has a negative"):
            objective.against(torch.eye(3), torch.eye(3), one_own_row(), ids)
    with pytest.warns(UserWarning, match="No anchor"):
        inv.MultiView().against(torch.eye(3).repeat(2, 1, 1), None, one_own_row(), ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        some = torch.tensor([0, 0, 1])  # the last one has two
        inv.InfoNCE().against(torch.eye(3), torch.eye(3), one_own_row(), some)
    assert "remember other samples" in ALONE
