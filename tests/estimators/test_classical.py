"""KSG, Gaussian and histogram estimates; columns made normal."""

import math

import pytest
import torch
from tests.reference import information as slow

from invariance.estimators import (
    canonical_correlations,
    correlated_gaussian,
    estimate_mi,
    fit_normal_scores,
    gaussian_information,
    ksg,
    noisy_copy,
    plug_in,
    student,
    uniform_noise,
)


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("widths", [(1, 1), (2, 1), (2, 3)])
def test_ksg_equals_its_twin(widths):
    a, b = (torch.randn(40, w, generator=dice(w)).double() for w in widths)
    b = b + a[:, :1]
    rows = [[tuple(r) for r in z.tolist()] for z in (a, b)]
    for k in (1, 4):
        assert ksg(a, b, neighbors=k)[0] == pytest.approx(slow.ksg(*rows, k))


@pytest.mark.parametrize(
    "pairs",
    [correlated_gaussian(1, nats=0.7), uniform_noise(noise=0.2), student(1, dof=2)],
    ids=str,
)
def test_ksg_is_right_in_few_columns(pairs):
    x, y = pairs.sample(4000, generator=dice())
    e = estimate_mi(x, y, estimator="ksg")
    assert e.nats == pytest.approx(pairs.nats, abs=0.05)
    assert "far too low" not in " ".join(e.notes)


def test_ksg_in_many_columns_warns():
    x, y = correlated_gaussian(12, nats=4.0).sample(500, generator=dice())
    e = estimate_mi(x, y, estimator="ksg")
    assert e.nats < 2 and "far too low with this many columns" in e.notes


def test_the_gaussian_estimate_equals_the_determinants():
    x, y = correlated_gaussian(3, nats=1.0).sample(500, generator=dice())
    rho = canonical_correlations(x, y)
    plain = -0.5 * torch.log(1 - rho**2).sum().item()
    covariance = torch.cov(torch.cat([x, y], 1).double().T)
    assert plain == pytest.approx(slow.gaussian(covariance, 3))


@pytest.mark.parametrize("nats", [0.0, 1.5])
def test_the_gaussian_estimate_is_unbiased_and_knows_its_error(nats):
    pairs, n, runs = correlated_gaussian(4, nats=nats), 60, 400
    values, errors = [], []
    for seed in range(runs):
        x, y = pairs.sample(n, generator=dice(seed), dtype=torch.float64)
        value, error = gaussian_information(canonical_correlations(x, y), n, (4, 4))
        values.append(value)
        errors.append(error)
    spread = torch.tensor(values).std().item()
    assert sum(values) / runs == pytest.approx(nats, abs=4 * spread / math.sqrt(runs))
    assert sum(errors) / runs == pytest.approx(spread, rel=0.25)


def test_plug_in_equals_its_twin_plus_the_correction():
    a = torch.randint(0, 4, (60,), generator=dice(1))
    b = (a + torch.randint(0, 2, (60,), generator=dice(2))) % 4
    nats, _, bias = plug_in(a, b)
    assert nats + bias == pytest.approx(slow.plug_in(a.tolist(), b.tolist()))


def test_the_correction_takes_most_of_the_bias():
    pairs, values, raw = noisy_copy(6, keep=0.3), [], []
    for seed in range(200):
        x, y = (z[:, 0].long() for z in pairs.sample(300, generator=dice(seed)))
        nats, _, bias = plug_in(x, y)
        values.append(nats)
        raw.append(nats + bias)
    off = abs(sum(values) / 200 - pairs.nats)
    assert off < 0.3 * abs(sum(raw) / 200 - pairs.nats)


def test_a_continuous_column_is_cut_into_bins():
    x, y = correlated_gaussian(1, nats=1.0).sample(5000, generator=dice())
    e = estimate_mi(x, y, estimator="histogram")
    assert 0.85 < e.nats < 1.0
    assert "x cut into 17 bins, which loses information" in e.notes


def test_normal_scores_increase_everywhere_and_make_columns_normal():
    train = torch.randn(5000, 2, generator=dice()).double() ** 3
    scores = fit_normal_scores(train)
    z = scores(train)
    assert z.mean(0).abs().max() < 0.01 and (z.std(0) - 1).abs().max() < 0.02
    grid = torch.linspace(-80, 80, 40_001).double()[:, None].repeat(1, 2)
    assert (scores(grid).diff(dim=0) > 0).all()  # beyond the training rows, too


def test_normal_scores_of_few_values_keep_them_apart():
    train = torch.tensor([0.0, 1, 1, 1, 4]).repeat(20)[:, None]
    z = fit_normal_scores(train)(train).squeeze(1)
    assert len(z.unique()) == 3
    assert torch.equal(z.argsort(stable=True), train[:, 0].argsort(stable=True))


def test_repeated_columns_change_neither_value_nor_error():
    x, y = (torch.randn(60, 4, generator=dice(k)).double() for k in range(2))
    mixed = x @ torch.randn(4, 5, generator=dice(2)).double()
    once, again = (
        estimate_mi(z, y, estimator="gaussian", margins="standard")
        for z in (x, torch.cat([x, mixed], 1))
    )
    assert again.nats == pytest.approx(once.nats, abs=1e-9)
    assert again.std_error == pytest.approx(once.std_error, abs=1e-9)


def test_raw_margins_leave_columns_as_they_are():
    x = torch.randn(200, 2, generator=dice(0)).double()
    y = 50 + 9 * x[:, :1] + 30 * torch.randn(200, 1, generator=dice(1)).double()
    raw = estimate_mi(x, y, estimator="ksg", margins="raw")
    assert raw.nats == pytest.approx(ksg(x, y)[0])
    scaled = estimate_mi(x, y, estimator="ksg", margins="standard")
    assert scaled.nats != pytest.approx(raw.nats)
