"""``auto``: what it picks, intervals that hold the truth, and what it never says."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from invariance.estimators import (
    canonical_gaussian,
    correlated_gaussian,
    estimate_mi,
    heed_bounds,
    image,
    spiral,
    student,
)

QUICK = {"max_steps": 60, "check_every": 20, "batch_size": 64, "width": 16}
SQUARE = 1.58  # exact nats of x^2 + 0.05 noise, x uniform on (-1, 1)
PRODUCT = 2.12  # exact nats of a product of two normal columns + 0.1 noise


def draw(pairs, n=600, seed=0):
    dice = torch.Generator().manual_seed(seed)
    return pairs.sample(n, generator=dice, dtype=torch.float64)


@pytest.fixture(scope="module")
def pair():
    return draw(correlated_gaussian(2, nats=1.0))


def draw_square(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return x, x**2 + 0.05 * rng.standard_normal(n)


def draw_classes(n, d, seed):
    """Ten classes and embeddings that know about 1.3 nats of them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    mu = rng.standard_normal((10, d))
    mu *= 2 / np.sqrt((mu**2).sum(1).mean())
    return mu[y] + rng.standard_normal((n, d)), y


def holds(estimate, truth):
    return estimate.interval[0] <= truth <= estimate.interval[1]


def test_auto_trusts_the_copula_where_it_fits(pair):
    e = estimate_mi(*pair, estimator="auto", **QUICK)
    assert e.estimator == "auto (gaussian)"
    assert "no check finds more than the copula" in e.reason
    assert "certified lower bound" in " ".join(e.notes)


def test_auto_sees_what_a_copula_cannot():
    pairs = student(1, dof=1)
    x, y = draw(pairs, n=4000)
    blind = estimate_mi(x, y, estimator="gaussian")
    e = estimate_mi(x, y, estimator="auto", max_steps=300)
    assert blind.nats < 0.05
    assert e.estimator in ("auto (ksg)", "auto (critic)")
    assert e.nats == pytest.approx(pairs.nats, abs=0.06)
    assert e.interval[0] <= pairs.nats <= e.interval[1]


def test_classifiers_that_learn_nothing_rule_nothing_out_and_say_so():
    dice = torch.Generator().manual_seed(0)
    x = torch.randn(204, 256, generator=dice)
    label = torch.tensor([0, 1] * 100 + [2, 2, 2, 3])
    e = estimate_mi(x, label, estimator="auto")
    assert e.interval[0] == 0 and e.nats < 0.3
    assert e.interval[1] > 0.7  # nearly all that the labels hold
    assert "does not show that there is nothing" in e.reason
    assert "independent" not in e.sentence


def test_auto_on_independent_columns_says_so():
    dice = torch.Generator().manual_seed(3)
    x, y = torch.randn(2, 1500, 3, generator=dice)
    e = estimate_mi(x, y, estimator="auto", **QUICK)
    assert abs(e.nats) < 0.03 and e.interval[0] == 0
    assert "independent" in e.sentence


# ------------------------------------------------------------------- few rows


@pytest.mark.parametrize(("d", "n", "seed"), [(32, 300, 5), (32, 300, 9), (64, 500, 6)])
def test_labels_of_embeddings_are_never_a_confident_zero(d, n, seed):
    e = estimate_mi(*draw_classes(n, d, seed), estimator="auto", max_steps=100)
    assert 0.3 < e.interval[0] < 1.25 < e.interval[1] <= math.log(10) + 0.1
    assert "independent" not in e.sentence


@pytest.mark.parametrize("n", [100, 300])
def test_a_square_is_seen_in_few_rows(n):
    e = estimate_mi(*draw_square(n, seed=1), estimator="auto", **QUICK)
    assert holds(e, SQUARE) and e.interval[0] > 0.7
    assert e.nats == pytest.approx(SQUARE, abs=0.4)


@pytest.mark.parametrize("n", [100, 500])
def test_a_product_of_columns_is_seen_or_left_open(n):
    dice = torch.Generator().manual_seed(n)
    x = torch.randn(n, 10, generator=dice).double()
    y = x[:, 0] * x[:, 1] + 0.1 * torch.randn(n, generator=dice)
    e = estimate_mi(x, y, estimator="auto", **QUICK)
    assert holds(e, PRODUCT) and "independent" not in e.sentence
    if n == 500:
        assert e.interval[0] > 1


@pytest.mark.parametrize(("d", "nats"), [(1, 4.0), (3, 2.0), (10, 4.0), (20, 8.0)])
def test_a_hundred_rows_of_gaussians(d, nats):
    e = estimate_mi(*draw(correlated_gaussian(d, nats=nats), 100), estimator="auto")
    assert holds(e, nats)
    assert e.nats == pytest.approx(nats, abs=0.8)


def test_rows_too_few_to_rule_anything_out_set_no_upper_end():
    x, y = torch.randn(2, 200, 20, generator=torch.Generator().manual_seed(0))
    e = estimate_mi(x, y, estimator="auto", **QUICK)
    assert e.interval == (0.0, math.inf) and not e.conclusive
    assert "no upper end" in e.sentence and "independent" not in e.sentence
    assert e.as_dict()["interval"] == [0.0, None]


def test_only_a_conclusive_estimate_speaks_of_independence():
    x, y = draw_square(400, seed=0)
    blind = estimate_mi(x, y, estimator="gaussian")
    assert abs(blind.nats) < 0.05 and "independent" not in blind.sentence
    assert "does not show that there is none" in blind.sentence


def test_every_row_is_predicted_by_models_that_have_not_seen_it():
    """A label that only its own row could give away is not found."""
    dice = torch.Generator().manual_seed(0)
    x = torch.randn(120, 60, generator=dice)  # a model that saw a row knows it by heart
    label = torch.arange(120) % 3
    e = estimate_mi(x, label, estimator="auto")
    assert e.interval[0] == 0 and e.nats < 0.25
    assert e.interval[1] == pytest.approx(math.log(3), abs=0.05)


def test_noise_in_the_labels_is_not_read_as_information():
    x, y = draw_classes(300, 8, seed=3)
    wrong = y[np.random.default_rng(0).permutation(300)]
    e = estimate_mi(x, wrong, estimator="auto")
    assert e.interval[0] == 0 and e.nats < 0.2


@pytest.mark.parametrize("d", [3, 25])
def test_rows_turned_by_their_length_are_turned_back(d):
    planes = torch.zeros(2, d, d, dtype=torch.float64)
    for k, plane in enumerate(planes):
        plane[k, k + 1], plane[k + 1, k] = -1.0, 1.0
    pairs = canonical_gaussian([0.8, 0.8], x_width=d, y_width=d)
    turned = image(pairs, x=spiral(1 / d, planes[0]), y=spiral(1 / d, planes[1]))
    x, y = draw(turned, n=5000)
    e = estimate_mi(x, y, estimator="auto", max_steps=400)
    assert holds(e, pairs.nats)
    assert e.nats == pytest.approx(pairs.nats, rel=0.15)
    assert e.nats > estimate_mi(x, y, estimator="gaussian").nats + 0.05


def test_a_certified_bound_on_the_same_rows_is_heeded():
    x, y = draw_square(300, seed=0)
    bound = estimate_mi(x, y, max_steps=400, check_every=50)
    blind = estimate_mi(x, y, estimator="gaussian")
    blind = dataclasses.replace(blind, estimator="auto (gaussian)", conclusive=True)
    floor = bound.nats - 2.33 * bound.std_error
    assert floor > 0.3 and "independent" in blind.sentence
    heeded = heed_bounds(blind, [blind, bound])
    assert heeded.interval == (floor, floor) and heeded.nats == floor
    assert "share" in heeded.sentence and "info_nce" in heeded.notes[-1]
    assert heed_bounds(bound, [blind]) == bound


@pytest.mark.parametrize(("n", "n_rare"), [(10, 1), (20, 2), (40, 2)])
def test_a_class_that_some_folds_do_not_have(n, n_rare):
    x = np.random.default_rng(0).standard_normal((n, 2))
    label = np.arange(n) < n_rare
    e = estimate_mi(x, label.astype(int), estimator="auto")
    assert e.estimator == "auto (classifiers)"
    assert 0 <= e.nats <= e.interval[1] <= 2 * e.ceiling + 1


def test_the_network_of_labels_heeds_its_patience(monkeypatch):
    """A look at every 30th step and one that may fail: both below the usual."""
    asked = []
    monkeypatch.setattr(
        "invariance.estimators._auto.fit",
        lambda model, parts, request: asked.append(request.training),
    )
    x, label = draw_classes(500, 4, seed=0)
    estimate_mi(x, label, estimator="auto", check_every=30, patience=1)
    assert {(t.check_every, t.patience) for t in asked} == {(30, 1)}
