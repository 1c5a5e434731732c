"""Zero-shot names and partners of the other side, against slow twins."""

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from invariance.data import load
from invariance.encoders import Encoder, Towers
from invariance.errors import DataError, SettingError
from invariance.evaluation import (
    GROUPS,
    PROTOCOLS,
    chance_of_pairs,
    evaluate_encoders,
    make_task,
    name_classes,
    pair_retrieval,
    plan_protocols,
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


class Names(nn.Module):
    """A tower that knows the tokens of captions, and nothing else."""

    def __init__(self, vocabulary):
        super().__init__()
        self.table = nn.Embedding(vocabulary, 8)

    def forward(self, tokens):
        return self.table(tokens).mean(1)


@pytest.fixture(scope="module")
def shapes():
    """Captioned shapes as a task, and two towers that were not trained."""
    train = load("captioned_shapes", n=80, captions=True)
    test = load("captioned_shapes", n=48, split="test", captions=True,
                other_kind=train.other.kind)  # fmt: skip
    torch.manual_seed(0)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 8))
    text = train.other.kind.seen
    other = Encoder(Names(text.vocabulary), kind=text)
    towers = Towers(Encoder(flat), nn.Linear(8, 4), other, nn.Linear(8, 4))
    return train, test, towers


def score(shapes, protocols=None, settings=None):
    train, test, towers = shapes
    return evaluate_encoders(
        make_task(train, test, limit=None, device="cpu"),
        {"raw pixels": None, "trained encoder": towers.encoder},
        towers={"trained encoder": towers},
        plan=plan_protocols(protocols, settings=settings),
    )


def test_pairs_are_scored_beside_chance(shapes):
    rows = score(shapes, ("zero_shot", "pairs", "knn"))
    guesses = [row for row in rows if row["features"] == "chance"]
    chance = {r["metric"]: r["value"] for r in guesses if r["protocol"] == "zero_shot"}
    assert chance == {"accuracy": 1 / 80, "top5": 5 / 80}
    scored = {(row["features"], row["protocol"]) for row in rows}
    assert scored == {
        *(("chance", "zero_shot"), ("chance", "pairs"), ("raw pixels", "knn")),
        *(("trained encoder", name) for name in ("zero_shot", "pairs", "knn")),
    }
    ways = {row["metric"] for row in rows if row["protocol"] == "pairs"}
    assert len(ways) == 6


def test_labels_are_not_needed_to_look_for_partners(shapes):
    train, _, towers = shapes
    plain = [load("captioned_shapes", n=n, split=split, captions=True, labels=False,
                  other_kind=train.other.kind)
             for n, split in ((80, "train"), (48, "test"))]  # fmt: skip
    rows = score((*plain, towers))
    assert {row["protocol"] for row in rows} == {"pairs", "zero_shot"}
    with pytest.raises(DataError, match="knn compares with labels, but the images of"):
        score((*plain, towers), "knn")


def test_templates_are_another_question(shapes):
    assert set(GROUPS["zero_shot"]) == {"templates"}
    assert PROTOCOLS["zero_shot"].takes == ("zero_shot",)
    usual, mine = (
        score(shapes, "zero_shot", settings)
        for settings in (None, {"zero_shot": {"templates": "{}"}})
    )
    assert all("templates" not in row["settings"] for row in usual)
    assert all(row["settings"]["templates"] == "{}" for row in mine)
    assert all(row["changed"] == {"templates": "{}"} for row in mine)


def test_protocols_of_pairs_need_pairs(shapes):
    towers = shapes[2]
    images = [
        load("captioned_shapes", n=40, split=split) for split in ("train", "test")
    ]
    with pytest.raises(DataError, match="zero_shot compares both sides of pairs"):
        score((*images, towers), "zero_shot")
    assert {row["protocol"] for row in score((*images, towers))} >= {"knn", "linear"}
