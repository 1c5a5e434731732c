import math

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.errors import DataError, SettingError, ShapeError
from invariance.evaluation import knn


@pytest.fixture
def unchecked(monkeypatch):
    """Shape annotations off, as for users: what speaks up is the library itself."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def slow_knn(train_h, train_labels, test_h, test_labels, k, temperature):
    def unit(z):
        return [[x / math.hypot(*row) for x in row] for row in z.tolist()]

    train, labels = unit(train_h), train_labels.tolist()
    hits = near_hits = 0
    for row, truth in zip(unit(test_h), test_labels.tolist(), strict=True):
        cosines = [sum(a * b for a, b in zip(row, t, strict=True)) for t in train]
        # exact ties of duplicate rows go to the earlier row
        near = sorted(range(len(train)), key=lambda j: (-cosines[j], j))[:k]
        votes = dict.fromkeys(sorted(set(labels)), 0.0)
        for j in near:
            votes[labels[j]] += math.exp(cosines[j] / temperature)
        hits += max(votes, key=votes.__getitem__) == truth
        ranked = sorted(votes, key=lambda c: (-votes[c], c))[:5]
        near_hits += truth in [c for c in ranked if votes[c] > 0]
    few = len(set(labels)) <= 5
    return hits / len(test_labels), None if few else near_hits / len(test_labels)


def blobs(n, m, d, n_classes, seed=0):
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(n_classes, d, generator=g, dtype=torch.float64)
    labels = torch.randint(n_classes, (n + m,), generator=g)
    noise = torch.randn(n + m, d, generator=g, dtype=torch.float64)
    h = centres[labels] + noise
    labels = 7 * labels - 10  # labels need not start at 0
    return h[:n], labels[:n], h[n:], labels[n:]


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 30),
    m=st.integers(1, 20),
    d=st.integers(2, 6),
    n_classes=st.integers(1, 9),
    k=st.integers(1, 8),
    temperature=st.sampled_from([0.05, 0.1, 1]),
    seed=st.integers(0, 99),
)
def test_equals_the_loop_exactly(n, m, d, n_classes, k, temperature, seed):
    data = blobs(n, m, d, n_classes, seed)
    score = knn(*data, k=k, temperature=temperature)
    assert (score.accuracy, score.top5) == slow_knn(*data, k, temperature)


def test_chunks_do_not_matter(monkeypatch):
    data = blobs(60, 50, 4, 4)
    whole = knn(*data, k=5)
    # the size of a chunk is no setting
    size = "invariance.checked_rows.CHUNK_ELEMENTS"
    monkeypatch.setattr(size, 7 * 60)
    assert knn(*data, k=5) == whole


def test_agrees_with_scikit_learn():
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import normalize

    train_h, train_labels, test_h, test_labels = blobs(300, 200, 8, 5)
    peer = KNeighborsClassifier(
        n_neighbors=11,
        metric="cosine",
        algorithm="brute",
        weights=lambda distance: torch.tensor((1 - distance) / 0.1).exp().numpy(),
    ).fit(normalize(train_h.numpy()), train_labels.numpy())
    theirs = peer.score(normalize(test_h.numpy()), test_labels.numpy())
    ours = knn(train_h, train_labels, test_h, test_labels, k=11)
    assert ours.accuracy == pytest.approx(theirs, abs=1e-9)
    assert ours.settings == {"k": 11, "temperature": 0.1, "n_train": 300}


def test_equal_neighbours_come_in_the_order_of_the_rows():
    train = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(50, 1)
    labels = torch.arange(100) // 2  # rows 0, 2, 4... are alike, with labels 0, 1, 2...
    test = torch.tensor([[3.0, 0.0]])
    for k in (1, 2, 7):  # equal votes: the smallest label wins
        assert knn(train, labels, test, torch.tensor([0]), k=k).accuracy == 1


def test_equal_votes_go_to_the_smallest_label():
    train = torch.eye(2)
    test = torch.ones(1, 2)
    labels = torch.tensor([9, 4])
    assert knn(train, labels, test, torch.tensor([4]), k=2).accuracy == 1


def test_low_temperatures_are_finite():
    data = blobs(40, 30, 4, 3)
    cold = knn(
        *(x.float() if x.is_floating_point() else x for x in data), temperature=1e-3
    )
    assert cold.accuracy == knn(*data, k=1).accuracy


def test_too_many_neighbours_are_capped_in_words():
    score = knn(*blobs(8, 5, 3, 2), k=200)
    assert score.settings["k"] == 8
    assert score.notes == ("k=200 is more than the 8 training rows: all 8 vote.",)


def test_a_class_never_seen_is_wrong_and_said():
    h = torch.eye(3)
    score = knn(h, torch.tensor([1, 1, 2]), h, torch.tensor([1, 5, 0]), k=1)
    assert score.accuracy == pytest.approx(1 / 3)
    assert score.notes == (
        "Test classes 0, 5 are not among the training labels: 2 of the test samples "
        "count as wrong.",
    )


@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_said_in_words():
    h, y = torch.eye(3), torch.tensor([0, 1, 2])
    with pytest.raises(SettingError, match="at least 1: got 0"):
        knn(h, y, h, y, k=0)
    with pytest.raises(SettingError, match="temperature must be above 0 and finite"):
        knn(h, y, h, y, temperature=0)
    with pytest.raises(ShapeError, match=r"same width: got \(3, 3\) and \(3, 2\)"):
        knn(h, y, h[:, :2], y)
    with pytest.raises(ShapeError, match=r"test_labels needs one label per row"):
        knn(h, y, h, y[:2])
    with pytest.raises(DataError, match=r"train_labels must be integers"):
        knn(h, y.float(), h, y)
    with pytest.raises(DataError, match=r"test_h has NaN or infinity in 3 of 3 rows"):
        knn(h, y, h / 0, y)
    with pytest.raises(ShapeError, match=r"test_h needs at least 1 row:"):
        knn(h, y, h[:0], y[:0])
