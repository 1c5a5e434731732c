"""Learned acceptance: the score function's gradient, by enumeration and by hand."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.autograd import grad

import invariance as inv
from invariance.negatives import (
    AcceptanceNetwork,
    Accepted,
    accept_learned,
    accept_similar,
)

from .scenes import draw

N, M, D = 2, 4, 3


def network(floor):
    torch.manual_seed(0)
    made = AcceptanceNetwork(D, rank=2, floor=floor).double()
    return made, list(made.parameters())


def flat(gradients):
    return torch.cat([g.flatten() for g in gradients])


def hardness(logits, kept):
    return torch.logsumexp(logits[kept], 0) - kept.sum().double().log()


def chance(p, kept):
    return torch.where(kept, p, 1 - p).prod()


def test_its_expectation_is_the_gradient_of_the_expected_hardness():
    """Every outcome of the dice of two anchors and four proposals.

    With a floor of 0.97 nobody keeps nothing but once in a million; that outcome, of
    which the source makes another, is left out on both sides.
    """
    acceptance, parameters = network(floor=0.97)
    u, z = draw(N, D, seed=1), draw(M, D, seed=2)
    logits = 3 * u @ z.T

    def probability():
        return acceptance(logits, u, z)

    outcomes = [
        torch.tensor(k) for k in itertools.product([True, False], repeat=M) if any(k)
    ]
    p = probability()
    expected_hardness = sum(
        chance(p[i], k) * hardness(logits[i], k) for i in range(N) for k in outcomes
    )
    exact = flat(grad(expected_hardness / N, parameters))
    total = torch.zeros_like(exact)
    for both in itertools.product(outcomes, repeat=N):
        kept = torch.stack(both)
        p = probability()
        weight = chance(p[0], kept[0]) * chance(p[1], kept[1])
        loss = acceptance.lesson(logits, p, kept, kept, torch.ones_like(kept))
        total += weight.detach() * flat(grad(loss, parameters))
    # a loss is minimised, and it is a share a proposal
    torch.testing.assert_close(-M * total, exact, rtol=1e-3, atol=1e-6)
    assert exact.norm() > 1e-4


def test_the_source_teaches_what_its_dice_have_thrown():
    """One step by hand: (h_i - the others' mean) times grad log Bernoulli."""
    acceptance, parameters = network(floor=0.3)
    bank = inv.Bank(40, D).double()
    source = Accepted(bank, acceptance, n_proposals=10)
    spare = copy.deepcopy(bank)
    lot = spare.draw(10)
    dice = spare.throw_dice(4, 10)
    strangers = [i for i in range(40) if i not in lot.tolist()][:4]
    u, ids = nn.functional.normalize(draw(4, D, seed=3), dim=1), torch.tensor(strangers)
    source.negative(u, ids, scales=[3.0])
    ours = flat(grad(source.own_loss(), parameters))
    scores = u @ bank.z[lot].T
    p = acceptance(scores, u, bank.z[lot])
    kept = dice < p
    assert kept.any(1).all() and not kept.all()
    how_hard = [hardness(3 * scores[i], kept[i]).item() for i in range(4)]
    total = 0
    for i in range(4):
        others = sum(how_hard[j] for j in range(4) if j != i) / 3
        for j in range(10):
            log_chance = p[i, j].log() if kept[i, j] else (1 - p[i, j]).log()
            total = total + (how_hard[i] - others) * log_chance / 10 / 4
    theirs = flat(grad(-total, parameters))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


def test_its_value_is_zero_and_it_moves_the_network_alone():
    bank = inv.Bank(30, D)
    source = accept_learned(bank, n_proposals=20, rank=2)
    u = torch.randn(5, D, requires_grad=True)
    loss = inv.InfoNCE(0.2).against(u, None, source, torch.arange(5))
    own = source.own_loss()
    assert own.item() == 0.0
    parameters = list(source.acceptance.parameters())
    assert grad(own, u, allow_unused=True, retain_graph=True)[0] is None
    assert any(g.any() for g in grad(own, parameters))
    assert all(g is None for g in grad(loss, parameters, allow_unused=True))
    assert source.own_loss() is None  # told once


def test_probabilities_stay_between_floor_and_one():
    acceptance, _ = network(floor=0.2)
    with torch.no_grad():
        acceptance.bias.fill_(100.0)
    u, z = draw(N, D, seed=1), draw(M, D, seed=2)
    high = acceptance(u @ z.T, u, z)
    with torch.no_grad():
        acceptance.bias.fill_(-100.0)
    low = acceptance(u @ z.T, u, z)
    assert (high < 1).all() and (high > 0.99).all()
    torch.testing.assert_close(low, torch.full_like(low, 0.2))


def test_it_learns_to_keep_the_hard_ones():
    torch.manual_seed(0)
    bank = inv.Bank(200, 8)
    source = accept_learned(bank, n_proposals=64, rank=8)
    optimizer = torch.optim.Adam(source.parameters(), lr=0.03)
    u, ids = nn.functional.normalize(torch.randn(64, 8), dim=1), torch.arange(64)

    def how_much_harder():
        scores = u @ bank.z.T
        with torch.no_grad():
            p = source.acceptance(scores, u, bank.z)
        return ((p * scores).sum(1) / p.sum(1) - scores.mean(1)).mean().item()

    before = how_much_harder()
    for _ in range(150):
        source.negative(u, ids, scales=[10.0])
        optimizer.zero_grad()
        source.own_loss().backward()
        optimizer.step()
    assert how_much_harder() > before + 0.03


def test_readings_say_how_much_is_kept():
    bank = inv.Bank(40, D)
    source = Accepted(bank, inv.negatives.Nearest(0.25, 0.25), n_proposals=32)
    assert source.readings() == {}
    inv.InfoNCE(0.2).against(torch.randn(6, D), None, source, torch.arange(6))
    read = source.readings()
    # rows drawn twice are equally near: both are kept, or neither
    assert 0.25 + 0.75 * 0.25 <= read["acceptance"] < 0.55
    torch.testing.assert_close(read["weight_ess"], torch.tensor(1.0))
    source.weighted = True
    inv.InfoNCE(0.2).against(torch.randn(6, D), None, source, torch.arange(6))
    assert 0 < source.readings()["weight_ess"] < 1


def in_the_bank(u, ids, bank, scale):
    """Mean exponential of an anchor's scores with the other rows."""
    scores = (scale * u @ bank.z.T).scatter(1, ids[:, None], -torch.inf)
    return (scores.logsumexp(1) - torch.tensor(len(bank) - 1.0).log()).exp()


@pytest.mark.parametrize("n_proposals", [20, 40, 400])
@pytest.mark.parametrize("kind", ["nearest", "learned"])
def test_terms_over_their_probability_are_unbiased(kind, n_proposals):
    """However few the proposals: on average what all of them add up to."""
    torch.manual_seed(0)
    bank = inv.Bank(300, D).double()
    u, ids = nn.functional.normalize(draw(2, D, seed=5), dim=1), torch.tensor([0, 1])
    how = {"n_proposals": n_proposals, "weighted": True}
    make = accept_similar if kind == "nearest" else accept_learned
    source = make(bank, floor=0.1, **how).double()
    own = 1 / 300  # of the proposals, each of which may be the anchor itself
    exact = in_the_bank(u, ids, bank, 2.0) * n_proposals * (1 - own)
    sums = torch.stack(
        [source.negative(u, ids, scales=[2.0])[0].exp() for _ in range(600)]
    )
    error = sums.std(0) / len(sums) ** 0.5
    assert ((sums.mean(0) - exact).abs() < 4 * error).all()


def test_as_they_are_the_kept_are_harder():
    bank = inv.Bank(300, D).double()
    u, ids = nn.functional.normalize(draw(2, D, seed=5), dim=1), torch.tensor([0, 1])
    source = Accepted(bank, inv.negatives.Nearest(0.25, 0.1), n_proposals=400)
    lots = [source.negative(u, ids, scales=[2.0, 0.0]) for _ in range(100)]
    means = torch.stack([(total - count).exp() for total, count in lots]).mean(0)
    assert (means > 1.3 * in_the_bank(u, ids, bank, 2.0)).all()


def test_weights_undo_the_choice_and_the_default_does_not():
    """The expected gradient, beside that of the proposals as they are drawn."""
    bank, ids = inv.Bank(400, 8), torch.arange(16)
    u = nn.functional.normalize(draw(16, 8, seed=7).float(), dim=1).requires_grad_()

    def slope(source):
        sums = [source.negative(u, ids, scales=[2.0])[0] for _ in range(200)]
        return grad(torch.stack(sums).mean(), u)[0]

    plain = slope(accept_similar(bank, share=1.0, n_proposals=256))
    how = {"share": 0.25, "floor": 0.1, "n_proposals": 256}
    gaps = {
        weighted: (slope(accept_similar(bank, weighted=weighted, **how)) - plain).norm()
        for weighted in (True, False)
    }
    assert gaps[True] < 0.05 * plain.norm() < 0.3 * plain.norm() < gaps[False]


def test_anchors_may_be_finer_than_the_network():
    source = accept_learned(inv.Bank(9, D), n_proposals=M)
    u, ids = draw(N, D, seed=0).double().requires_grad_(), torch.tensor([3, 8])
    loss = inv.InfoNCE().against(u, None, source, ids) + source.own_loss()
    assert loss.dtype == torch.float64
    assert grad(loss, u)[0].isfinite().all()
