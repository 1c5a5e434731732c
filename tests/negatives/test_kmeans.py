"""k-means on the sphere, with torch and with faiss."""

import pytest
import torch
from torch.nn.functional import normalize

from invariance.negatives import kmeans

BACKENDS = ["torch", "faiss"]


def islands(k=5, each=12, d=6, noise=0.05, seed=0):
    """Rows around k directions at right angles, shuffled, with whose they are."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.linalg.qr(torch.randn(d, d, generator=generator)).Q[:k]
    truth = torch.arange(k).repeat_interleave(each)
    truth = truth[torch.randperm(len(truth), generator=generator)]
    rows = centers[truth] + noise * torch.randn(len(truth), d, generator=generator)
    return normalize(rows, dim=1), truth, centers


def same_partition(a, b):
    return torch.equal(a[:, None] == a, b[:, None] == b)


def best_of(backend, z, k, **settings):
    """The tightest of a few starts: k-means from one may rest in a poor place."""
    runs = [kmeans(z, k, seed=s, backend=backend, **settings) for s in range(12)]
    return max(runs, key=lambda run: (z * run.centers[run.labels]).sum().item())


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_finds_what_is_apart(backend):
    z, truth, centers = islands()
    found = best_of(backend, z, 5)
    assert same_partition(found.labels, truth)
    assert (found.centers @ centers.T).max(1).values.min() > 0.99
    torch.testing.assert_close(found.centers.norm(dim=1), torch.ones(5))


def test_both_ways_agree():
    z, _, _ = islands(seed=3)
    ours, theirs = (best_of(backend, z, 5) for backend in BACKENDS)
    assert same_partition(ours.labels, theirs.labels)
    nearest = (ours.centers @ theirs.centers.T).max(1)
    assert sorted(nearest.indices.tolist()) == list(range(5))
    assert nearest.values.min() > 1 - 1e-4


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_is_with_its_nearest_center(backend):
    z, _, _ = islands(noise=0.6)
    labels, centers = kmeans(z, 7, seed=1, backend=backend)
    assert torch.equal(labels, (z @ centers.T).argmax(1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_seed_decides(backend):
    z, _, _ = islands(noise=0.8)
    one, same, other = (kmeans(z, 6, seed=s, backend=backend) for s in (1, 1, 2))
    assert torch.equal(one.labels, same.labels)
    assert torch.equal(one.centers, same.centers)
    assert not torch.equal(one.centers, other.centers)


def test_more_rounds_are_never_worse():
    z, _, _ = islands(k=6, noise=0.7)
    fit = [
        (z * run.centers[run.labels]).sum().item()
        for run in (kmeans(z, 6, n_iterations=n, backend="torch") for n in (0, 1, 3, 9))
    ]
    assert fit == sorted(fit) and fit[-1] > fit[0]


def test_an_empty_cluster_starts_anew_at_the_row_that_fits_worst():
    """Of many equal rows and one apart, a start finds equal centers: one runs empty."""
    z = torch.eye(3)[[0] * 30 + [1] * 30 + [2]]
    for seed in range(8):
        labels, _ = kmeans(z, 3, seed=seed, backend="torch")
        assert same_partition(labels, torch.tensor([0] * 30 + [1] * 30 + [2]))


def test_as_many_clusters_as_rows():
    z, _, _ = islands(each=2)
    labels, centers = kmeans(z, len(z), seed=0, backend="torch")
    assert len(labels.unique()) == len(z)
    torch.testing.assert_close(centers[labels], z)


def test_chunks_change_nothing(monkeypatch):
    z, _, _ = islands(noise=0.6)
    whole = kmeans(z, 5, backend="torch")
    # how much is held at a time is nobody's setting
    monkeypatch.setattr("invariance.negatives._kmeans.CHUNK_ELEMENTS", 37)
    parts = kmeans(z, 5, backend="torch")
    assert torch.equal(whole.labels, parts.labels)
    torch.testing.assert_close(whole.centers, parts.centers)
