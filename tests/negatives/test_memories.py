"""What queue and bank hold, and that a key is never its own negative."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from torch.nn.functional import normalize

import invariance as inv
from invariance.encoders import Encoder, build_encoder
from invariance.errors import NotFiniteError, SettingError
from invariance.methods import build, customize

from .scenes import OBJECTIVES, draw

quick = settings(max_examples=30, deadline=None)


@quick
@given(
    size=st.integers(1, 9),
    lengths=st.lists(st.integers(1, 9), max_size=8),
    seed=st.integers(0, 1000),
)
def test_the_queue_is_first_in_first_out(size, lengths, seed):
    queue, told = inv.Queue(size, 3).double(), []
    for k, length in enumerate(min(n, size) for n in lengths):
        ids = torch.arange(length) + 100 * k
        told.append((draw(length, 3, seed=seed + k), ids))
        queue.remember(*told[-1])
    expected = {i: row.tolist() for row, i in reference.queue_rows(told, size)}
    found = queue.candidates()
    assert len(queue) == len(found.z) == len(expected)
    held = dict(zip(found.ids.tolist(), found.z.tolist(), strict=True))
    assert held.keys() == expected.keys()
    for i, row in held.items():
        assert row == pytest.approx(expected[i], abs=1e-12)


def test_what_is_remembered_has_no_gradient_and_unit_length():
    queue, bank = inv.Queue(4, 3), inv.Bank(4, 3)
    z = torch.randn(2, 3, requires_grad=True)
    for memory in (queue, bank):
        memory.remember(z, torch.arange(2))
        assert not memory.z.requires_grad
        torch.testing.assert_close(memory.z[:2].norm(dim=1), torch.ones(2))


@quick
@given(
    momentum=st.floats(0, 0.99),
    seed=st.integers(0, 1000),
    n_updates=st.integers(1, 4),
)
def test_the_bank_moves_the_rows_it_is_told_of(momentum, seed, n_updates):
    bank = inv.Bank(7, 3, momentum=momentum, seed=seed).double()
    expected = bank.z.clone()
    for k in range(n_updates):
        z = draw(4, 3, seed=seed + k)
        ids = torch.randperm(7, generator=torch.Generator().manual_seed(seed + k))[:4]
        bank.remember(z, ids)
        expected = reference.bank_update(expected, z, ids, momentum)
    torch.testing.assert_close(bank.z, expected)


def test_a_bank_without_momentum_holds_the_latest_view():
    bank, z = inv.Bank(5, 3, momentum=0), torch.randn(2, 3)
    before = bank.z.clone()
    bank.remember(z, torch.tensor([1, 4]))
    torch.testing.assert_close(bank.z[[1, 4]], normalize(z, dim=1))
    assert torch.equal(bank.z[[0, 2, 3]], before[[0, 2, 3]])


def test_a_bank_starts_with_unit_rows_of_its_seed():
    one, same, other = (inv.Bank(50, 8, seed=s).z for s in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)
    torch.testing.assert_close(one.norm(dim=1), torch.ones(50))
    assert one.mean(0).norm() < 0.5  # directions all around


def test_draws_differ_from_step_to_step_and_cover_the_bank():
    bank = inv.Bank(6, 3, n_draws=5)
    lots = [bank.candidates(torch.ones(2, 3), torch.arange(2)).ids for _ in range(60)]
    assert all(len(lot) == 5 for lot in lots)
    assert len({tuple(lot.tolist()) for lot in lots}) > 50
    counts = torch.bincount(torch.cat(lots), minlength=6)
    assert counts.min() > 300 / 6 - 4 * (300 * 5 / 36) ** 0.5


def test_draws_are_those_of_the_counter_wherever_it_is():
    """Made beside the rows, without a host's generator, and kept in the checkpoint."""
    bank = inv.Bank(1000, 3, n_draws=5, seed=3)
    bank.throw_dice(2, 3)
    state = bank.state_dict()
    expected = bank.throw_dice(100, 1000), bank.draw(1000), bank.draw_seed()
    torch.manual_seed(9)  # nobody else's generator has a part in it
    again = inv.Bank(1000, 3, n_draws=5, seed=3)
    again.load_state_dict(state)
    assert torch.equal(again.throw_dice(100, 1000), expected[0])
    assert torch.equal(again.draw(1000), expected[1])
    assert again.draw_seed() == expected[2]
    dice = expected[0].double()
    assert dice.min() >= 0 and dice.max() < 1
    assert abs(dice.mean() - 0.5) < 4 / (12 * 1e5) ** 0.5
    assert abs(dice.var() - 1 / 12) < 4 / (180 * 1e5) ** 0.5
    assert len(expected[1].unique()) > 580  # of 632 on average


@pytest.mark.parametrize("kind", [inv.Queue, inv.Bank])
def test_a_memory_that_does_not_fit_is_refused_before_it_is_made(kind):
    sentence = (
        r"of 1,000,000,000 rows of 1,000,000 numbers takes [\d.]+ GiB, but only .* free"
    )
    with pytest.raises(SettingError, match=sentence):
        kind(10**9, 10**6)


def test_a_refused_row_leaves_no_empty_place_where_nobody_can_look(monkeypatch):
    monkeypatch.setattr("invariance.negatives._source.may_look", lambda x: False)
    queue, z = inv.Queue(4, 3), torch.randn(3, 3)
    z[1] = torch.nan
    queue.remember(z, torch.arange(3))
    assert queue.candidates().ids.tolist() == [0, 2]
    torch.testing.assert_close(queue.candidates().z.norm(dim=1), torch.ones(2))
    assert queue.n_refused == 1
    queue.remember(torch.randn(3, 3), torch.arange(3, 6))  # full, and 0 is overwritten
    assert queue.ids.tolist() == [5, 2, 3, 4]
    queue.remember(z, torch.arange(6, 9))
    assert queue.ids.tolist() == [5, 6, 3, 8]  # the oldest stays where one is refused


# MoCo's key is never among its own negatives.


@pytest.mark.parametrize("epochs", [1, 3])
def test_an_aligned_query_reaches_probability_one(epochs):
    """Samples on the axes; the queue also holds their own, equally perfect keys."""
    n, tau = 8, 0.05
    z, ids = torch.eye(n), torch.arange(n)
    queue = inv.Queue(epochs * n, n)
    for _ in range(epochs):
        queue.remember(z, ids)
    assert (queue.ids == 3).sum() == epochs
    loss = inv.InfoNCE(tau).against(z, z, queue, ids)
    assert torch.exp(-loss) > 0.9999
    strangers = inv.InfoNCE(tau).against(z, z, queue, ids + n)
    assert torch.exp(-strangers) < 1 / (epochs + 0.99)  # what a peer library computes


def test_an_aligned_query_of_the_whole_method_reaches_probability_one():
    """Two epochs of MoCo on samples that the encoder already tells apart."""
    encoder = Encoder(torch.nn.Identity(), input_shape=(8,))
    learner = build("moco_v1", encoder, size=16, temperature=0.05)
    with torch.no_grad():
        for network in (learner, learner.twin):
            weight, *bias = network.parameters()
            weight.copy_(torch.eye(*weight.shape))
            assert not bias or not bias[0].zero_().any()
    x, ids = torch.eye(8), torch.arange(8)
    for _ in range(3):  # the keys come back, first as the batch's, then as stale ones
        step = learner([x, x], ids=ids)
        assert torch.exp(-step.loss) > 0.9999
        learner.after_step(0.5)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_own_rows_of_a_queue_change_nothing(objective):
    """Value and gradient, with perfect keys of earlier epochs in the queue."""
    make, options = OBJECTIVES[objective]
    v, others, ids = draw(4, 3, seed=2), draw(5, 3, seed=3), torch.arange(4)
    told = []
    for n_copies in (0, 3):
        queue = inv.Queue(64, 3).double()
        queue.remember(others, torch.arange(5) + 10)
        u = draw(4, 3, seed=1).requires_grad_()
        loss = 0
        for k in range(4):  # one sample at a time: the others' keys are negatives
            again = copy.deepcopy(queue)
            own = torch.full((n_copies,), k)
            again.remember(u.detach()[own], own)
            pair = u[k].expand(2, 3), v[k].expand(2, 3)
            loss = loss + make(0.5, **options).against(*pair, again, ids[[k, k]])
        told.append((loss.detach(), torch.autograd.grad(loss, u)[0]))
    torch.testing.assert_close(*told)
    assert told[0][1].any()


# ---------------------------------------------------------------- rows that are none

BAD = {"nan": float("nan"), "inf": float("inf"), "too long for float32": 1e300}


@pytest.mark.parametrize("make", [lambda: inv.Queue(8, 4), lambda: inv.Bank(8, 4)])
@pytest.mark.parametrize("bad", BAD)
def test_rows_that_are_not_finite_are_refused_whole(make, bad):
    memory, ids = make(), torch.arange(3)
    memory.remember(torch.eye(3, 4), ids)
    before = copy.deepcopy(memory.state_dict())
    z = torch.randn(3, 4, dtype=torch.float64)
    z[1] = BAD[bad]
    with pytest.raises(NotFiniteError, match="1 of the 3 rows to remember"):
        memory.remember(z, ids)
    after = memory.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_long_row_is_remembered_by_its_direction():
    queue = inv.Queue(8, 4)
    queue.remember(torch.full((1, 4), 1e30), torch.tensor([0]))
    torch.testing.assert_close(queue.candidates().z, torch.full((1, 4), 0.5))


def test_a_source_on_a_bank_refuses_them_too():
    source = inv.Ball(inv.Bank(8, 4), k=2)
    with pytest.raises(NotFiniteError, match="Nothing was remembered"):
        source.remember(torch.full((2, 4), float("nan")), torch.arange(2))


@pytest.mark.parametrize("make", [lambda: inv.Queue(8, 4), lambda: inv.Bank(8, 4)])
def test_a_state_that_is_not_finite_is_refused(make):
    state = make().state_dict()
    state["z"] = torch.full_like(state["z"], float("nan"))
    with pytest.raises(NotFiniteError, match="The saved z of a"):
        make().load_state_dict(state)


@pytest.mark.parametrize("name", ["moco", "ir", "nnclr", "pcl", "la"])
def test_a_batch_that_is_not_finite_leaves_the_memory_alone(name):
    method = customize(name, hidden=8, width=4)
    learner = build(method, build_encoder("tiny", image_size=16), n_samples=12)
    views, ids = list(torch.rand(2, 4, 3, 16, 16)), torch.arange(4)
    learner(views, ids=ids)
    learner.after_step(0.1)
    memories = [m for m in learner.modules() if isinstance(m, inv.Queue | inv.Bank)]
    before = [memory.z.clone() for memory in memories]
    with pytest.raises(NotFiniteError):
        learner([torch.full_like(view, float("nan")) for view in views], ids=ids)
    learner.after_step(0.2)
    assert memories and all(
        torch.equal(memory.z, z) for memory, z in zip(memories, before, strict=True)
    )


def test_memories_say_how_large_and_full_they_are():
    queue, bank = inv.Queue(8, 4), inv.Bank(100, 4, momentum=0.25, n_draws=16)
    queue.remember(torch.eye(3, 4), torch.arange(3))
    assert repr(queue) == "Queue(3 of 8 rows, width 4)"
    assert repr(bank) == "Bank(100 rows, width 4, momentum 0.25, 16 drawn)"
    ring = inv.Annulus(bank, inner=2, min_similarity=0.1)
    assert "inner = 2, similarity 0.1 or more, of 99 rows" in repr(ring)
    assert "1,024 proposals, weighted = False" in repr(inv.negatives.Accepted(bank))
    assert "Nearest(share = 0.25, floor = 0.05)" in repr(inv.negatives.Accepted(bank))
    assert "3 clusterings of 5 after a warm-up of 0.05" in repr(
        inv.Neighbors(bank, k=20)
    )
    assert "2 clusters after a warm-up of 0.1" in repr(inv.negatives.Prototypes(bank))
