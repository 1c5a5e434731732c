"""Spearman's correlation of cosines with people's scores."""

import pytest
import torch

from invariance.data import load
from invariance.errors import DataError, ShapeError
from invariance.evaluation import list_partnered, rank_correlation


def make_pairs(n=200, noise=0.0):
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(n, generator=generator)
    angles = 3 * (1 - scores) + noise * torch.randn(n, generator=generator)
    first = torch.tensor([[1.0, 0.0]]).expand(n, 2)
    return first, torch.stack([angles.cos(), angles.sin()], 1), scores


def test_nearer_pairs_with_higher_scores_are_all_in_order():
    first, other, scores = make_pairs()
    assert rank_correlation(first, other, scores).value == pytest.approx(1.0)
    assert rank_correlation(first, 7 * other, scores**3).value == pytest.approx(1.0)
    assert rank_correlation(first, other, -scores).value == pytest.approx(-1.0)


def test_it_is_the_correlation_of_ranks_and_its_interval_holds_it():
    first, other, scores = make_pairs(noise=1.0)
    score = rank_correlation(first, other, scores)
    cosines = torch.cosine_similarity(first, other)
    ranks = torch.stack([x.argsort().argsort().double() for x in (cosines, scores)])
    assert score.value == pytest.approx(float(torch.corrcoef(ranks)[0, 1]), abs=1e-4)
    assert score.interval[0] < score.value < score.interval[1]
    assert score.n_test == 200 and score.metric == "spearman"


def test_rows_that_are_all_alike_say_nothing():
    _, _, scores = make_pairs()
    assert rank_correlation(torch.ones(200, 3), torch.ones(200, 3), scores).value == 0


def test_what_cannot_be_ranked_is_refused():
    first, other, scores = make_pairs()
    with pytest.raises(ShapeError, match="a row on each side and a score"):
        rank_correlation(first, other[:5], scores)
    with pytest.raises(DataError, match="whose scores differ"):
        rank_correlation(first, other, torch.ones(200))


def test_only_pairs_that_are_most_alike_count_as_two_views_of_one_sample():
    """Unlike pairs taken for views made the information bound negative."""
    scored, all_alike = load("paraphrases", split="test"), load("paraphrases", n=50)
    partnered = list_partnered(scored)
    assert 0 < len(partnered) < len(scored)
    assert (scored.scores[partnered] == scored.scores.max()).all()
    assert list_partnered(all_alike).tolist() == [*range(50)]
