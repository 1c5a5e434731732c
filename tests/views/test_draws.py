"""The numbers are uniform, unrelated, and a function of their keys alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from invariance.errors import ShapeError
from invariance.views import Draws

N = 20_000
WORDS = [[-8969355862589374332, -2986427959297034167]]


def draws(**keys):
    given_ = {"seed": 0, "epoch": 0, "samples": torch.arange(N), "view": 0} | keys
    return Draws(**given_)


def test_uniform_is_uniform():
    u = draws().uniform(3)
    assert u.min() >= 0 and u.max() < 1
    assert u.mean().item() == pytest.approx(0.5, abs=0.005)
    assert u.var().item() == pytest.approx(1 / 12, abs=0.001)
    for column in u.unbind(1):
        assert stats.kstest(column.numpy(), "uniform").pvalue > 1e-3


def test_normal_is_normal():
    for column in draws(seed=1).normal(3).unbind(1):
        assert stats.kstest(column.numpy(), "norm").pvalue > 1e-3
    x = draws(samples=torch.arange(50)).image_noise((3, 5, 7))
    assert x.shape == (50, 3, 5, 7)
    assert abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.05


def test_numbers_do_not_change_between_versions():
    """Runs are resumed and compared across machines: these words are a promise."""
    words = draws(seed=5, epoch=2, samples=torch.tensor([3]), view=1)._words(2, 1)
    assert words.tolist() == WORDS


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"epoch": 1},
        {"view": 1},
        {"stream": 1},
        {"samples": torch.arange(1, N + 1)},
        {"samples": torch.arange(N) + 2**32},
        {"samples": -torch.arange(N) - 1},
        {"seed": 2**40},
        {"seed": -1},
    ],
    ids=str,
)
def test_neighbouring_keys_are_unrelated(other):
    a, b = draws().uniform(2), draws(**other).uniform(2)
    table = torch.corrcoef(torch.cat([a, b], 1).T) - torch.eye(4)
    assert table.abs().max() < 5 / N**0.5
    assert (a == b).float().mean() < 1e-3


def test_keys_cannot_be_exchanged():
    a = draws(seed=1, epoch=2).uniform(1)
    assert not torch.equal(a, draws(seed=2, epoch=1).uniform(1))
    assert not torch.equal(a, draws(epoch=1, view=2, seed=0).uniform(1))


def test_substreams_are_unrelated_to_each_other_and_to_their_parent():
    d = draws()
    sources = [d, d.substream(0), d.substream(1), d.substream(0).substream(1)]
    sources += [d.substream(1).substream(0)]
    u = torch.cat([s.uniform(2) for s in sources], 1)
    assert (torch.corrcoef(u.T) - torch.eye(10)).abs().max() < 5 / N**0.5


def test_kinds_of_numbers_are_unrelated():
    d = draws()
    kinds = [d.uniform(1), d.normal(1), d.coin(0.5)[:, None], d.permutation(2)[:, :1]]
    table = torch.corrcoef(torch.cat([k.float() for k in kinds], 1).T)
    assert (table - torch.eye(4)).abs().max() < 5 / N**0.5


def test_permutations_are_equally_likely():
    order = draws().permutation(4)
    assert torch.equal(order.sort(1).values, torch.arange(4).expand(N, 4))
    counts = (order * torch.tensor([64, 16, 4, 1])).sum(1).unique(return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("p", [0, 0.2, 1.0])
def test_coin_comes_up_with_its_probability(p):
    assert draws().coin(p).float().mean().item() == pytest.approx(p, abs=0.01)


@settings(max_examples=30, deadline=None)
@given(
    ids=st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=8),
    seed=st.integers(0, 2**63),
    k=st.integers(1, 5),
    data=st.data(),
)
def test_a_row_never_sees_its_batch(ids, seed, k, data):
    order = data.draw(st.permutations(range(len(ids))))
    whole = draws(seed=seed, samples=torch.tensor(ids))
    mixed = draws(seed=seed, samples=torch.tensor([ids[i] for i in order]))
    alone = [draws(seed=seed, samples=torch.tensor([i])) for i in ids]
    for ask in ("uniform", "normal", "permutation"):
        rows = getattr(whole, ask)(k)
        assert torch.equal(getattr(mixed, ask)(k), rows[list(order)])
        assert torch.equal(torch.cat([getattr(a, ask)(k) for a in alone]), rows)
    assert torch.equal(whole.rows(torch.tensor([0])).uniform(k), whole.uniform(k)[:1])


def test_the_dtype_of_ids_does_not_matter():
    a = draws(samples=torch.arange(5, dtype=torch.int32)).uniform(2)
    assert torch.equal(a, draws(samples=torch.arange(5)).uniform(2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_bits():
    d = draws()
    for ask in ("uniform", "normal", "permutation"):
        assert torch.equal(getattr(d.to("cuda"), ask)(5).cpu(), getattr(d, ask)(5))


def test_samples_must_be_a_list_of_ids():
    with pytest.raises(ShapeError, match="samples needs one whole number"):
        draws(samples=torch.zeros(2, 2, dtype=torch.long))
