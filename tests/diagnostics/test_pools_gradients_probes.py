"""Readings of many batches: closed forms, and slow twins in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import scores as slow

from invariance.diagnostics import (
    diagnosis,
    dimensions,
    gradient_signal_to_noise,
    information_by_pool,
    linear_r2,
    mutual_information_bound,
    sharpest_temperature,
    similarity_histograms,
)
from invariance.errors import SettingError, ShapeError
from invariance.objectives import dcl, flat_nce, info_nce


def rows(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64)


# ---------------------------------------------------------------- dimensions


@pytest.mark.parametrize("r", [1, 3, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_matrix_of_rank_r_has_rank_r(r, dtype):
    z = (rows(60, r) @ rows(r, 40, seed=1)).to(dtype)
    result = dimensions(z)
    assert result.rank == r and result.used <= r and result.width == 40
    assert result.collapsed == (result.used < 4)
    shifted = dimensions(z + 5)  # a center is no direction
    assert (shifted.rank, shifted.used) == (result.rank, result.used)


def test_equal_directions_are_all_used():
    z = torch.cat([torch.eye(8), -torch.eye(8)])
    result = dimensions(z)
    assert (result.rank, result.used, result.dead) == (8, 8, 0)
    assert result.sentence == "8 of 8 directions hold 99 % of the variance."


def test_collapse_and_dead_features():
    same = dimensions(torch.full((9, 5), 0.3))
    assert (same.rank, same.used, same.dead, same.collapsed) == (0, 0, 5, True)
    half = rows(50, 6)
    half[:, 3:] = 7.0
    result = dimensions(half)
    assert (result.rank, result.dead) == (3, 3)
    assert str(result).endswith("; 3 features never change.")


def test_few_directions_are_a_collapse_only_where_there_is_more_to_tell():
    few = dimensions(rows(200, 7) @ rows(7, 128, seed=1))
    assert few.collapsed and "hold 99 % of the variance: few, as is" in few.sentence
    assert not few.sentence.startswith("Dimensional collapse")
    line = dimensions(torch.outer(torch.arange(9.0), torch.ones(40)))
    assert line.sentence.endswith("variance: a line, a dimensional collapse.")
    same = dimensions(torch.ones(9, 40))
    assert same.sentence.startswith("None of 40 directions varies: all rows are the")


def test_simplex_uses_all_but_one():
    result = dimensions(torch.eye(10) - 0.1)
    assert result.rank == result.used == 9


# ---------------------------------------------------------------- histograms


def test_histograms_count_every_cosine_once():
    u, v = rows(30, 4), rows(30, 4, seed=1)
    result = similarity_histograms(u, v, bins=20)
    cosines = torch.nn.functional.normalize(u) @ torch.nn.functional.normalize(v).T
    off = cosines[~torch.eye(30, dtype=torch.bool)]
    edges = torch.tensor(result["edges"], dtype=torch.float64)
    for kind, values in (("positive", cosines.diagonal()), ("negative", off)):
        counts, _ = torch.histogram(values, edges)
        mine = torch.tensor(result[kind], dtype=torch.float64) * len(values) * 0.1
        torch.testing.assert_close(mine, counts, atol=1e-6, rtol=0)
    with pytest.raises(SettingError, match="bins"):
        similarity_histograms(u, v, bins=0)


# ---------------------------------------------------------------- information


def test_the_pool_is_the_bound_of_all_rows_and_the_batch_a_mean():
    u = rows(200, 6)
    v = u + 0.3 * rows(200, 6, seed=1)
    read = information_by_pool(u, v, temperature=0.1, batch_size=16, factor=10)
    assert read.n_pool == 160
    whole = mutual_information_bound(u[:160], v[:160], temperature=0.1)
    parts = [
        mutual_information_bound(u[i : i + 16], v[i : i + 16], temperature=0.1).nats
        for i in range(0, 160, 16)
    ]
    assert read.pool_nats == pytest.approx(whole.nats, abs=1e-12)
    assert read.batch_nats == pytest.approx(sum(parts) / 10, abs=1e-12)
    assert read.batch_ceiling == math.log(16) and read.pool_ceiling == math.log(160)
    assert read.batch_nats < read.pool_nats
    assert "hides" in read.sentence


def test_a_batch_is_capped_where_a_pool_is_not():
    """Rows that are all told apart: each shows its ceiling, log K."""
    z = torch.eye(400)
    read = information_by_pool(z, z, temperature=0.03, batch_size=4)
    assert read.batch_nats == pytest.approx(math.log(4), abs=1e-6)
    assert read.pool_nats == pytest.approx(math.log(400), abs=1e-6)
    assert read.n_pool == 400  # a hundred batches


def test_unrelated_views_share_nothing():
    read = information_by_pool(
        rows(400, 32), rows(400, 32, seed=1), temperature=1.0, batch_size=8
    )
    assert abs(read.pool_nats) < 0.1 and abs(read.batch_nats) < 0.1
    assert "shows all of it" in read.sentence


def test_the_sharpest_temperature_is_the_best_of_the_grid():
    u = rows(100, 8)
    v = u + 0.5 * rows(100, 8, seed=1)
    grid = (0.05, 0.2, 1.0)
    nats = {t: mutual_information_bound(u, v, temperature=t).nats for t in grid}
    assert sharpest_temperature(u, v, grid=grid) == max(nats, key=nats.get)
    with pytest.raises(SettingError, match="at least one temperature"):
        sharpest_temperature(u, v, grid=())
    with pytest.raises(SettingError, match="between 2 and the 100 rows"):
        information_by_pool(u, v, temperature=0.1, batch_size=101)


# ---------------------------------------------------------------- gradients


@settings(max_examples=10, deadline=None)
@given(batch=st.integers(2, 5), d=st.integers(2, 4), seed=st.integers(0, 50))
def test_signal_to_noise_is_the_loop(batch, d, seed):
    u, v = rows(4 * batch + 1, d, seed=seed), rows(4 * batch + 1, d, seed=seed + 100)
    result = gradient_signal_to_noise(u, v, info_nce, batch_size=batch)
    expected = slow.gradient_signal_to_noise(u, v, info_nce, batch)
    assert result == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_signal_to_noise_closed_form():
    """Gradients ±a + b, half of each: noise is |a|² n / (n - 1), signal |b|²."""
    n = 50
    sign = torch.tensor([1.0, -1.0]).repeat(n // 2).repeat_interleave(2)
    u = torch.stack([sign + 3, torch.zeros(2 * n)], 1).double()
    v = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(2 * n, 1)

    def linear(a, b):  # d/dW of mean a_11 at W = I is mean u_1, in one entry
        return a[:, 0].mean()

    noise = n / (n - 1)
    expected = math.sqrt((9 - noise / n) / noise)
    result = gradient_signal_to_noise(u, v, linear, batch_size=2)
    assert result == pytest.approx(expected)


def test_larger_batches_are_quieter_and_flat_nce_is_dcl():
    scale = torch.linspace(0.2, 2, 8)  # some directions are worth more: a signal
    u = rows(1200, 8) * scale
    v = u + rows(1200, 8, seed=1)
    small, large = (
        gradient_signal_to_noise(u, v, info_nce, batch_size=b) for b in (8, 64)
    )
    assert large > 1.5 * small
    a, b = (gradient_signal_to_noise(u, v, f, batch_size=32) for f in (dcl, flat_nce))
    assert a == pytest.approx(b, rel=1e-6)


def test_labels_go_to_the_objective_batch_by_batch():
    u, labels, seen = rows(40, 3), torch.arange(40), []

    def loss(a, b, own):
        seen.extend(own.tolist())
        return (a * own[:, None]).sum()

    gradient_signal_to_noise(u, u, loss, batch_size=10, labels=labels)
    assert seen == labels.tolist()


def test_gradient_mistakes():
    u = rows(10, 3)
    with pytest.raises(SettingError, match="2 or more: got 1"):
        gradient_signal_to_noise(u, u, info_nce, batch_size=1)
    with pytest.raises(ShapeError, match="two batches of 6"):
        gradient_signal_to_noise(u, u, info_nce, batch_size=6)
    assert gradient_signal_to_noise(u, u, lambda a, b: 0 * a.sum(), batch_size=2) == 0


# ---------------------------------------------------------------- regression


def test_r2_is_the_loop():
    x = rows(100, 4)
    y = x @ rows(4, 1, seed=1)[:, 0] + rows(100, seed=2)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(0))
    # one strength leaves nothing to choose: fitted on the last 60, read on the first 20
    arranged = torch.cat([order[40:], order[:20]])
    expected = slow.ridge_r2(x[arranged], y[arranged], 0.1, 60)
    assert linear_r2(x, y[:, None], grid=[0.1]) == pytest.approx([expected], abs=1e-9)


def test_r2_of_all_of_it_half_of_it_and_nothing():
    x = rows(4000, 6)
    noise = rows(4000, seed=1)
    y = torch.stack([x[:, 0], x[:, 0] + noise, noise, torch.ones(4000).double()], 1)
    whole, half, none, constant = linear_r2(x, y)
    assert whole == pytest.approx(1, abs=1e-3)
    assert half == pytest.approx(0.5, abs=0.05)
    assert none == pytest.approx(0, abs=0.02) and constant == 0


@pytest.mark.usefixtures("our_errors")
def test_r2_mistakes():
    x = rows(40, 3)
    with pytest.raises(ShapeError, match="one row per sample"):
        linear_r2(x, x[:10])
    with pytest.raises(SettingError, match="strengths above 0"):
        linear_r2(x, x, grid=[0.0])


# ---------------------------------------------------------------- all at once


def test_a_diagnosis_of_even_rows():
    z = torch.nn.functional.normalize(rows(500, 16))
    result = diagnosis(
        torch.stack([z, z]), torch.stack([z, z]), labels=torch.arange(500) % 5
    )
    for of in ("h", "z"):
        assert result["alignment", of].value == 0
        reading = result["uniformity", of]
        assert reading.value == pytest.approx(reading.ideal, abs=0.05)
        assert result["wasserstein", of].value < 0.02
        assert result["directions used", of].value == 16
        assert result["spread", of].value > 0.95
        assert abs(result["tolerance", of].value) < 0.02
        assert result.spectrum[of][0] == 1 and len(result.spectrum[of]) == 16
    assert result["contrastive accuracy", "z"].value == 1
    with pytest.raises(KeyError):
        result["no such", "h"]


def test_a_diagnosis_of_collapse():
    result = diagnosis(torch.ones(2, 50, 20))
    assert {reading.of for reading in result.readings} == {"h"}
    assert result["uniformity", "h"].value == pytest.approx(0, abs=1e-5)
    assert result["spread", "h"].value == pytest.approx(0, abs=1e-6)
    assert result["directions used", "h"].value == 0
    assert result["contrastive accuracy", "h"].value == pytest.approx(1 / 50)
    assert "Collapsed" in result["spread", "h"].meaning
