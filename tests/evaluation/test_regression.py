"""Regressions: what the equations say, by loops and by scikit-learn, and the errors."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score

from invariance.errors import DataError, SettingError, ShapeError
from invariance.evaluation import knn_regression, ridge


@pytest.fixture(scope="module")
def rows():
    """Training and test rows of three features, and a number that two of them tell."""
    dice = torch.Generator().manual_seed(0)
    h = torch.randn(60, 3, generator=dice) * torch.tensor([1.0, 5.0, 0.2]) + 2
    noise = 0.3 * torch.randn(60, generator=dice)
    values = 2 * h[:, 0] - h[:, 1] + noise + 100
    return h[:40], values[:40], h[40:], values[40:]


@pytest.mark.parametrize("l2", [0.5, 20.0])
def test_a_ridge_is_its_closed_form(rows, l2):
    h, y, test_h, test_y = (x.double().numpy() for x in rows)
    mean, scale = h.mean(0), h.std(0)
    a, b = (h - mean) / scale, (test_h - mean) / scale
    weights = np.linalg.solve(a.T @ a + l2 * np.eye(3), a.T @ (y - y.mean()))
    guesses = b @ weights + y.mean()
    score = ridge(*rows, l2=l2)
    assert score.value == pytest.approx(r2_score(test_y, guesses), abs=1e-5)
    mae = mean_absolute_error(test_y, guesses)
    assert score.also["mae"][0] == pytest.approx(mae, rel=1e-4)
    assert (score.name, score.metric, score.n_test) == ("ridge", "r2", 20)


def test_the_penalty_is_chosen_on_training_rows(rows):
    h, y, test_h, test_y = rows
    assert ridge(*rows).value > 0.95
    other = ridge(h, y, test_h.flip(0), test_y)  # another test part, the same penalty
    assert other.settings["l2"] == ridge(*rows).settings["l2"]
    noise = torch.randn(40, 30, generator=torch.Generator().manual_seed(1))
    nothing = ridge(noise, y, torch.randn(20, 30), test_y)
    assert nothing.settings["l2"] > 100 * other.settings["l2"]


def test_neighbors_are_averaged_by_their_cosines(rows):
    h, y, test_h, test_y = (x.double() for x in rows)
    guesses = []
    for row in test_h:
        cosines = [float(row @ other / row.norm() / other.norm()) for other in h]
        nearest = sorted(range(len(h)), key=lambda j: -cosines[j])[:5]
        weights = [math.exp(cosines[j] / 0.2) for j in nearest]
        total = sum(w * float(y[j]) for w, j in zip(weights, nearest, strict=True))
        guesses.append(total / sum(weights))
    score = knn_regression(*rows, k=5, temperature=0.2)
    assert score.value == pytest.approx(r2_score(test_y.numpy(), guesses), abs=1e-4)


def test_the_interval_covers_what_more_rows_would_say():
    """Of guesses whose errors have half the spread of the numbers, R² is 3/4."""
    dice, hits = torch.Generator().manual_seed(0), 0
    line = torch.linspace(-2, 2, 9)  # of which a guess is what it is given
    for _ in range(300):
        y = torch.randn(80, generator=dice)
        guesses = y + 0.5 * torch.randn(80, generator=dice)
        score = ridge(line[:, None], line, guesses[:, None], y, l2=0)
        low, high = score.interval
        hits += low < 0.75 < high
    assert 0.88 < hits / 300 < 0.99


def test_a_guess_of_the_mean_scores_nothing():
    y, nothing = torch.arange(9.0), torch.zeros(9, 1)
    score = ridge(nothing, y, nothing, y, l2=1)
    assert score.value == pytest.approx(0, abs=1e-9)
    assert str(score).startswith("ridge r2: 0.00, mae 2.222 (95 % interval")


@pytest.mark.parametrize("score", [ridge, knn_regression])
def test_what_cannot_be_scored_is_said(score, rows):
    h, y, test_h, test_y = rows
    with pytest.raises(ShapeError, match="a number per row: got 40 training rows with"):
        score(h, y[:9], test_h, test_y)
    with pytest.raises(DataError, match="at least two different ones"):
        score(h, y, test_h, torch.ones(20))
    with pytest.raises(DataError, match="needs finite numbers"):
        score(h, y.index_fill(0, torch.tensor([3]), torch.nan), test_h, test_y)
    with pytest.raises(SettingError, match="at least 1: got 0"):
        knn_regression(*rows, k=0)
