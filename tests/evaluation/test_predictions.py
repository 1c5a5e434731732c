"""Guesses beside the truth: top-5 of one class per row, precision of several."""

import math

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, top_k_accuracy_score
from sklearn.preprocessing import StandardScaler
from torch import nn

from invariance.errors import DataError, ShapeError
from invariance.evaluation import (
    average_precisions,
    clustering,
    few_labels_linear,
    fine_tune,
    knn,
    linear_probe,
    linear_sgd,
    retrieval,
)


@pytest.fixture
def unchecked(monkeypatch):
    """Shape annotations off, as for users: what speaks up is the library itself."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def draw(n, m, d=12, n_classes=9, seed=0):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(n_classes, (n + m,), generator=g)
    centers = torch.randn(n_classes, d, generator=g)
    h = 0.5 * centers[labels] + torch.randn(n + m, d, generator=g)
    return h[:n], labels[:n], h[n:], labels[n:]


def draw_several(n, m, d=10, n_classes=4, seed=0):
    """Rows of several classes, each of which adds a direction of its own."""
    g = torch.Generator().manual_seed(seed)
    tags = (torch.rand(n + m, n_classes, generator=g) < 0.3).long()
    directions = torch.randn(n_classes, d, generator=g)
    h = tags.float() @ directions + torch.randn(n + m, d, generator=g)
    return h[:n], tags[:n], h[n:], tags[n:]


# ------------------------------------------------------------ one class per row


def test_top5_of_the_probe_is_scikit_learns():
    train_h, train_y, test_h, test_y = draw(300, 200)
    score = linear_probe(train_h, train_y, test_h, test_y, l2=0.01)
    scaler = StandardScaler().fit(train_h.double().numpy())
    peer = LogisticRegression(C=1 / (0.01 * 300), max_iter=5000, tol=1e-8)
    peer.fit(scaler.transform(train_h.double().numpy()), train_y.numpy())
    guesses = peer.predict_proba(scaler.transform(test_h.double().numpy()))
    theirs = top_k_accuracy_score(test_y.numpy(), guesses, k=5)
    assert score.top5 == pytest.approx(theirs, abs=0.006)
    assert score.accuracy < score.top5 < 1


def test_unseen_classes_are_never_among_the_five():
    train_h, train_y, test_h, _ = draw(100, 20)
    for score in (
        knn(train_h, train_y, test_h, torch.full((20,), 99)),
        linear_probe(train_h, train_y, test_h, torch.full((20,), 99)),
    ):
        assert (score.value, score.top5) == (0, 0)


def test_a_network_that_diverged_has_guessed_nothing():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return x.flatten(1) * self.weight * math.nan

    images = torch.randint(0, 255, (40, 1, 4, 4), dtype=torch.uint8)
    labels = torch.arange(40) % 8
    score = fine_tune(Broken(), images, labels, images, labels, epochs=1, min_steps=1)
    assert (score.value, score.top5) == (0, 0)


def test_few_labels_and_trained_protocols_have_it_too():
    h, labels, test_h, test_labels = draw(200, 60)
    for score in few_labels_linear(h, labels, test_h, test_labels, share=0.3, draws=2):
        assert score.value <= score.top5 <= 1
        assert score.split()[1].settings["draw"] == score.settings["draw"]
    images = [x.view(-1, 1, 3, 4).sigmoid() for x in (h, test_h)]
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(12, 12))
    for protocol in (fine_tune, linear_sgd):
        score = protocol(encoder, images[0], labels, images[1], test_labels, epochs=2)
        assert score.value <= score.top5 <= 1


# -------------------------------------------------------- several classes per row


def slow_precisions(guesses, hits):
    """Precision and recall at every threshold, one after the other."""
    points = []
    for t in sorted(set(guesses), reverse=True):
        accepted = [hit for guess, hit in zip(guesses, hits, strict=True) if guess >= t]
        points.append((sum(accepted) / sum(hits), sum(accepted) / len(accepted)))
    eleven = [
        max(p for recall, p in points if recall >= k / 10 - 1e-12) for k in range(11)
    ]
    return sum(eleven) / 11


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 40), levels=st.sampled_from([2, 5, 1000]), seed=st.integers(0, 99)
)
def test_precision_is_scikit_learns_and_vocs(n, levels, seed):
    dice = np.random.default_rng(seed)
    guesses = dice.integers(0, levels, n) / 10  # few levels make ties
    hits = dice.random(n) < 0.4
    hits[dice.integers(n)] = True
    whole, eleven = average_precisions(torch.tensor(guesses), torch.tensor(hits))
    assert whole == pytest.approx(average_precision_score(hits, guesses), abs=1e-12)
    slow = slow_precisions(guesses.tolist(), hits.tolist())
    assert eleven == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize("l2", [0.1, 1e-3])
def test_the_probe_is_one_classifier_per_class(l2):
    train_h, train_y, test_h, test_y = draw_several(300, 200)
    score = linear_probe(train_h, train_y, test_h, test_y, l2=l2)
    scaler = StandardScaler().fit(train_h.double().numpy())
    x, x_test = (scaler.transform(h.double().numpy()) for h in (train_h, test_h))
    theirs = [
        average_precision_score(
            test_y[:, k],
            LogisticRegression(C=1 / (l2 * 300), max_iter=5000, tol=1e-8)
            .fit(x, train_y[:, k])
            .decision_function(x_test),
        )
        for k in range(4)
    ]
    assert score.metric == "map" and score.notes == ()
    assert score.value == pytest.approx(np.mean(theirs), abs=1e-4)
    assert [s.metric for s in score.split()] == ["map", "map11"]
    assert linear_probe(train_h, train_y, test_h, test_y, l2=l2) == score


def test_the_interval_covers_the_draw_of_the_test_rows():
    """Of 40 test parts 95 % intervals miss the value of a huge one now and then."""
    train_h, train_y, test_h, test_y = draw_several(200, 12_000)
    truth = knn(train_h, train_y, test_h, test_y)
    parts = zip(test_h.split(300), test_y.split(300), strict=True)
    n_inside = 0
    for h, y in parts:
        score = knn(train_h, train_y, h, y)
        low, high = score.interval
        assert low < score.value < high and high - low < 0.2
        n_inside += low <= truth.value <= high
    assert 34 <= n_inside <= 40
    assert score == knn(train_h, train_y, h, y)
    assert score.split()[1].interval is None


def test_the_interval_is_of_the_draws_that_show_a_class():
    """A third of the draws of three test rows miss the only one of the class."""
    h, tags = torch.eye(3), torch.tensor([[1], [0], [0]])
    assert knn(h, tags, h, tags, k=1).interval == (1.0, 1.0)


def test_the_penalty_is_chosen_on_training_rows():
    data = draw_several(200, 300)
    chosen = linear_probe(*data)
    assert 0 < chosen.settings["validation_map"] <= 1
    fixed = [linear_probe(*data, l2=l2).value for l2 in (1, 1e-1, 1e-2, 1e-3)]
    assert chosen.value > max(fixed) - 0.03
    shuffled = linear_probe(*data[:3], data[3].roll(1, 0))
    assert shuffled.settings == chosen.settings and shuffled.value < chosen.value


def test_neighbors_vote_by_their_share():
    train_h, train_y, test_h, test_y = draw_several(60, 40)
    score = knn(train_h, train_y, test_h, test_y, k=7, temperature=0.2)
    a, b = (h / h.norm(dim=1, keepdim=True) for h in (train_h, test_h))
    guesses = np.zeros((40, 4))
    for i, row in enumerate(b @ a.T):
        near = row.argsort(descending=True)[:7]
        weights = (row[near] / 0.2).exp()
        guesses[i] = (weights @ train_y[near].float() / weights.sum()).numpy()
    theirs = average_precision_score(test_y.numpy(), guesses, average="macro")
    assert score.value == pytest.approx(theirs, abs=1e-6)


def test_what_is_not_known_is_left_out():
    """-1 in a cell: as if that row were not there for that class."""
    train_h, train_y, test_h, test_y = draw_several(200, 100, n_classes=2)
    masked = test_y.clone()
    masked[:30, 1] = -1
    first = knn(train_h, train_y[:, :1], test_h, test_y[:, :1])
    second = knn(train_h, train_y[:, 1:], test_h[30:], test_y[30:, 1:])
    both = knn(train_h, train_y, test_h, masked)
    assert both.value == pytest.approx((first.value + second.value) / 2, abs=1e-9)
    assert both.value != knn(train_h, train_y, test_h, test_y).value
    unseen = knn(train_h, train_y, test_h, test_y * torch.tensor([1, 0]))
    assert unseen.value == pytest.approx(first.value, abs=1e-9)
    assert "1 class that no test image shows is left out" in unseen.notes[0]
    hidden = train_y.clone()
    hidden[:50] = -1
    fit = linear_probe(train_h, hidden, test_h, test_y, l2=0.01)
    fewer = linear_probe(train_h[50:], train_y[50:], test_h, test_y, l2=0.01 * 4 / 3)
    assert fit.value == pytest.approx(fewer.value, abs=0.01)  # but for the scaling


@pytest.mark.parametrize("protocol", [fine_tune, linear_sgd])
def test_protocols_that_train_learn_several_classes(protocol):
    g = torch.Generator().manual_seed(0)
    tags = torch.randint(2, (260, 3), generator=g)
    images = torch.randint(0, 120, (260, 1, 6, 6), generator=g, dtype=torch.uint8)
    for image, row in zip(images, tags, strict=True):
        for k in range(3):
            image[:, 2 * k : 2 * k + 2] += 80 * row[k].to(torch.uint8)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU())
    data = images[:160], tags[:160], images[160:], tags[160:]
    score = protocol(encoder, *data, epochs=10)
    assert score.metric == "map" and score.value > 0.9
    assert protocol(encoder, *data[:3], data[3].roll(1, 0), epochs=10).value < 0.7


@pytest.mark.usefixtures("unchecked")
def test_what_needs_one_class_is_refused():
    data = draw_several(50, 30)
    with pytest.raises(DataError, match=r"Retrieval needs one class.*\(50, 4\) may"):
        retrieval(*data)
    with pytest.raises(DataError, match="A draw of few labels needs one class"):
        few_labels_linear(*data, share=0.1)
    with pytest.raises(DataError, match="Clustering needs one class per sample"):
        clustering(*data[:2])


@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_said_in_words():
    h, y, test_h, test_y = draw_several(20, 10)
    with pytest.raises(DataError, match=r"a column per class.*got 0 to 2"):
        knn(h, 2 * y, test_h, test_y)
    with pytest.raises(ShapeError, match=r"the same classes.*\(20, 4\) and \(10, 3\)"):
        knn(h, y, test_h, test_y[:, :3])
    with pytest.raises(ShapeError, match=r"the same classes.*\(20, 4\) and \(10,\)"):
        knn(h, y, test_h, test_y[:, 0])
    with pytest.raises(ShapeError, match=r"train_labels needs one row per sample"):
        knn(h, y[:5], test_h, test_y)
    with pytest.raises(DataError, match="No test image shows any of the classes"):
        knn(h, y, test_h, 0 * test_y)
