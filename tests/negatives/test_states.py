"""A source that comes back from its state goes on as if nothing had happened."""

import copy
import pickle

import pytest
import torch
from torch import nn

import invariance as inv
from invariance.negatives import NEGATIVES, Accepted, Prototypes, accept_learned

N, D = 20, 4

MAKERS = {
    "queue": lambda: inv.Queue(16, D),
    "bank": lambda: inv.Bank(N, D),
    "drawn": lambda: inv.Bank(N, D, n_draws=6),
    "ball": lambda: inv.Ball(inv.Bank(N, D), k=5),
    "annulus": lambda: inv.Annulus(inv.Bank(N, D), inner=2, outer=6, outer_start=18),
    "neighbors": lambda: inv.Neighbors(
        inv.Bank(N, D), k=9, n_clusters=4, n_clusterings=2, warmup=0.2
    ),
    "accepted": lambda: Accepted(inv.Bank(N, D), n_proposals=12),
    "learned": lambda: accept_learned(inv.Bank(N, D), n_proposals=12),
    "stratified": lambda: inv.Stratified(inv.Bank(N, D), n_draws=7, n_clusters=3),
    "control_variate": lambda: inv.ControlVariate(inv.Bank(N, D), n_draws=7),
    "prototypes": lambda: Prototypes(inv.Bank(N, D), n_clusters=4, warmup=0.2),
}


def steps(source, first, last):
    """A few steps of a run of ten, an epoch every other step."""
    losses = []
    if isinstance(source, inv.Queue) and not len(source):
        source.remember(torch.eye(3, D), torch.arange(3))
    for done in range(first, last):
        if done % 2 == 0:
            source.refresh(done / 10)
        generator = torch.Generator().manual_seed(done)
        u, v = torch.randn(2, 5, D, generator=generator)
        ids = torch.randperm(N, generator=generator)[:5]
        losses.append(inv.InfoNCE(0.5).against(u, v, source, ids).item())
        source.own_loss()
        source.remember(v, ids)
        if isinstance(source, Prototypes):
            source.bank.remember(v, ids)
        source.advance((done + 1) / 10)
    return torch.tensor(losses)


def test_every_source_of_the_catalogue_is_here():
    assert set(NEGATIVES) <= set(MAKERS)


@pytest.mark.parametrize("done", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("name", MAKERS)
def test_going_on_from_a_state_is_exact(name, done, tmp_path):
    torch.manual_seed(0)
    source = MAKERS[name]()
    steps(source, 0, done)
    torch.save(source.state_dict(), tmp_path / "state.pt")
    torch.manual_seed(1)  # another network's first weights
    again = MAKERS[name]()
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(steps(again, done, 10), steps(source, done, 10))


@pytest.mark.parametrize("name", MAKERS)
def test_a_state_is_needed(name):
    """The test above would fail on a source that forgets: so does this run of it."""
    torch.manual_seed(0)
    source = MAKERS[name]()
    steps(source, 0, 7)
    torch.manual_seed(0)
    assert not torch.equal(steps(MAKERS[name](), 7, 10), steps(source, 7, 10))


@pytest.mark.parametrize("name", MAKERS)
def test_a_source_in_use_can_be_copied_and_pickled(name):
    """A learned temperature comes with its graph, which nothing may hold on to."""
    source = MAKERS[name]()
    steps(source, 0, 3)
    u, v = torch.randn(2, 5, D, requires_grad=True)
    objective = inv.InfoNCE("learned")
    objective.against(u, v, source, torch.arange(5)).backward()
    source.own_loss()
    for again in (copy.deepcopy(source), pickle.loads(pickle.dumps(source))):
        assert torch.equal(again.shares(), source.shares())


def test_a_half_filled_queue_stays_half_filled():
    queue = inv.Queue(16, D)
    steps(queue, 0, 1)
    again = inv.Queue(16, D)
    again.load_state_dict(copy.deepcopy(queue.state_dict()))
    assert len(again) == len(queue) == 8
    assert torch.equal(again.candidates().ids, queue.candidates().ids)
    steps(queue, 1, 5), steps(again, 1, 5)
    assert len(again) == 16 and torch.equal(again.ids, queue.ids)


def test_the_outer_end_closes_in_and_comes_back():
    ring = MAKERS["annulus"]()
    seen = []
    for progress in (0, 0.25, 0.5, 1.0):
        ring.advance(progress)
        seen.append(ring.outer_now)
    assert seen == [18, 15, 12, 6]
    ring.advance(0.25)
    again = MAKERS["annulus"]()
    again.load_state_dict(ring.state_dict())
    assert again.outer_now == 15


def test_memories_move_with_their_module():
    """All of it is buffers: what .to() and .double() move."""
    for make in MAKERS.values():
        source = make()
        floats = [b for b in source.buffers() if b.is_floating_point()]
        assert isinstance(source, nn.Module) and floats
        assert all(b.dtype == torch.float32 for b in floats)
        source.double()
        floats = [b for b in source.buffers() if b.is_floating_point()]
        assert all(b.dtype == torch.float64 for b in floats)


def test_a_state_with_the_spelling_of_before():
    source = MAKERS["prototypes"]()
    source.refresh(1.0)
    state = source.state_dict()
    state["centres"] = state.pop("centers")
    again = MAKERS["prototypes"]()
    again.load_state_dict(state)
    assert torch.equal(again.centers, source.centers)
