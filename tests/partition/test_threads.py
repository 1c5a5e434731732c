"""Threads that share the tiles: the same bits for any number of them, and no traces."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.autograd import grad
from torch.utils.flop_counter import FlopCounterMode

# private: _plan's budgets, so that a small matrix has several tiles and threads
from invariance.partition import (
    FUNCTIONS,
    _plan,
    log_partition,
    log_partitions,
    row_sums,
    two_sided_log_partition,
)

IDS = torch.arange(75) // 2
LEARNED = torch.tensor([0.5, 2.0], requires_grad=True)


def rows(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 4, generator=generator).requires_grad_()


X, Y = rows(75, 0), rows(60, 1)
WITH_SAME_IDS = {"row_ids": IDS, "column_ids": IDS}
WITH_IDS = {"row_ids": IDS, "column_ids": IDS[:60]}
CALLS = {
    "symmetric": lambda: log_partition(X, X, scale=2.0, **WITH_SAME_IDS),
    "rows alone": lambda: log_partition(X, Y.detach(), scale=2.0, **WITH_IDS),
    "rows": lambda: log_partition(X, Y, scale=-2.0, **WITH_IDS),
    "a band": lambda: log_partition(X, Y, scale=2.0, low=-1.0, high=1.0),
    "steep": lambda: log_partition(X, X, scale=200.0),
    "two sides": lambda: torch.cat(two_sided_log_partition(X, Y, scale=2.0)),
    "two steep sides": lambda: torch.cat(two_sided_log_partition(X, Y, scale=200.0)),
    "learned scales": lambda: log_partitions(X, Y, scales=LEARNED, **WITH_IDS),
    "other sums": lambda: row_sums(X, Y, "softplus", **WITH_IDS),
    "other symmetric sums": lambda: row_sums(X, X, "log", 1.0, **WITH_SAME_IDS),
}


@pytest.fixture(autouse=True)
def tiles(monkeypatch):
    """Matrices of a few thousand pairs have dozens of tiles, shared by two threads."""
    monkeypatch.setattr(_plan, "CPU_TILE_BYTES", 3000)
    monkeypatch.setattr(_plan, "CPU_KEPT_BYTES", 0)
    monkeypatch.setattr(_plan, "SHARED_FROM", 0)
    monkeypatch.setattr(_plan, "SHARED_TILE", 1)
    monkeypatch.setattr(_plan, "NARROWEST", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def value_and_gradients(call):
    out = call()
    gradients = grad(out.sin().sum(), (X, Y, LEARNED), allow_unused=True)
    return [out.detach(), *[g for g in gradients if g is not None]]


@pytest.mark.parametrize("name", CALLS)
def test_any_number_of_threads_gives_the_same_bits(name, visitors):
    torch.set_num_threads(1)
    alone = value_and_gradients(CALLS[name])
    assert visitors == {"MainThread"}
    for n_threads in (2, 5):
        torch.set_num_threads(n_threads)
        for _ in range(3):
            together = value_and_gradients(CALLS[name])
            assert len(together) == len(alone)
            assert all(map(torch.equal, together, alone))
    assert {name[:10] for name in visitors} == {"MainThread", "invariance"}


@pytest.fixture
def visitors(monkeypatch):
    """Names of the threads that multiply rows."""
    names, multiply = set(), torch.mm

    def watched(*args, **settings):
        names.add(threading.current_thread().name)
        return multiply(*args, **settings)

    monkeypatch.setattr(torch, "mm", watched)
    return names


def test_a_thread_computes_alone_and_others_keep_their_number(monkeypatch):
    numbers, (value, slope) = set(), FUNCTIONS["softplus"]

    def ask(*args):
        numbers.add(torch.get_num_threads())
        return value(*args)

    monkeypatch.setitem(FUNCTIONS, "softplus", (ask, slope))
    torch.set_num_threads(3)
    row_sums(X, Y, "softplus")
    assert numbers == {1}
    assert torch.get_num_threads() == number_of_a_new_thread() == 3


def number_of_a_new_thread():
    numbers = []
    thread = threading.Thread(target=lambda: numbers.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return numbers[0]


def test_an_interrupt_while_threads_are_started_leaves_none_behind(monkeypatch):
    torch.set_num_threads(7)  # as many as no other test has
    before = threading.active_count()
    submit, calls = ThreadPoolExecutor.submit, iter(range(100))

    def interrupt(pool, *task):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return submit(pool, *task)

    with monkeypatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "submit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            row_sums(X, Y, "softplus")
    assert threading.active_count() == before
    assert torch.get_num_threads() == number_of_a_new_thread() == 7
    assert row_sums(X, Y, "softplus").isfinite().all()


def test_a_counter_of_operations_sees_every_tile():
    counts = []
    for n_threads in (1, 2):
        torch.set_num_threads(n_threads)
        with FlopCounterMode(display=False) as counter:
            value_and_gradients(CALLS["rows"])
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] == 4 * (2 * 75 * 60 * 4)


def test_an_error_in_a_tile_reaches_the_caller(monkeypatch):
    want, (value, slope) = row_sums(X, Y, "softplus"), FUNCTIONS["softplus"]
    calls = iter(range(1000))

    def fail(*args):
        if next(calls) == 7:
            raise MemoryError("no room for a tile")
        return value(*args)

    with monkeypatch.context() as patch:
        patch.setitem(FUNCTIONS, "softplus", (fail, slope))
        with pytest.raises(MemoryError, match="no room for a tile"):
            row_sums(X, Y, "softplus")
    assert next(calls) < 30  # the others stopped as well
    assert torch.equal(row_sums(X, Y, "softplus"), want)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode):
    want = CALLS["symmetric"]().detach()
    with mode():
        got = CALLS["symmetric"]()
    assert torch.equal(got, want)
    assert not got.requires_grad


def test_callers_in_several_threads_do_not_meet():
    want, outcomes = value_and_gradients(CALLS["symmetric"]), []

    def run():
        torch.set_num_threads(2)
        for _ in range(5):
            got = value_and_gradients(CALLS["symmetric"])
            outcomes.append(all(map(torch.equal, got, want)))

    callers = [threading.Thread(target=run) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert outcomes == [True] * 15


def compute_in_child(pipe):
    torch.set_num_threads(2)
    pipe.send(log_partition(X.detach(), X.detach(), scale=2.0).tolist())


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork"
)
def test_a_forked_process_has_threads_of_its_own():
    want = log_partition(X.detach(), X.detach(), scale=2.0)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=compute_in_child, args=(there,))
    child.start()
    try:
        assert here.poll(60), "the child waits for threads that it does not have"
        assert here.recv() == want.tolist()
    finally:
        child.kill()
