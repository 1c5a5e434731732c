"""Readings of one set of rows: closed forms, and slow loops in float64."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, ive
from scipy.stats import beta, wasserstein_distance
from tests import reference

from invariance.diagnostics import (
    collapse,
    effective_rank,
    energy_distance_to_uniform,
    mmd_to_uniform,
    singular_spectrum,
    tolerance,
    uniform_sphere_uniformity,
    uniformity,
    wasserstein_to_uniform,
)

shapes = {"n": st.integers(2, 9), "d": st.integers(1, 6), "seed": st.integers(0, 99)}
few = settings(max_examples=20, deadline=None)


def rows(n, d, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=g, dtype=torch.float64)


def unit(z):
    return [[x / math.hypot(*row) for x in row] for row in z.tolist()]


def simplex(n):
    return torch.eye(n, dtype=torch.float64) - 1 / n


def pairs(n):
    return [(i, j) for i in range(n) for j in range(i)]


@few
@given(**shapes, t=st.sampled_from([0.5, 2, 7]))
def test_uniformity_is_the_loop(n, d, seed, t):
    z = unit(rows(n, d, seed))
    kernel = [math.exp(-t * math.dist(z[i], z[j]) ** 2) for i, j in pairs(n)]
    slow = math.log(sum(kernel) / len(kernel))
    assert uniformity(rows(n, d, seed), t) == pytest.approx(slow, abs=1e-9)


def test_uniformity_closed_forms():
    assert uniformity(torch.ones(5, 3)) == pytest.approx(0, abs=1e-5)
    assert uniformity(simplex(8)) == pytest.approx(-4.571, abs=5e-4)
    assert uniformity(torch.tensor([[1.0], [-1.0]]), t=3) == pytest.approx(-12)
    assert uniformity(7 * torch.eye(4)) == pytest.approx(-4)


def test_uniformity_of_uniform_rows_nears_the_closed_form():
    for d in (2, 16):
        got = uniformity(rows(1500, d).float())
        assert got == pytest.approx(uniform_sphere_uniformity(d), abs=0.02)


@pytest.mark.parametrize(
    ("d", "value"),
    [(2, -1.575), (32, -3.752), (64, -3.875), (128, -3.9375), (256, -3.9688)],
)
def test_uniform_sphere_uniformity_values(d, value):
    assert uniform_sphere_uniformity(d) == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize("d", [2, 3, 7, 50])
@pytest.mark.parametrize("t", [0.1, 2, 30])
def test_uniform_sphere_uniformity_in_bessel_functions(d, t):
    # 0F1(; a+1; t^2) = Gamma(a+1) t^-a I_a(2t), and ive is e^-2t I
    a = d / 2 - 1
    value = gammaln(a + 1) - a * math.log(t) + math.log(ive(a, 2 * t))
    assert uniform_sphere_uniformity(d, t) == pytest.approx(value, abs=1e-10)


def test_uniform_sphere_uniformity_at_the_edges():
    # two points: equal or opposite
    assert uniform_sphere_uniformity(1) == pytest.approx(
        math.log((1 + math.exp(-8)) / 2)
    )
    assert uniform_sphere_uniformity(10**9) == pytest.approx(-4)
    # nothing overflows: at large t, E exp(-t D^2) on the circle is 1 / (2 sqrt(pi t))
    t = 1e4
    circle = -math.log(2 * math.sqrt(math.pi * t))
    assert uniform_sphere_uniformity(2, t) == pytest.approx(circle, abs=1e-3)


@few
@given(**shapes)
def test_effective_rank_is_the_definition(n, d, seed):
    z = rows(n, d, seed)
    sigma = np.linalg.svd(z.numpy(), compute_uv=False)
    p = sigma / sigma.sum() + 1e-7
    assert effective_rank(z) == pytest.approx(math.exp(-sum(p * np.log(p))))
    assert singular_spectrum(z).tolist() == pytest.approx(sigma.tolist())


@pytest.mark.parametrize("r", [1, 3, 8])
def test_effective_rank_of_a_rank_r_matrix(r):
    q, _ = torch.linalg.qr(rows(40, 8))
    w, _ = torch.linalg.qr(rows(8, 8, seed=1))
    assert effective_rank(q[:, :r] @ w[:r]) == pytest.approx(r, abs=1e-3)
    assert effective_rank(5 * q[:, :r] @ w[:r]) == pytest.approx(r, abs=1e-3)


def test_effective_rank_is_neither_centered_nor_squared():
    assert effective_rank(torch.ones(6, 3)) == pytest.approx(1, abs=1e-4)
    z = torch.diag(torch.tensor([3.0, 1.0]))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert effective_rank(z) == pytest.approx(math.exp(entropy), abs=1e-5)
    assert effective_rank(torch.zeros(4, 2)) == 0


@few
@given(n=st.integers(2, 9), d=st.integers(2, 6), seed=st.integers(0, 99))
def test_wasserstein_is_the_quantile_integral(n, d, seed):
    z = np.array(unit(rows(n, d, seed)))
    cosines = [float(z[i] @ z[j]) for i, j in pairs(n)]
    levels = (np.arange(20_000) + 0.5) / 20_000
    ideal = 2 * beta.ppf(levels, (d - 1) / 2, (d - 1) / 2) - 1
    slow = wasserstein_distance(cosines, ideal)
    assert wasserstein_to_uniform(rows(n, d, seed)) == pytest.approx(slow, abs=1e-4)


def test_wasserstein_closed_forms():
    # all cosines 1: the distance is E|1 - x.y| = 1
    assert wasserstein_to_uniform(torch.ones(6, 32)) == pytest.approx(1)
    # all cosines 0: the distance is E|x.y|, 2/pi on the circle and 1/2 on the sphere
    assert wasserstein_to_uniform(torch.eye(2)) == pytest.approx(2 / math.pi)
    assert wasserstein_to_uniform(torch.eye(3)) == pytest.approx(1 / 2)


@few
@given(n=st.integers(2, 9), d=st.integers(2, 6), seed=st.integers(0, 99))
def test_kernel_and_distances_are_the_loops(n, d, seed):
    z = rows(n, d, seed)
    slow = reference.mmd_to_uniform(z), reference.energy_distance_to_uniform(z)
    assert mmd_to_uniform(z) == pytest.approx(slow[0], abs=1e-6)
    assert energy_distance_to_uniform(z) == pytest.approx(slow[1], abs=1e-6)


def test_kernel_and_distances_closed_forms():
    # a collapse: one kernel of 1, less that of uniform points; no distances at all
    same = torch.ones(6, 3)
    assert energy_distance_to_uniform(same) == pytest.approx(4 / 3)
    even = math.exp(-4) * math.sinh(4) / 4
    assert mmd_to_uniform(same) == pytest.approx(1 - even, abs=1e-5)
    # opposite rows avoid each other
    pair = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert energy_distance_to_uniform(pair) == pytest.approx(4 / math.pi - 2)
    assert mmd_to_uniform(pair) < 0


def test_kernel_and_distances_of_uniform_rows_are_small():
    z = rows(600, 16).float()
    assert abs(mmd_to_uniform(z)) < 2e-3 and abs(energy_distance_to_uniform(z)) < 2e-3
    assert energy_distance_to_uniform(z + 2) > 0.5 and mmd_to_uniform(z + 2) > 0.1


def test_wasserstein_of_uniform_rows_is_small_and_repeatable():
    z = rows(600, 512).float()
    assert wasserstein_to_uniform(z) < 0.002
    part = wasserstein_to_uniform(z, max_rows=100)
    assert part == wasserstein_to_uniform(z, max_rows=100)
    assert part != wasserstein_to_uniform(z, max_rows=100, seed=1)


@few
@given(**shapes)
def test_tolerance_is_the_loop(n, d, seed):
    z = rows(n, d, seed)
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(-2, 2, (n + 2,), generator=g)[:n]
    labels[0] = labels[1]
    a = unit(z)
    same = [(i, j) for i, j in pairs(n) if labels[i] == labels[j]]
    slow = sum(sum(x * y for x, y in zip(a[i], a[j], strict=True)) for i, j in same)
    assert tolerance(z, labels) == pytest.approx(slow / len(same), abs=1e-9)


def test_tolerance_closed_forms():
    labels = torch.tensor([0, 0, 5, 5])
    assert tolerance(torch.ones(4, 3), labels) == pytest.approx(1)
    # zero cosines count: one pair at 1, one at 0
    z = torch.tensor([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert tolerance(z, labels) == pytest.approx(0.5)
    assert tolerance(simplex(8), torch.zeros(8, dtype=torch.long)) == pytest.approx(
        -1 / 7
    )


@few
@given(**shapes)
def test_collapse_is_the_loop(n, d, seed):
    got = collapse(rows(n, d, seed))
    columns = zip(*unit(rows(n, d, seed)), strict=True)
    slow = sum(float(np.std(column)) for column in columns) / d
    assert got.spread == pytest.approx(slow)
    assert got.ratio <= 1 + 1e-9


def test_collapse_closed_forms():
    even = collapse(torch.cat([torch.eye(9), -torch.eye(9)]))
    assert even.spread == pytest.approx(1 / 3) == even.healthy
    assert not even.collapsed
    assert str(even) == "Wide: the spread of a feature is 100 % of the healthy 0.333."
    same = collapse(torch.ones(4, 9) + 1e-3 * torch.eye(9)[:4])
    assert same.collapsed
    assert same.sentence.startswith("Collapsed")
    half = collapse(torch.randn(500, 9, generator=torch.manual_seed(0)) + 2)
    assert half.sentence.startswith("Narrow")
