"""Every claim keeps the same promises, whatever it is about."""

import pytest
from tests.papers.cases import Case, make_noise, make_rows
from tests.papers.made_up import dhel_kcl, exposition, flatnce, page, views

from invariance.papers import CLAIMS, PAPERS, read_result, reproduce

CASES: dict[str, Case] = {
    name: case
    for module in (exposition, flatnce, page, dhel_kcl, views)
    for name, case in module.CASES.items()
}
EVERY = pytest.mark.parametrize("name", CLAIMS)
# these read a correlation, a level or a range, which the same noise for all gives, too
READ_FROM_NOISE = {
    "true_mi_accuracy",
    "collapse",
    "temperature_sensitivity",
    "uniformity_predictors",
}
COMPARED = [
    name for name, claim in CLAIMS.items() if claim.toy and name not in READ_FROM_NOISE
]


def test_every_claim_has_made_up_results():
    assert set(CASES) == set(CLAIMS)


def test_no_two_claims_share_a_name():
    assert len(CLAIMS) == sum(len(paper.claims) for paper in PAPERS.values())


@EVERY
def test_the_verdict_turns_with_the_data(name):
    claim, case = CLAIMS[name], CASES[name]
    supported = claim.judge(make_rows(claim, case.supports))
    contradicted = claim.judge(make_rows(claim, case.contradicts))
    assert supported.outcome != contradicted.outcome
    assert contradicted.outcome in ("does not hold", "formula is wrong") or (
        supported.outcome == "formula is wrong"
    )


@pytest.mark.parametrize("name", COMPARED)
def test_trainings_that_differ_by_chance_decide_nothing(name):
    claim, case = CLAIMS[name], CASES[name]
    verdict = claim.judge(make_rows(claim, make_noise(case.supports)))
    assert verdict.outcome == "not decided"


@EVERY
def test_a_claim_says_what_it_is_about(name):
    claim = CLAIMS[name]
    assert claim.name == name
    assert claim.paper in PAPERS
    assert claim.sizes.keys() == {"tiny", "quick", "full"}
    assert all(claim.sizes.values())
    for sentence in (claim.says, claim.run, claim.refuted_if):
        assert sentence.endswith(".")
    stands_for_another = "stand for" in claim.run
    assert claim.toy or not stands_for_another


@EVERY
def test_the_tiny_size_runs_and_is_drawn(name, tmp_path):
    (result,) = reproduce(name, size="tiny", out=tmp_path)
    assert len(result.rows) == len(CLAIMS[name].sizes["tiny"])
    assert result.verdict.because.endswith(".")
    headings, *lines = result.table()
    assert lines
    assert all(len(line) == len(headings) for line in lines)
    assert (tmp_path / f"{name}.png").stat().st_size > 1000
    assert read_result(CLAIMS[name], tmp_path).fingerprint == result.fingerprint
