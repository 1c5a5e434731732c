"""Trained estimators on few rows: no absurd numbers, and single pairs."""

import dataclasses
import json
import math
import re

import pytest
import torch

from invariance.errors import InvarianceError
from invariance.estimators import (
    BOUNDS,
    ESTIMATORS,
    clip_tails,
    correlated_gaussian,
    estimate_mi,
    nwj_of_log_ratio,
)

QUICK = {"max_steps": 60, "check_every": 20, "batch_size": 64, "width": 16}
LOG_RATIOS = [name for name, bound in BOUNDS.items() if bound.log_ratio != "none"]


def draw(pairs, n, seed=0):
    dice = torch.Generator().manual_seed(seed)
    return pairs.sample(n, generator=dice, dtype=torch.float64)


@pytest.fixture(scope="module")
def wide():
    """500 rows of 256 columns, ten of which show through noise in y."""
    dice = torch.Generator().manual_seed(0)
    x = torch.randn(500, 256, generator=dice)
    return x, x[:, :10] + 3 * torch.randn(500, 10, generator=dice)


# ------------------------------------------------------------- what is read


@pytest.mark.parametrize("name", ["nwj", "flo", "tuba", "mine", "unnormalized_ba"])
def test_training_makes_no_number_absurd(name):
    dice = torch.Generator().manual_seed(0)
    x, y = correlated_gaussian(4, nats=6.0).sample(2000, generator=dice)
    e = estimate_mi(x, y, estimator=name, max_steps=600)
    assert 5.0 < e.nats < 7.0 and e.std_error < 0.5


def test_a_critic_of_too_many_columns_falls_back_to_nothing(wide):
    e = estimate_mi(*wide, max_steps=100)
    assert e.lower_bound and -0.1 < e.nats < 0.3
    assert not e.exact
    assert e.history[0].validation >= 0  # the start is scaled down, too


@pytest.mark.parametrize(
    ("nats", "error", "words"),
    [
        (-35_200.0, 100.0, "-35,200.00 ± 100.00.*below zero"),
        (-0.6, 0.1, "below zero"),
        (38.8, 1146.0, "and its error is larger than the value"),
        (math.nan, 1.0, "below zero"),
        (0.05, 0.2, None),  # near zero the error always exceeds the value
        (-0.2, 0.3, None),
    ],
)
def test_what_says_nothing_is_withheld(nats, error, words, monkeypatch):
    e = pretend("flo", nats, error, monkeypatch)
    if words is None:
        assert e.nats == nats and e.lower_bound and not e.withheld
        assert e.floor == 0 and "No information is certified" in e.sentence
    else:
        assert math.isnan(e.nats) and not e.lower_bound
        assert re.search(words, e.withheld)


def test_an_estimate_that_learned_nothing_is_withheld(monkeypatch):
    e = pretend("smile", 0.0, 0.0, monkeypatch)
    assert math.isnan(e.nats) and not e.lower_bound and not e.exact
    assert "held on other rows" in e.withheld and e.withheld in e.sentence
    assert "independent" not in e.sentence and "nan" not in e._repr_html_()
    answer = e.as_dict()
    assert answer["nats"] is None and answer["withheld"] == e.withheld
    json.dumps(answer, allow_nan=False)
    bound = pretend("info_nce", 0.0, 0.0, monkeypatch)
    assert bound.nats == 0 and not bound.withheld and not bound.exact
    assert "No information is certified" in bound.sentence


def pretend(name, nats, error, monkeypatch):
    """The estimate of this name, had it read ``nats`` with that error."""
    real = ESTIMATORS[name].run

    def run(request):
        return dataclasses.replace(real(request), nats=nats, std_error=error)

    monkeypatch.setitem(
        ESTIMATORS, name, dataclasses.replace(ESTIMATORS[name], run=run)
    )
    x, y = draw(correlated_gaussian(1, nats=1.0), 200)
    return estimate_mi(x, y, estimator=name, max_steps=1)


def test_clipped_scores_stay_within_what_the_rows_can_check():
    dice = torch.Generator().manual_seed(0)
    scores = 20 * torch.randn(7, 7, generator=dice, dtype=torch.float64)
    level = torch.randn(7, generator=dice, dtype=torch.float64)
    clipped = clip_tails(scores, level)
    t = math.log(7 * 6) - 3
    for i in range(7):
        for j in range(7):
            low, high = level[i].item() - t, level[i].item() + t
            twin = min(max(scores[i, j].item(), low), high)
            assert clipped[i, j].item() == pytest.approx(twin, abs=1e-12)
    assert torch.equal(clip_tails(torch.zeros(2, 2)), torch.zeros(2, 2))


def test_thirty_rows_cannot_certify_too_much_of_eight_nats():
    """With the exact critic NWJ's mean is right, and most samples are above it."""
    pairs = correlated_gaussian(3, nats=8.0)
    plain, clipped = [], []
    for seed in range(40):
        x, y = draw(pairs, 30, seed)
        left, right = x.repeat_interleave(30, 0), y.repeat(30, 1)
        scores = pairs.log_ratio(left, right).view(30, 30)
        plain.append(nwj_of_log_ratio(scores).item())
        clipped.append(nwj_of_log_ratio(clip_tails(scores)).item())
    most = BOUNDS["nwj"].most(30)
    assert sum(v > pairs.nats for v in plain) > 20
    assert max(clipped) <= most < pairs.nats
    assert min(clipped) > most - 1.5  # beyond InfoNCE's log 30
    assert most > math.log(30) + 1


@pytest.mark.parametrize("name", BOUNDS)
def test_scaling_a_critic_down_ends_at_zero(name):
    bound, dice = BOUNDS[name], torch.Generator().manual_seed(0)
    scores = 50 * torch.randn(9, 9, generator=dice)
    parts = bound.temper(scores, torch.randn(9, generator=dice), 0.0)
    assert bound.value(*parts).item() == pytest.approx(0.0, abs=1e-6)


def test_advice_at_the_ceiling_names_what_sees_further():
    x, y = draw(correlated_gaussian(3, nats=9.0), 300)
    e = estimate_mi(x, y, **QUICK)
    assert e.saturated and "flo and nwj see up to 7.0 nats" in e.sentence
    flo = estimate_mi(x, y, estimator="flo", **QUICK)
    assert e.ceiling + 0.3 < flo.nats < 9.0
    assert "flo and nwj" not in flo.sentence


def test_rows_in_the_same_order_are_not_called_infinite_for_sure():
    pairs = correlated_gaussian(1, nats=8.0)
    for seed in range(5):
        e = estimate_mi(*draw(pairs, 100, seed), estimator="auto")
        assert e.interval[0] <= pairs.nats <= e.interval[1]
        if math.isinf(e.nats):
            assert not e.exact and "may be infinite" in e.sentence


# ----------------------------------------------------------------- settings


def test_settings_of_single_bounds_change_value_and_ceiling():
    g = torch.randn(12, 12, generator=torch.Generator().manual_seed(0))
    baseline = torch.linspace(-1, 1, 12)
    mixed, tuba = BOUNDS["interpolated"], BOUNDS["tuba"]
    torch.testing.assert_close(
        mixed.set(alpha=0).value(g, baseline), tuba.value(g, baseline)
    )
    assert mixed.set(alpha=0).most(12) is None
    assert mixed.set(alpha=1).most(12) == pytest.approx(math.log(11))
    assert mixed.most(12) == pytest.approx(1 + math.log(22))
    smile, mine = BOUNDS["smile"], BOUNDS["mine"]
    torch.testing.assert_close(
        smile.set(clip=math.inf).value(g, baseline), mine.value(g, baseline)
    )
    vince, nce = BOUNDS["vince"], BOUNDS["info_nce"]
    torch.testing.assert_close(
        vince.set(fraction=1).value(g, baseline), nce.value(g, baseline)
    )
    assert vince.set(fraction=1).most(12) == pytest.approx(math.log(12))


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("interpolated", {"alpha": 0.01}),
        ("smile", {"clip": 0.5}),
        ("vince", {"fraction": 0.05}),
        ("jsd", {"spectral_norm": True}),
        ("jsd", {"weight_decay": 10.0}),
        ("jsd", {"gradient_penalty": "zero", "penalty_weight": 50.0}),
    ],
    ids=str,
)
def test_every_setting_changes_the_answer(name, setting):
    x, y = draw(correlated_gaussian(2, nats=1.0), 300)
    x = x.square() * x.sign()
    usual = {**QUICK, "base": "none", "margins": "standard"}
    plain = estimate_mi(x, y, estimator=name, **usual)
    changed = estimate_mi(x, y, estimator=name, **usual, **setting)
    assert changed.in_sample != plain.in_sample


@pytest.mark.parametrize(
    ("name", "setting", "words"),
    [
        ("info_nce", {"alpha": 0.3}, "ignore alpha.*alpha is for interpolated"),
        ("flo", {"clip": 3.0}, "clip is for smile"),
        ("jsd", {"fraction": 0.3}, "fraction is for vince"),
        ("ksg", {"max_steps": 9}, "ignore max_steps. Its settings: margins"),
        ("histogram", {"margins": "raw"}, "Its settings: none"),
        ("gaussian", {"critic": "bilinear"}, "ignore critic"),
        ("barber_agakov", {"spectral_norm": True}, "ignore spectral_norm"),
        ("auto", {"base": "none"}, "ignore base"),
        ("jsd", {"penalty_weight": 3.0}, "without gradient_penalty"),
        ("jsd", {"gradient_penalty": "wgann"}, "'wgan'"),
        ("interpolated", {"alpha": 1.5}, "alpha is 0 to 1, got 1.5"),
        ("smile", {"clip": 0}, "clip must be above 0"),
        ("vince", {"fraction": 0.0}, "fraction must be above 0"),
    ],
)
def test_what_would_do_nothing_is_refused(name, setting, words, our_errors):
    x, y = draw(correlated_gaussian(1, nats=1.0), 200)
    with pytest.raises(InvarianceError, match=words):
        estimate_mi(x, y, estimator=name, **setting)


# ------------------------------------------------------------- single pairs


@pytest.mark.parametrize("name", LOG_RATIOS)
def test_pointwise_information_is_the_log_ratio(name):
    pairs = correlated_gaussian(2, nats=1.0)
    e = estimate_mi(*draw(pairs, 800), estimator=name, seed=1, **QUICK)
    x, y = draw(pairs, 300, seed=7)
    each, exact = e.pointwise(x, y), pairs.log_ratio(x, y)
    assert each.shape == (300,)
    assert (each - exact).abs().mean() < 0.3
    assert each.mean().item() == pytest.approx(exact.mean().item(), abs=0.2)
    strangers = e.pointwise(x, y.roll(1, 0))
    assert strangers.exp().mean().item() == pytest.approx(1.0, abs=0.35)
    scores = e.trained_critic(x[:4], y[:6])
    assert scores.shape == (4, 6)
    shift = scores.diagonal() - each[:4]  # by what c(x) or a constant was set
    if BOUNDS[name].log_ratio == "itself":
        torch.testing.assert_close(shift, torch.zeros(4), atol=1e-5, rtol=0)
    if BOUNDS[name].log_ratio == "constant":
        torch.testing.assert_close(shift, shift[:1].expand(4), atol=1e-5, rtol=0)


def test_pointwise_information_of_labels_and_odd_columns():
    dice = torch.Generator().manual_seed(0)
    label = torch.randint(3, (600,), generator=dice)
    x = torch.nn.functional.one_hot(label, 3).double() * 4.0
    x = x + torch.randn(x.shape, generator=dice)
    x = torch.cat([x, torch.full((600, 1), 7.0), x[:, :1] * 1e200], 1)
    e = estimate_mi(x, label, max_steps=200, check_every=50)
    right, wrong = (e.pointwise(x, (label + k) % 3) for k in (0, 1))
    assert right.mean() > 0.7 and wrong.mean() < 0
    with pytest.raises(InvarianceError, match=r"Row 1 of y holds a value .* the 3 of"):
        e.pointwise(x[:2], [0, 9])
    with pytest.raises(InvarianceError, match=r"x had 5 columns .* got 3"):
        e.pointwise(x[:, :3], label)
    with pytest.raises(InvarianceError, match="600 rows of x and 5 of y"):
        e.pointwise(x, label[:5])
    with pytest.raises(InvarianceError, match="NaN or infinite numbers in column 1"):
        e.pointwise(x.index_fill(1, torch.tensor(1), math.nan), label)


@pytest.mark.parametrize(
    ("name", "words"),
    [("vince", "not a log ratio.*jsd"), ("gaussian", "trains no critic.*'jsd'")],
)
def test_pointwise_information_is_refused_in_words(name, words):
    x, y = draw(correlated_gaussian(1, nats=1.0), 200)
    settings = {"max_steps": 1} if name == "vince" else {}
    e = estimate_mi(x, y, estimator=name, **settings)
    with pytest.raises(InvarianceError, match=words):
        e.pointwise(x, y)
