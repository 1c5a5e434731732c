"""``estimate_mi``: one contract for every estimator, and answers in words."""

import dataclasses
import json
import math

import numpy as np
import pandas
import pytest
import torch

import invariance as inv
from invariance.critics import CRITICS, Critic
from invariance.errors import InvarianceError, SettingError
from invariance.estimators import (
    BOUNDS,
    ESTIMATORS,
    Estimate,
    blocks,
    correlated_gaussian,
    estimate_mi,
    image,
    noisy_copy,
    table,
)

QUICK = {"max_steps": 60, "check_every": 20, "batch_size": 64, "width": 16}


def quick(name):
    """The short training, as far as the estimator trains."""
    return {k: v for k, v in QUICK.items() if k in ESTIMATORS[name].settings}


CONTINUOUS = [name for name in ESTIMATORS if name != "histogram"]


def draw(pairs, n=600, seed=0):
    dice = torch.Generator().manual_seed(seed)
    return pairs.sample(n, generator=dice, dtype=torch.float64)


@pytest.fixture(scope="module")
def pair():
    return draw(correlated_gaussian(2, nats=1.0))


# ---------------------------------------------------------------- contract


@pytest.mark.parametrize("name", CONTINUOUS)
def test_every_estimator_finds_one_nat_and_says_what_it_is(name, pair):
    e = estimate_mi(*pair, estimator=name, seed=3, **quick(name))
    assert isinstance(e, Estimate)
    least = 0.4 if name == "vince" else 0.75
    assert least < e.nats < 1.35
    assert 0 < e.std_error < 0.3
    assert e.interval[0] < e.nats < e.interval[1]
    assert e.bits == pytest.approx(e.nats / math.log(2))
    assert e.samples == 600 and e.lower_bound == ESTIMATORS[name].lower_bound
    assert ("at least" in e.sentence) == e.lower_bound
    assert f"{e.nats:.2f} nats" in e.sentence
    assert e.ceiling == (BOUNDS[name].most(e.evaluated_on) if name in BOUNDS else None)
    json.dumps(e.as_dict(), allow_nan=False)
    if name in BOUNDS:
        assert e.evaluated_on == 180 and e.steps <= 60 and e.critic == "separable"
        looks = [c.step for c in e.history]
        assert looks[0] == 0 and looks[-1] == e.steps and {20, 40} & {*looks}
    if name in ("info_nce", "mine", "flo"):  # what keeps state while training
        again = estimate_mi(*pair, estimator=name, seed=3, **quick(name))
        assert again.nats == e.nats
        assert estimate_mi(*pair, estimator=name, seed=4, **quick(name)).nats != e.nats


@pytest.mark.parametrize("critic", ["bilinear", "concatenated", "additive", "cosine"])
def test_every_critic_can_be_trained(critic, pair):
    quick = {k: v for k, v in QUICK.items() if k != "width"}
    e = estimate_mi(*pair, critic=critic, **quick)
    assert e.critic == critic and 0.7 < e.nats < 1.3


def test_a_critic_of_ones_own_has_a_name(pair, monkeypatch, our_errors):
    class LowRank(Critic):
        def __init__(self, x_width, y_width, *, spectral_norm=False, embed=4):
            super().__init__()
            self.of_x = torch.nn.Linear(x_width, embed)
            self.of_y = torch.nn.Linear(y_width, embed)

        def rows(self, x, y):
            return self.of_x(x), self.of_y(y)

    monkeypatch.setitem(CRITICS, "low_rank", LowRank)
    quick = {k: v for k, v in QUICK.items() if k != "width"}
    e = estimate_mi(*pair, critic="low_rank", **quick)
    assert e.critic == "low_rank" and 0.3 < e.nats < 1.3
    with pytest.raises(SettingError, match=r"critic is a name.*critics\.CRITICS, and"):
        estimate_mi(*pair, critic=LowRank(2, 2))


@pytest.mark.parametrize(
    "settings",
    [
        {"gradient_penalty": "zero"},
        {"gradient_penalty": "wgan"},
        {"spectral_norm": True},
        {"weight_decay": 0.1},
        {"margins": "standard"},
        {"margins": "raw", "base": "none"},
    ],
    ids=str,
)
def test_options_of_training(settings, pair):
    e = estimate_mi(*pair, estimator="jsd", **QUICK, **settings)
    assert math.isfinite(e.nats) and e.nats < 1.3


def test_the_global_random_state_is_left_alone(pair):
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    estimate_mi(*pair, **QUICK)
    assert torch.equal(torch.rand(3), wanted)


def test_training_learns_what_the_gaussian_start_misses():
    x, y = draw(image(correlated_gaussian(2, nats=1.0), x="spiral"), n=2000)
    start = estimate_mi(x, y, max_steps=1)
    learned = estimate_mi(x, y, max_steps=300, check_every=50, width=64)
    assert learned.nats > start.nats + 0.15
    assert learned.nats < 1.1  # held out, so never far above


def test_overfitting_shows_in_sample_and_not_in_the_answer():
    dice = torch.Generator().manual_seed(2)
    x, y = torch.randn(2, 400, 20, generator=dice)
    e = estimate_mi(x, y, max_steps=120, check_every=40, lr=3e-3)
    assert e.nats - 3 * e.std_error < 0.05
    assert not e.saturated


def test_progress_hears_every_look(pair):
    seen = []
    e = estimate_mi(*pair, progress=seen.append, **QUICK)
    assert tuple(seen) == e.history


def test_increasing_maps_of_columns_change_nearly_nothing(pair):
    x, y = pair
    for name in ("gaussian", "ksg", "info_nce"):
        plain = estimate_mi(x, y, estimator=name, **quick(name))
        bent = estimate_mi(x.exp(), y**3, estimator=name, **quick(name))
        assert bent.nats == pytest.approx(plain.nats, abs=0.03)


# ------------------------------------------------------------- consistency


@pytest.mark.parametrize("name", ["info_nce", "ksg"])
def test_a_repeated_variable_adds_nothing(name, pair):
    x, y = pair
    once = estimate_mi(x, y, estimator=name, **quick(name)).nats
    twice = estimate_mi(x, torch.cat([y, y], 1), estimator=name, **quick(name)).nats
    assert twice == pytest.approx(once, abs=0.1)


@pytest.mark.parametrize("name", ["gaussian", "info_nce"])
def test_independent_blocks_add_up(name):
    one = correlated_gaussian(2, nats=0.5)
    x, y = draw(blocks([one, one]), n=2000)
    whole = estimate_mi(x, y, estimator=name, **quick(name)).nats
    parts = [
        estimate_mi(x[:, s], y[:, s], estimator=name, **quick(name)).nats
        for s in (slice(0, 2), slice(2, 4))
    ]
    assert whole == pytest.approx(sum(parts), abs=0.12)


@pytest.mark.parametrize("name", ["gaussian", "ksg", "info_nce", "smile"])
def test_processing_cannot_add_information(name, pair):
    x, y = pair
    dice = torch.Generator().manual_seed(8)
    noisy = y + torch.randn(y.shape, generator=dice, dtype=y.dtype)
    before, after, none = (
        estimate_mi(x, z, estimator=name, **quick(name)).nats
        for z in (y, noisy, y[torch.randperm(len(y), generator=dice)])
    )
    assert before > after + 0.1 > none


# ---------------------------------------------------------------- discrete


@pytest.mark.parametrize("name", ["auto", "histogram"])
def test_discrete_data_are_counted(name):
    pairs = table([[8, 1, 1], [1, 6, 3]])
    x, y = draw(pairs, n=4000)
    e = estimate_mi(x.int(), y.int(), estimator=name)
    assert e.nats == pytest.approx(pairs.nats, abs=4 * e.std_error)
    assert e.interval[0] <= pairs.nats <= e.interval[1]


def test_identical_labels_share_their_entropy():
    labels = np.arange(1000) % 10
    e = estimate_mi(labels, labels, estimator="auto")
    assert e.nats == pytest.approx(math.log(10), abs=0.02)
    assert math.isfinite(e.nats) and "few values" in e.reason


@pytest.mark.parametrize("turned", [False, True])
def test_labels_and_embeddings(turned):
    dice = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (1200,), generator=dice)
    h = torch.nn.functional.one_hot(labels, 4) * 6.0
    h = h + torch.randn(h.shape, generator=dice)
    pair = (labels, h) if turned else (h, labels)
    e = estimate_mi(*pair, estimator="auto", max_steps=300)
    assert e.estimator == "auto (classifiers)"
    assert e.nats == pytest.approx(math.log(4), abs=0.12)
    bound = estimate_mi(*pair, estimator="barber_agakov", max_steps=300)
    assert bound.lower_bound and bound.nats <= math.log(4) + 3 * bound.std_error
    contrast = estimate_mi(*pair, **QUICK)
    assert 0.9 < contrast.nats < math.log(4) + 3 * contrast.std_error


# ------------------------------------------------------------ odd requests


def test_twenty_samples_get_an_honest_answer():
    x, y = draw(correlated_gaussian(1, rho=0.8), n=20)
    e = estimate_mi(x, y, estimator="auto")
    assert e.estimator == "auto (gaussian)" and e.steps == 0
    assert e.interval[0] <= 0.51 <= e.interval[1]
    assert e.interval[1] - e.interval[0] > 0.4
    with pytest.raises(InvarianceError, match=r"at least 100 rows.*'gaussian'"):
        estimate_mi(x, y)


def test_twenty_samples_of_forty_columns_are_refused():
    x, y = torch.randn(2, 20, 20, generator=torch.Generator().manual_seed(0))
    for name in ("auto", "gaussian"):
        with pytest.raises(InvarianceError, match="fewer columns"):
            estimate_mi(x, y, estimator=name)


def test_any_array_or_data_frame_will_do(pair):
    x, y = (rows.numpy() for rows in pair)
    answer = estimate_mi(x, y, estimator="gaussian").nats
    for a, b in (
        (x[::-1], y[::-1]),  # strides below 0
        (x[:, ::-1], y),
        (x.astype(">f8"), y.astype(">f4")),
        (pandas.DataFrame(x), pandas.DataFrame(y, columns=list("pqrs")[: y.shape[1]])),
    ):
        assert estimate_mi(a, b, estimator="gaussian").nats == pytest.approx(answer)
    with pytest.raises(InvarianceError, match="x must hold numbers, got an array"):
        estimate_mi(pandas.DataFrame({"a": list("xy") * 20}), y[:40])


def test_one_dimension_may_come_as_a_vector():
    x, y = draw(correlated_gaussian(1, nats=0.8), n=800)
    as_vectors = estimate_mi(x[:, 0].numpy(), y[:, 0].tolist(), estimator="ksg")
    assert as_vectors.nats == estimate_mi(x, y, estimator="ksg").nats


@pytest.mark.parametrize("name", ["auto", "info_nce", "ksg", "histogram"])
def test_a_constant_shares_nothing(name, pair):
    e = estimate_mi(torch.ones(600, 2), pair[1], estimator=name)
    assert e.nats == 0 and "x is constant" in e.reason
    assert "share nothing" in e.sentence


def test_constant_columns_are_left_out_and_named(pair):
    x, y = pair
    wide = torch.cat([x, torch.full((600, 1), 7.0)], 1)
    e = estimate_mi(wide, y, estimator="gaussian")
    assert e.nats == pytest.approx(estimate_mi(x, y, estimator="gaussian").nats)
    assert "constant column 2 of x left out" in e.notes


def test_units_near_the_ends_of_float64_change_nothing(pair):
    x, y = (z.double() for z in pair)
    usual = estimate_mi(x, y, estimator="gaussian").nats
    e = estimate_mi(x * 1e300, y * 1e-300, estimator="gaussian")
    assert e.nats == pytest.approx(usual)


@pytest.mark.parametrize(
    "copy",
    [
        lambda x: x,
        lambda x: 3 - 2 * x,
        lambda x: x @ torch.tensor([[1.0, 2.0], [3.0, -1.0]]).double(),
        lambda x: x[:, :1] ** 3,
    ],
)
@pytest.mark.parametrize("name", ["auto", "info_nce"])
def test_copies_share_infinitely_much(name, copy, pair):
    e = estimate_mi(pair[0], copy(pair[0]), estimator=name)
    assert math.isinf(e.nats) and e.saturated
    assert "infinite" in e.sentence
    json.dumps(e.as_dict(), allow_nan=False)


def test_strong_but_noisy_dependence_is_not_called_infinite():
    x, y = draw(correlated_gaussian(1, nats=4.0), n=2000)
    e = estimate_mi(x, y, estimator="auto", **QUICK)
    assert e.nats == pytest.approx(4.0, abs=0.2)


def test_saturation_is_said(pair):
    x, y = draw(correlated_gaussian(5, nats=9.0))
    e = estimate_mi(x, y, **QUICK)
    assert e.saturated and "may be far larger" in e.sentence
    assert e.nats <= e.ceiling == pytest.approx(math.log(180))


def test_missing_numbers_are_named_or_left_out(pair):
    x, y = pair[0].clone(), pair[1].clone()
    x[5, 1], y[9, 0] = math.nan, math.inf
    with pytest.raises(InvarianceError, match=r"2 of 600 rows.*column 1 of x.*row 5"):
        estimate_mi(x, y)
    e = estimate_mi(x, y, estimator="gaussian", drop_missing=True)
    assert e.samples == 598 and "2 rows with NaN" in e.notes[0]


def test_integer_counts_with_many_values_are_treated_as_numbers():
    dice = np.random.default_rng(0)
    rate = dice.gamma(5.0, 40.0, 3000)
    x, y = dice.poisson(rate), dice.poisson(rate)
    e = estimate_mi(x, y, estimator="auto", **QUICK)
    assert 1.0 < e.nats < 1.8  # about half the log of signal over noise


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, y: estimate_mi(x, y[:-1]), "600 and 599 rows"),
        (lambda x, y: estimate_mi(x, y, estimator="info_nec"), "'info_nce'"),
        (lambda x, y: estimate_mi(x, y, critic="seperable"), "'separable'"),
        (lambda x, y: estimate_mi(x, y, batchsize=3), "'batch_size'"),
        (lambda x, y: estimate_mi(x, y, estimater="ksg"), "'estimator'"),
        (lambda x, y: estimate_mi(x, y, batch_size=1), "batch_size .*4 or more: got 1"),
        (lambda x, y: estimate_mi(x, y, batch_size="64"), "whole number.*got '64'"),
        (lambda x, y: estimate_mi(x, y, patience=0), "patience .*1 or more: got 0"),
        (lambda x, y: estimate_mi(x, y, lr=-1.0), "lr must be a positive.*got -1.0"),
        (lambda x, y: estimate_mi(x, y, weight_decay=-2), "weight_decay.*0.*got -2"),
        (lambda x, y: estimate_mi(x, y, max_candidates=9), "16 or more: got 9"),
        (lambda x, y: estimate_mi(x, y, seed="a"), "seed must be a whole.*got 'a'"),
        (
            lambda x, y: estimate_mi(np.asarray(["cat", "dog"] * 300), y),
            r"x must hold numbers, got an array of <U3.*numpy\.unique\(x",
        ),
        (lambda x, y: estimate_mi(x, y, base="normal"), "'gaussian' or 'none'"),
        (lambda x, y: estimate_mi(x, y, margins="rank"), "'standard'"),
        (lambda x, y: estimate_mi(x[:3], y[:3]), "expected 4"),
        (lambda x, y: estimate_mi(x[None], y), "one row per sample.*flatten"),
        (
            lambda x, y: estimate_mi(x, y, device="tpu"),
            "device 'tpu' cannot be used here",
        ),
        (
            lambda x, y: estimate_mi(x * math.nan, y, drop_missing=True),
            "got 0 rows .600 rows with NaN",
        ),
        (lambda x, y: estimate_mi(x, y, estimator="histogram"), "estimator='auto'"),
        (
            lambda x, y: estimate_mi(*draw(noisy_copy(3, keep=0.5)), estimator="ksg"),
            "'histogram'",
        ),
    ],
)
def test_mistakes_are_answered_in_words(call, words, pair, our_errors):
    with pytest.raises(InvarianceError, match=words):
        call(*pair)


def test_an_estimate_in_a_notebook_and_as_a_value(pair):
    e = estimate_mi(*pair, estimator="gaussian")
    page = dataclasses.replace(e, notes=("x < y",))._repr_html_()
    assert page.startswith("<table>") and f"{e.nats:.4g}" in page
    assert "x &lt; y" in page and "x < y" not in page and e.sentence in page
    assert repr(e).startswith(f"Estimate(estimator='gaussian', nats={e.nats}")
    assert "notes" not in repr(e) and not e.exact
    assert estimate_mi(torch.ones(600), pair[1]).exact


def test_a_name_of_an_earlier_version_still_works(pair):
    old = estimate_mi(*pair, estimator="unnormalised_ba", **QUICK)
    assert old == estimate_mi(*pair, estimator="unnormalized_ba", **QUICK)


def test_the_public_names():
    assert inv.estimate_mi is estimate_mi and inv.ESTIMATORS is ESTIMATORS
    assert set(BOUNDS) < set(ESTIMATORS)


def test_rows_that_cannot_be_written_are_taken_without_a_warning(recwarn):
    x = np.random.default_rng(0).normal(size=(50, 1))  # as a file that is mapped
    x.flags.writeable = False
    estimate_mi(x, x + 1.0, estimator="ksg")
    assert not recwarn.list
    assert not x.flags.writeable
