"""What theory says of each bound, seen on samples with exact information."""

import math

import pytest
import torch

from invariance import estimators as est
from invariance.estimators import correlated_gaussian

PAIRS = correlated_gaussian(2, nats=1.0)
N = 12
BATCHES = 4000


def ratios(n, batches, pairs=PAIRS, seed=0):
    """Exact log ratios of all pairs of rows, for many independent batches."""
    dice = torch.Generator().manual_seed(seed)
    x, y = pairs.sample(n * batches, generator=dice, dtype=torch.float64)
    rho = math.sqrt(1 - math.exp(-2 * pairs.nats / pairs.x_width))
    x, y = x.view(batches, n, 1, -1), y.view(batches, 1, n, -1)
    form = (2 * rho * x * y - rho**2 * (x * x + y * y)) / (2 * (1 - rho**2))
    return form.sum(-1) + pairs.nats, x, y


@pytest.fixture(scope="module")
def exact():
    return ratios(N, BATCHES)


CRITICS = {
    "optimal": lambda g, x, y: g,
    "random": lambda g, x, y: torch.sin(3 * x.sum(-1) + 1) * torch.cos(5 * y[..., 0]),
    "backwards": lambda g, x, y: -g.clamp(-2, 2),
    "too sure": lambda g, x, y: (3 * g).clamp(-6, 3),
    "shifted": lambda g, x, y: g + 1.5,
    "of x alone": lambda g, x, y: (x.square().sum(-1) - 1).clamp(-2, 2).expand_as(g),
    "sees the partner's sign": lambda g, x, y: 2 * (x[..., 0] * y[..., 0]).sign(),
}
HELPERS = {
    "flat": lambda g: torch.zeros(g.shape[:-1]).double(),
    "wild": lambda g: torch.sin(7 * g.diagonal(dim1=1, dim2=2)),
    "right dual": lambda g: -g.diagonal(dim1=1, dim2=2),
}


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("name", [n for n, b in est.BOUNDS.items() if b.lower_bound])
def test_certified_bounds_stay_below_for_every_critic(name, critic, exact):
    bound, g = est.BOUNDS[name], CRITICS[critic](*exact)
    for kind, helper in HELPERS.items():
        if bound.helper == "none" and kind != "flat":
            continue
        if bound.helper == "baseline" and kind == "right dual":
            continue  # a baseline may look at x only, not at the pair
        numbers = helper(g)
        if bound.helper == "baseline" and kind == "wild":
            numbers = torch.sin(7 * exact[1][:, :, 0, 0])
        values = bound.value(g, numbers)
        error = values.std().item() / math.sqrt(BATCHES)
        assert values.mean().item() <= PAIRS.nats + 3.5 * error


@pytest.mark.parametrize(
    ("name", "offset"), [("nwj", 0.0), ("tuba", 0.0), ("jsd", 0.0), ("flo", 0.0)]
)
def test_unbiased_bounds_are_tight_at_the_optimal_critic(name, offset, exact):
    bound, g = est.BOUNDS[name], exact[0]
    helper = HELPERS["right dual" if name == "flo" else "flat"](g)
    values = bound.value(g, helper)
    error = values.std().item() / math.sqrt(BATCHES)
    assert values.mean().item() == pytest.approx(PAIRS.nats, abs=4 * error)
    assert error < 0.05


def test_nwj_without_the_one_loses_one_over_e(exact):
    values = est.nwj(exact[0])
    error = values.std().item() / math.sqrt(BATCHES)
    wanted = PAIRS.nats - math.exp(-1)
    assert values.mean().item() == pytest.approx(wanted, abs=4 * error)


def test_the_bias_of_info_nce_shrinks_like_one_over_k():
    bias = {}
    for k in (16, 32, 64):
        g, _, _ = ratios(k, 48_000 // k, seed=k)
        # the same rows give the exact mean log ratio: subtract its noise
        noise = g.diagonal(dim1=1, dim2=2).mean().item() - PAIRS.nats
        value = est.info_nce(g).mean().item()
        assert value <= math.log(k)
        bias[k] = PAIRS.nats - (value - noise)
    assert bias[16] > bias[32] > bias[64] > 0
    assert bias[16] / bias[32] == pytest.approx(2, rel=0.25)
    assert bias[32] / bias[64] == pytest.approx(2, rel=0.3)


@pytest.mark.parametrize("name", ["unnormalized_ba", "mine"])
def test_what_overestimates_is_labeled_so(name):
    g, _, _ = ratios(6, 8000, seed=5)
    bound = est.BOUNDS[name]
    values = bound.value(g, g.new_zeros(g.shape[:-1]))
    error = values.std().item() / math.sqrt(len(values))
    assert values.mean().item() > PAIRS.nats + 4 * error
    assert not bound.lower_bound


def test_smile_trades_variance_for_bias():
    g, _, _ = ratios(16, 3000, correlated_gaussian(2, nats=3.0), seed=6)
    clipped, loose = est.smile(g, 1.0), est.smile(g, math.inf)
    assert clipped.std() < loose.std()
    torch.testing.assert_close(loose, est.donsker_varadhan(g))
    assert not est.BOUNDS["smile"].lower_bound


def test_easy_negatives_overshoot_and_hard_ones_do_not():
    g, _, _ = ratios(33, 1500, correlated_gaussian(2, nats=1.7), seed=7)
    positive = g.diagonal(dim1=1, dim2=2).flatten()
    eye = torch.eye(33, dtype=torch.bool)
    strangers = g[:, ~eye].view(len(g), 33, 32).flatten(0, 1)
    ordered = strangers.sort(1).values
    easy, hard = est.vince(positive, ordered[:, :15]), ordered[:, -15:]
    iid = est.vince(positive, strangers[:, :15])
    assert est.vince(positive, hard).item() < iid.item() < 1.7 < easy.item()
