"""Few labels: every class is there, draws repeat, and the number is said."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from invariance.errors import SettingError
from invariance.evaluation import few_labels, few_labels_linear, linear_probe


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=10),
    share=st.sampled_from([0.01, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 9),
    draw=st.integers(0, 9),
)
def test_a_share_of_every_class_and_at_least_one(counts, share, seed, draw):
    g = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=g)]
    rows = few_labels(labels, share, seed=seed, draw=draw)
    assert len(set(rows.tolist())) == len(rows)
    assert labels[rows].bincount(minlength=len(counts)).tolist() == [
        max(1, round(share * n)) for n in counts
    ]
    assert torch.equal(rows, few_labels(labels, share, seed=seed, draw=draw))


def test_one_per_cent_of_ten_classes():
    labels = torch.arange(6000) % 10
    rows = few_labels(labels, 0.01, seed=3)
    assert len(rows) == 60 and labels[rows].unique().tolist() == list(range(10))
    others = [
        few_labels(labels, 0.01, seed=4),
        few_labels(labels, 0.01, seed=3, draw=1),
    ]
    assert not any(torch.equal(rows, other) for other in others)


def test_the_probe_sees_those_labels_only():
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (400,), generator=g)
    h = torch.randn(4, 8, generator=g)[labels] + torch.randn(400, 8, generator=g)
    data = h[:300], labels[:300], h[300:], labels[300:]
    scores = few_labels_linear(*data, share=0.1, draws=3, seed=2)
    assert [s.settings["draw"] for s in scores] == [0, 1, 2]
    for draw, score in enumerate(scores):
        rows = few_labels(data[1], 0.1, seed=2, draw=draw)
        by_hand = linear_probe(h[rows], labels[rows], *data[2:], seed=2)
        assert score.value == by_hand.value and score.name == "few_labels_linear"
        assert score.settings["n_labels"] == len(rows)
        assert score.settings["share"] == 0.1
    assert len({s.value for s in scores}) > 1


@pytest.mark.parametrize("share", [0, -0.1, 1.5])
def test_a_share_is_a_share(share):
    with pytest.raises(SettingError, match="part of the labels, 0 to 1"):
        few_labels(torch.arange(5), share)
