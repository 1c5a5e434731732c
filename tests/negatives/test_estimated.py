"""Few draws that stand for a whole bank: right on average, better than plain ones."""

import copy
import math

import pytest
import torch
from tests import reference
from torch.nn.functional import normalize

import invariance as inv
from invariance.errors import SettingError

KINDS = {"stratified": inv.Stratified, "control variate": inv.ControlVariate}


@pytest.fixture
def bank():
    """400 rows of eight groups, in float64."""
    g = torch.Generator().manual_seed(0)
    bank = inv.Bank(400, 6).double()
    centers = torch.randn(8, 6, generator=g, dtype=torch.float64)
    near = 0.2 * torch.randn(400, 6, generator=g, dtype=torch.float64)
    bank.z.copy_(normalize(centers[torch.arange(400) % 8] + near, dim=1))
    return bank


def anchors(bank, n=12):
    ids = torch.arange(n) * 7
    g = torch.Generator().manual_seed(1)
    noise = 0.1 * torch.randn(n, 6, generator=g, dtype=torch.float64)
    return normalize(bank.z[ids] + noise, dim=1), ids


def errors(source, u, ids, scale, repeats=60):
    """Mean and root mean square of Z-hat / Z - 1."""
    exact = source.bank.negative(u, ids, scales=[scale])[0]
    estimates = torch.stack(
        [source.negative(u, ids, scales=[scale])[0] for _ in range(repeats)]
    )
    off = (estimates - exact).exp() - 1
    return off.mean().item(), off.square().mean().sqrt().item()


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_right_on_average_and_beat_plain_draws(bank, kind):
    u, ids = anchors(bank)
    source = KINDS[kind](bank, n_draws=64)
    source.refresh(0.0)
    mean, spread = errors(source, u, ids, scale=2.0)
    assert abs(mean) < 0.01
    exact = bank.negative(u, ids, scales=[2.0])[0]
    plain = copy.deepcopy(bank)
    plain.n_draws = 64
    draws = [plain.negative(u, ids, scales=[2.0])[0] for _ in range(60)]
    off = (torch.stack(draws) + math.log(400 / 64) - exact).exp() - 1
    assert spread < 0.7 * off.square().mean().sqrt()


def test_a_draw_from_every_row_is_the_bank_itself(bank):
    u, ids = anchors(bank)
    source = inv.Stratified(bank, n_draws=400)
    source.refresh(0.0)
    got = source.negative(u, ids, scales=[3.0, 0.0])
    torch.testing.assert_close(got, bank.negative(u, ids, scales=[3.0, 0.0]))


def test_a_control_variate_is_the_slow_one(bank):
    u, ids = anchors(bank)
    source = inv.ControlVariate(bank, n_draws=50)
    drawn = copy.deepcopy(bank).draw(50)
    got = source.negative(u, ids, scales=[1.5])[0]
    for i, own in enumerate(ids.tolist()):
        s = [1.5 * float(u[i] @ bank.z[j]) for j in drawn if j != own]
        others = [1.5 * float(u[i] @ bank.z[j]) for j in range(400) if j != own]
        moments = [sum(x**k for x in others) / 399 for k in (1, 2)]
        slow = math.log(reference.control_variate(s, *moments)) + math.log(399)
        assert got[i].item() == pytest.approx(slow)


@pytest.mark.parametrize("kind", KINDS)
def test_its_gradient_is_near_that_of_the_whole_bank(bank, kind):
    u, ids = anchors(bank)
    source = KINDS[kind](bank, n_draws=128)
    source.refresh(0.0)

    def gradient(ask):
        rows = u.clone().requires_grad_()
        ask.negative(rows, ids, scales=[2.0])[0].sum().backward()
        return rows.grad

    exact = gradient(bank)
    mean = torch.stack([gradient(source) for _ in range(60)]).mean(0)
    assert (mean - exact).norm() < 0.05 * exact.norm()


def test_moments_follow_what_is_remembered(bank):
    source = inv.ControlVariate(bank, n_draws=20)
    g = torch.Generator().manual_seed(2)
    for _ in range(3):
        rows = torch.randn(5, 6, generator=g, dtype=torch.float64)
        source.remember(rows, torch.randint(400, (5,), generator=g))
    torch.testing.assert_close(source.total, bank.z.sum(0))
    torch.testing.assert_close(source.second, bank.z.T @ bank.z)


def test_an_estimate_below_zero_is_not_used():
    """Rows all alike but one: a quadratic fitted to the far end misleads."""
    bank = inv.Bank(50, 2, seed=3).double()
    bank.z.copy_(torch.tensor([[-1.0, 0.0]]).double().expand(50, 2))
    bank.z[7] = torch.tensor([1.0, 0.0])
    u, ids = torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.tensor([0])
    u.requires_grad_()
    source = inv.ControlVariate(bank, n_draws=3)
    for _ in range(30):
        value = source.negative(u, ids, scales=[30.0])[0]
        (slope,) = torch.autograd.grad(value.sum(), u)
        assert value.isfinite().all() and slope.isfinite().all()


def test_a_training_step_goes_on_exactly_after_a_resume(bank):
    u, ids = anchors(bank)
    for kind in KINDS.values():
        source = kind(copy.deepcopy(bank), n_draws=16)
        source.refresh(0.0)
        source.negative(u, ids, scales=[2.0])
        twin = kind(inv.Bank(400, 6).double(), n_draws=16)
        twin.load_state_dict(source.state_dict())
        a, b = (s.negative(u, ids, scales=[2.0]) for s in (source, twin))
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("n_draws", [0, 401])
@pytest.mark.parametrize("kind", KINDS)
def test_draws_lie_within_the_bank(bank, kind, n_draws):
    with pytest.raises(SettingError, match=r"between 1 and the 400 rows.*got"):
        KINDS[kind](bank, n_draws=n_draws)
