import dataclasses
import json

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from invariance.errors import DataError, ShapeError
from invariance.evaluation import Score, raw_pixels, wilson_interval


@pytest.fixture
def unchecked(monkeypatch):
    """Shape annotations off, as for users: what speaks up is the library itself."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_is_scipys(counts):
    k, n = counts
    theirs = binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(k, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_a_score_reads_as_a_line():
    correct = torch.arange(2000) < 1625
    score = Score.of("knn", correct, {"k": 20, "temperature": 0.1})
    assert str(score) == (
        "knn: 81.25 % (95 % interval 79.5 to 82.9, 2,000 test samples; "
        "k=20, temperature=0.1)"
    )
    assert str(Score.of("x", correct[:4], {}, ("Beware.",))) == (
        "x: 100.00 % (95 % interval 51.0 to 100.0, 4 test samples)\n  note: Beware."
    )


def test_top5_is_of_more_than_five_classes():
    ranks = torch.tensor([0, 0, 3, 4, 5, 9])
    score = Score.of_ranks("linear", ranks, 10, {"l2": 0.1})
    assert (score.accuracy, score.top5) == (2 / 6, 4 / 6)
    assert str(score).startswith("linear: 33.33 %, top5 66.67 % (95 % interval 9.7 to")
    first, second = score.split()
    assert (first.metric, first.value, first.also) == ("accuracy", 2 / 6, {})
    assert (second.metric, second.value) == ("top5", 4 / 6)
    assert second.interval == wilson_interval(4, 6) and second.settings == {"l2": 0.1}
    few = Score.of_ranks("linear", ranks.clamp(max=4), 5, {})
    assert few.top5 is None and len(few.split()) == 1


def test_a_score_is_a_plain_value():
    score = Score.of("knn", torch.tensor([True, False]), {"k": 1}, ("A note.",))
    with pytest.raises(dataclasses.FrozenInstanceError):
        score.accuracy = 1.0
    assert json.loads(json.dumps(dataclasses.asdict(score)))["value"] == 0.5


def test_raw_pixels():
    g = torch.Generator().manual_seed(0)
    images = torch.randint(256, (3, 2, 4, 5), generator=g, dtype=torch.uint8)
    pixels = raw_pixels(images)
    assert pixels.shape == (3, 40)
    assert pixels.dtype == torch.float32
    assert torch.equal((pixels * 255).round().byte().view(images.shape), images)


@pytest.mark.usefixtures("unchecked")
def test_raw_pixels_mistakes():
    with pytest.raises(DataError, match=r"must be uint8.*got torch\.float32"):
        raw_pixels(torch.zeros(1, 1, 2, 2))
    with pytest.raises(ShapeError, match=r"\(n, c, h, w\): got \(2, 2\)"):
        raw_pixels(torch.zeros(2, 2, dtype=torch.uint8))
