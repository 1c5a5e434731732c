"""Ranking and grouping, against slow twins, scikit-learn and closed forms."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from tests.reference import scores as slow
from torch.nn.functional import normalize

from invariance.diagnostics import score_chunks
from invariance.errors import SettingError
from invariance.evaluation import Score, clustering, retrieval


def blobs(n, m, d, n_classes, seed=0):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(n_classes, (n + m,), generator=g)
    centres = torch.randn(n_classes, d, generator=g, dtype=torch.float64)
    h = centres[labels] + torch.randn(n + m, d, generator=g, dtype=torch.float64)
    return h[:n], labels[:n], h[n:], labels[n:]


@settings(max_examples=20, deadline=None)
@given(
    n=st.integers(1, 12),
    m=st.integers(1, 5),
    d=st.integers(2, 4),
    n_classes=st.integers(1, 4),
    k=st.integers(1, 15),
    seed=st.integers(0, 99),
)
def test_retrieval_is_the_loop(n, m, d, n_classes, k, seed):
    data = blobs(n, m, d, n_classes, seed)
    recall, whole = retrieval(*data, ks=[k])
    assert recall.value == slow.recall_at(k, *data)
    expected = slow.mean_average_precision(*data)
    assert whole.value == pytest.approx(expected, abs=1e-12)
    assert (recall.metric, whole.metric) == (f"recall@{k}", "map")


def test_map_is_scikit_learns():
    data = blobs(200, 50, 8, 4)
    h, labels, queries, truths = data
    cosines = (
        torch.nn.functional.normalize(queries) @ torch.nn.functional.normalize(h).T
    )
    theirs = [
        average_precision_score((labels == truth).numpy(), row.numpy())
        for truth, row in zip(truths, cosines, strict=True)
    ]
    ours = retrieval(*data)[-1]
    assert ours.value == pytest.approx(sum(theirs) / len(theirs), abs=1e-12)
    low, high = ours.interval
    assert low < ours.value < high


def test_tiles_do_not_matter_and_bound_the_memory(monkeypatch):
    data = blobs(60, 50, 4, 4)
    whole = retrieval(*data)
    sizes = []

    def watched(x, y):
        for rows, scores in score_chunks(x, y):
            sizes.append(scores.numel())
            yield rows, scores

    # the size of a chunk is no setting
    size = "invariance.checked_rows.CHUNK_ELEMENTS"
    monkeypatch.setattr(size, 7 * 60)
    monkeypatch.setattr("invariance.evaluation._retrieval.score_chunks", watched)
    tiled = retrieval(*data)
    assert [s.value for s in tiled] == pytest.approx([s.value for s in whole])
    assert max(sizes) <= 7 * 60 and len(sizes) == 8


def test_perfect_and_hopeless():
    h, labels = torch.eye(4).repeat(3, 1), torch.arange(4).repeat(3)
    assert [s.value for s in retrieval(h, labels, h, labels)] == [1, 1, 1, 1]
    wrong = retrieval(h, labels, h[:4], labels[:4] + 10)
    assert [s.value for s in wrong] == [0, 0, 0, 0]
    assert "not among the training labels" in wrong[0].notes[0]
    with pytest.raises(SettingError, match="at least 1"):
        retrieval(h, labels, h, labels, ks=[0])


@settings(max_examples=15, deadline=None)
@given(n=st.integers(6, 20), k=st.integers(2, 4), seed=st.integers(0, 99))
def test_clustering_scores_are_the_loops(n, k, seed):
    from sklearn.cluster import KMeans

    h, labels, _, _ = blobs(n, 1, 3, 3, seed)
    nmi, ari = clustering(h, labels, n_clusters=k, seed=1, starts=3)
    means = KMeans(k, n_init=3, random_state=1).fit(normalize(h).numpy())
    found, truth = means.labels_.tolist(), labels.tolist()
    expected = slow.normalised_mutual_information(truth, found)
    assert nmi.value == pytest.approx(expected, abs=1e-9)
    assert ari.value == pytest.approx(slow.adjusted_rand_index(truth, found), abs=1e-9)


def test_clusters_that_are_the_classes():
    h, labels = 5 * torch.eye(4).repeat(6, 1), torch.arange(4).repeat(6)
    nmi, ari = clustering(h + 0.01 * torch.rand(24, 4), labels + 3)
    assert nmi.value == pytest.approx(1) and ari.value == pytest.approx(1)
    assert nmi.interval is None and nmi.settings["k"] == 4
    assert "interval" not in str(nmi) and "clustering nmi: 1.00 (" in str(nmi)
    random = clustering(torch.randn(500, 8), torch.arange(500) % 5)
    assert abs(random[1].value) < 0.05
    with pytest.raises(SettingError, match="between 1 and the 24 rows"):
        clustering(h, labels, n_clusters=25)


def test_clusters_that_could_not_disagree_are_said():
    one = clustering(torch.eye(4), torch.zeros(4, dtype=torch.long))
    own = clustering(torch.eye(4), torch.arange(4))
    assert all("one class" in s.notes[0] for s in one)
    assert all("its own cluster" in s.notes[0] for s in own)
    assert not clustering(torch.eye(4), torch.tensor([0, 0, 1, 1]))[0].notes


def test_a_score_that_is_no_accuracy_has_none():
    score = Score("retrieval", 0.5, 4, None, metric="map")
    with pytest.raises(AttributeError, match="read its value"):
        _ = score.accuracy
    one = Score.of_mean("retrieval", torch.tensor([0.5]), {})
    assert one.interval is None
