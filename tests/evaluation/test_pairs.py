"""Zero-shot names and partners of the other side, against slow twins."""

import pytest
import torch
from torch.nn.functional import normalize

from invariance.errors import SettingError
from invariance.evaluation import (
    chance_of_pairs,
    name_classes,
    pair_retrieval,
    zero_shot,
)


def slow_recall(u, v, pairs, k):
    """Whether a partner is among the k best, one query at a time."""
    hits = []
    for i, row in enumerate(normalize(u)):
        order = (normalize(v) @ row).argsort(descending=True, stable=True)[:k]
        hits.append(any([i, j] in pairs for j in order.tolist()))
    return sum(hits) / len(hits)


def test_recall_is_that_of_a_slow_twin_both_ways():
    generator = torch.Generator().manual_seed(0)
    u, v = (torch.randn(n, 3, generator=generator) for n in (12, 20))
    pairs = [[i, i] for i in range(12)] + [[i, 12 + i % 8] for i in range(12)]
    scores = {s.metric: s.value for s in pair_retrieval(u, v, torch.tensor(pairs))}
    back = [[j, i] for i, j in pairs]
    for k in (1, 5, 10):
        assert scores[f"image to caption recall@{k}"] == slow_recall(u, v, pairs, k)
        assert scores[f"caption to image recall@{k}"] == slow_recall(v, u, back, k)


def test_rows_that_are_all_alike_score_as_chance():
    """Ties are ranked in order, so a collapsed encoder is not taken for a good one."""
    rows = torch.ones(40, 4)
    for ours, chance in zip(pair_retrieval(rows, rows), chance_of_pairs(40, 40),
                            strict=True):  # fmt: skip
        assert ours.metric == chance.metric
        assert ours.value == pytest.approx(chance.value)


def test_chance_is_what_random_rows_score():
    generator = torch.Generator().manual_seed(0)
    n, m = 30, 60
    pairs = torch.stack([torch.arange(m) % n, torch.arange(m)], 1)
    means = torch.zeros(6)
    for _ in range(40):
        u, v = (torch.randn(size, 8, generator=generator) for size in (n, m))
        means += torch.tensor([s.value for s in pair_retrieval(u, v, pairs)]) / 40
    chance = torch.tensor([s.value for s in chance_of_pairs(n, m, pairs)])
    torch.testing.assert_close(means, chance, atol=0.04, rtol=0)


def test_a_class_is_the_mean_of_its_sentences():
    rows = {"a cat": [1.0, 0], "an owl": [0.0, 1], "cat": [0.6, 0.8], "owl": [0.0, 2]}
    classes = name_classes(
        ["cat", "owl"],
        lambda texts: torch.tensor([rows[text] for text in texts]),
        ["a {}", "{}"],
    )
    expected = normalize(torch.tensor([[1.6, 0.8], [0.0, 2.0]]))
    torch.testing.assert_close(classes, expected)


def test_zero_shot_counts_the_nearest_class():
    images = torch.tensor([[1.0, 0.1], [0.2, 1.0], [1.0, 0.0]])
    score = zero_shot(images, torch.tensor([0, 1, 1]), torch.eye(2))
    assert score.accuracy == pytest.approx(2 / 3)
    assert score.settings == {"n_classes": 2}
    many = zero_shot(torch.eye(7), torch.arange(7).roll(1), torch.eye(7))
    assert many.accuracy == 0
    assert many.top5 == pytest.approx(4 / 7)  # ties in order


def test_templates_need_a_place_for_the_name():
    with pytest.raises(SettingError, match="got 'a picture'"):
        name_classes(["cat"], lambda texts: torch.ones(1, 2), ["a {}", "a picture"])
    with pytest.raises(SettingError, match="at least one"):
        name_classes(["cat"], lambda texts: torch.ones(1, 2), [])
