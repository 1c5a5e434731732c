"""Log-partitions of critics: the slow twin, gradients, memory, processes."""

from functools import partial

import pytest
import torch
from tests.processes import on_processes
from tests.reference.critics import critic_log_sums
from torch.autograd import grad, gradcheck

from invariance.critics import CRITICS, Symmetric, build_critic, log_sums
from invariance.partition import share_rows

EXACT = {"rtol": 1e-9, "atol": 1e-9}


def make(name, *, symmetric=False, x=3, y=3):
    torch.manual_seed(0)
    critic = build_critic(name, x, y).double()
    for p in critic.parameters():  # one that starts at zero would pass anything
        torch.nn.init.normal_(p, std=0.5)
    return Symmetric(critic) if symmetric else critic


def pairs(n, x=3, y=3):
    generator = torch.Generator().manual_seed(1)
    sizes = ((n, x), (n, y))
    rows = [torch.randn(*s, generator=generator, dtype=torch.float64) for s in sizes]
    return [r.requires_grad_() for r in rows]


def weigh(sums):
    """One number that depends on all of them, each in its own way."""
    weights = torch.linspace(0.5, 2, len(sums[0]), dtype=sums[0].dtype)
    return sum((k + 1) * (weights * part).sum() for k, part in enumerate(sums))


def value_and_gradients(function, critic, x, y, scale):
    sums = function(critic, x, y, scale=scale)
    learning = [x, y, scale, *critic.parameters()]
    return [*sums, *grad(weigh(sums), learning, allow_unused=True)]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("name", CRITICS)
def test_they_equal_their_slow_twin(name, symmetric, monkeypatch):
    # the size of a block is nobody's setting
    monkeypatch.setattr("invariance.critics._critic.PAIRS_AT_ONCE", 9)
    critic = make(name, symmetric=symmetric)
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    ours = value_and_gradients(log_sums, critic, *pairs(7), scale)
    twin = value_and_gradients(critic_log_sums, critic, *pairs(7), scale)
    for got, want in zip(ours, twin, strict=True):
        assert (got is None) == (want is None)
        if got is not None:
            torch.testing.assert_close(got, want, **EXACT)


@pytest.mark.parametrize("name", ["concatenated", "additive"])
def test_gradcheck(name):
    critic = make(name, y=2)
    assert gradcheck(lambda x, y: tuple(log_sums(critic, x, y)), pairs(4, y=2))


@pytest.mark.parametrize("name", CRITICS)
def test_a_symmetric_critic_lets_views_change_places(name):
    critic, (x, y) = make(name, symmetric=True), pairs(5)
    forth, back = log_sums(critic, x, y), log_sums(critic, y, x)
    torch.testing.assert_close(forth.positive, back.positive)
    torch.testing.assert_close(forth.rows, back.columns)
    assert not torch.allclose(critic.critic(x, y), critic.critic(y, x).T)


def test_hidden_layers_of_all_pairs_never_exist_at_once(monkeypatch):
    # the size of a block is nobody's setting
    monkeypatch.setattr("invariance.critics._critic.PAIRS_AT_ONCE", 64)
    critic, seen = make("concatenated"), []
    critic.of_both.register_forward_hook(lambda *a: seen.append(a[2].numel()))
    x, y = pairs(40)
    weigh(log_sums(critic, x, y)).backward()
    assert max(seen) <= 64 and len(seen) == 2 * 25 + 1  # forth, back, and partners


def on_one(name, rank, sizes=None):
    """Loss and averaged gradients of a process's rows of nine."""
    critic, (x, y) = make(name), pairs(9)
    scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    own = slice(0, 9)
    if sizes is not None:
        own = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    x, y = (z.detach()[own].requires_grad_() for z in (x, y))
    share = share_rows(x)
    sums = log_sums(critic, x, y, scale=scale, share=share)
    weigh(sums).backward()
    n = 1 if share is None else share.n_processes
    grads = [p.grad for p in critic.parameters()]
    for g in grads if n > 1 else ():  # as data-parallel training does
        torch.distributed.all_reduce(g)
    weights = [g / n for g in grads]
    return [*(s.detach() for s in sums), scale.grad, *weights], (x.grad / n, y.grad / n)


@pytest.mark.parametrize("name", ["concatenated", "separable"])
@pytest.mark.parametrize("sizes", [(5, 4), (6, 3, 0)])
def test_processes_say_what_one_says(name, sizes, tmp_path):
    whole, rows = on_one(name, 0)
    work = partial(on_one, name, sizes=sizes)
    answers = on_processes(len(sizes), work, tmp_path)
    for shared, _ in answers:
        torch.testing.assert_close(shared, whole, **EXACT)
    for k, want in enumerate(rows):
        got = torch.cat([own[k] for _, own in answers])
        torch.testing.assert_close(got, want, **EXACT)
