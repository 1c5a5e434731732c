"""Samplers with exact mutual information: their numbers, and their exact critics."""

import math

import pytest
import torch
from scipy import stats

from invariance.errors import InvarianceError
from invariance.estimators import (
    SCHEDULE,
    blocks,
    canonical_gaussian,
    correlated_gaussian,
    gaussian,
    image,
    noisy_copy,
    rho_of,
    spiral,
    student,
    table,
    uniform_noise,
)

FLAT = correlated_gaussian(2, nats=1.0)
SKEW = torch.tensor([[0.0, -1, 0.5], [1, 0, 2], [-0.5, -2, 0]]).double()
EVERY = [
    correlated_gaussian(1, rho=0.9),
    correlated_gaussian(20, nats=4.0),
    correlated_gaussian(3, nats=0.0),
    canonical_gaussian([0.8, 0.5], x_width=3, y_width=5),
    gaussian(torch.eye(5) + 0.4 * (1 - torch.eye(5)), x_width=2),
    image(FLAT, y="cubic"),
    image(FLAT, x="asinh", y="half_cube"),
    image(FLAT, x="spiral", y=spiral(0.7)),
    image(correlated_gaussian(3, nats=1.0), x=spiral(0.3, SKEW), y=spiral(0.2, SKEW)),
    image(correlated_gaussian(1, nats=1.0), x="swiss_roll"),
    student(1, dof=3),
    student(2, dof=1.5, rho=0.6),
    student(5, dof=4, rho=0.2),
    uniform_noise(noise=0.1),
    uniform_noise(3, noise=0.75),
    table([[4, 1, 0], [1, 3, 2]]),
    noisy_copy(6, keep=0.7),
    blocks([FLAT, uniform_noise(noise=0.3), student(2, dof=2)]),
]


@pytest.fixture
def dice():
    return torch.Generator().manual_seed(11)


@pytest.mark.parametrize("pairs", EVERY, ids=str)
def test_the_mean_log_ratio_is_the_exact_information(pairs, dice):
    x, y = pairs.sample(40_000, generator=dice, dtype=torch.float64)
    assert x.shape == (40_000, pairs.x_width) and y.shape == (40_000, pairs.y_width)
    ratio = pairs.log_ratio(x, y)
    error = ratio.std().item() / math.sqrt(len(ratio))
    assert ratio.mean().item() == pytest.approx(pairs.nats, abs=4 * error + 1e-9)


# a mean with a variance of about exp(I) shows nothing for more information than this
@pytest.mark.parametrize("pairs", [p for p in EVERY if p.nats < 1.6], ids=str)
def test_the_ratio_of_independent_rows_has_mean_one(pairs, dice):
    x, _ = pairs.sample(100_000, generator=dice, dtype=torch.float64)
    _, y = pairs.sample(100_000, generator=dice, dtype=torch.float64)
    ratio = pairs.log_ratio(x, y).exp()
    error = ratio.std().item() / math.sqrt(len(ratio))
    assert ratio.mean().item() == pytest.approx(1.0, abs=5 * error + 1e-9)


@pytest.mark.parametrize(
    ("pairs", "nats"),
    [
        (correlated_gaussian(1, rho=0.5), -0.5 * math.log(0.75)),
        (student(1, dof=3), 0.04241),
        (uniform_noise(noise=0.25), 0.25 - math.log(0.5)),
        (uniform_noise(noise=2.0), 0.125),
        (table(torch.eye(7)), math.log(7)),
        (table(torch.ones(3, 4)), 0.0),
        (image(FLAT, x="spiral"), 1.0),
        (blocks([FLAT, FLAT, noisy_copy(2, keep=1)]), 2 + math.log(2)),
    ],
    ids=str,
)
def test_closed_forms(pairs, nats):
    assert pairs.nats == pytest.approx(nats, abs=1e-5)


def test_a_spiral_of_a_plane_is_the_spiral_of_its_matrix(dice):
    x = torch.randn(50, 3, generator=dice).double()
    plane = torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 0]]).double()
    torch.testing.assert_close(spiral(0.4).forward(x), spiral(0.4, plane).forward(x))
    turned = spiral(0.4, SKEW).forward(x)
    torch.testing.assert_close(turned.norm(dim=1), x.norm(dim=1))


def test_uniform_noise_is_continuous_where_its_two_formulas_meet():
    below, above = uniform_noise(noise=0.5 - 1e-9), uniform_noise(noise=0.5 + 1e-9)
    assert below.nats == pytest.approx(above.nats, abs=1e-6)


@pytest.mark.parametrize("nats", SCHEDULE)
def test_the_schedule_reaches_its_nats(nats):
    assert correlated_gaussian(20, nats=nats).nats == pytest.approx(nats)
    assert rho_of(nats, 20) == pytest.approx(math.sqrt(1 - math.exp(-nats / 10)))


def test_draws_repeat_with_their_generator_and_marginals_are_as_promised(dice):
    pairs = student(2, dof=5, rho=0.5)
    a, _ = pairs.sample(20_000, generator=dice)
    b, _ = pairs.sample(20_000, generator=torch.Generator().manual_seed(11))
    assert torch.equal(a, b) and a.dtype == torch.float32
    assert a.var().item() == pytest.approx(5 / 3, rel=0.1)  # dof / (dof - 2)


@pytest.mark.parametrize("dof", [0.7, 1, 2, 9])
def test_student_tails(dof, dice):
    x, _ = student(1, dof=dof).sample(100_000, generator=dice, dtype=torch.float64)
    assert stats.kstest(x[:, 0].numpy(), stats.t(dof).cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: correlated_gaussian(2), "nats or rho"),
        (lambda: correlated_gaussian(2, nats=-1), "nats >= 0"),
        (lambda: canonical_gaussian([1.2], x_width=1, y_width=1), "between -1 and 1"),
        (lambda: gaussian(-torch.eye(2), x_width=1), "positive definite"),
        (lambda: image(FLAT, x="cubik"), "Did you mean 'cubic'"),
        (lambda: image(FLAT, x="swiss_roll"), "one column"),
        (lambda: image(correlated_gaussian(1, rho=0.1), x="spiral"), "two columns"),
        (lambda: spiral(skew=SKEW.abs()), "antisymmetric"),
        (lambda: image(FLAT, x=spiral(skew=SKEW)), "turns 3 columns, got 2"),
        (lambda: student(1, dof=0), "above 0"),
        (lambda: uniform_noise(noise=0), "noise > 0"),
        (lambda: table([[-1, 2]]), "not all 0"),
        (lambda: blocks([]), "at least one"),
    ],
)
def test_impossible_distributions_are_refused_in_words(make, words):
    with pytest.raises(InvarianceError, match=words):
        make()
