"""Verdicts follow from everything that a claim says."""

import pytest
from tests.papers.cases import make_rows, wobble

from invariance.papers import CLAIMS, reproduce
from invariance.papers.dhel_kcl.uniformity_predictors import ENCODERS


def judge(name, values):
    """The verdict on made-up rows."""
    claim = CLAIMS[name]
    return claim.judge(make_rows(claim, values))


def make_arms(**accuracies):
    """Rows of arms, by the first word of their names."""

    def values(settings):
        accuracy = accuracies[settings["arm"].split()[0]] + wobble(settings)
        return {"accuracy": accuracy, "untrained": 30.0}

    return values


@pytest.mark.parametrize(
    ("ball", "ring", "outcome"),
    [
        (60, 60, "holds"),
        (60, 40, "holds within limits"),
        (40, 60, "holds within limits"),
        (40, 40, "does not hold"),
        (40, 50, "does not hold"),
        (50, 50, "not decided"),
    ],
)
def test_one_of_two_parts_does_not_decide_a_claim_of_both(ball, ring, outcome):
    verdict = judge("ball_ring_ir", make_arms(all=50, ball=ball, ring=ring))
    assert verdict.outcome == outcome


def test_a_verdict_in_parts_names_them():
    verdict = judge("ball_ring_ir", make_arms(all=50, ball=60, ring=40))
    assert "Shown: the ball is better. Refuted: the ring is better." in verdict.because


def make_objectives(**accuracies):
    """Rows of objectives; those that are not named are at 50."""
    return lambda s: {"accuracy": accuracies.get(s["objective"], 50) + wobble(s)}


def test_dhel_may_be_better_where_kcl_is_worse():
    verdict = judge("small_batches_dhel", make_objectives(DHEL=60, KCL=40))
    assert verdict.outcome == "holds within limits"
    assert "Refuted: KCL is better at 32, KCL is better at 256." in verdict.because


def test_a_lead_that_is_a_lag_is_not_called_chance():
    def values(s):
        behind = s["objective"] == "FlatNCE" and s["batch"] == 32
        return {"accuracy": (60 if behind else 70 - s["batch"] / 25) + wobble(s, 0.1)}

    verdict = judge("small_batch", values)
    assert verdict.outcome == "holds within limits"
    assert "FlatNCE is behind InfoNCE" in verdict.because


def test_one_of_six_encoders_does_not_decide_which_measure_is_best():
    def values(s):
        place = float(list(ENCODERS).index(s["encoder"]))
        uniformity = {0.0: 1.0, 1.0: 0.0}.get(place, place)  # two change places
        wasserstein = place if place < 5 else -1.0  # the last one comes first
        others = {"mmd": wobble(s), "energy": wobble(s), "accuracy": -place}
        return {"wasserstein": wasserstein, "uniformity": uniformity, **others}

    verdict = judge("uniformity_predictors", values)
    assert verdict.outcome == "not decided"
    assert "without 'SimCLR, weak views': holds" in verdict.because


def test_each_objective_is_read_at_its_own_temperature():
    def values(s):
        best = 0.05 if s["objective"] == "info_nce" else 0.2
        worth = 5.0 - (s["temperature"] != best)
        start, end = {0.05: (0.3, 0.1), 0.1: (0.2, 0.2), 0.2: (0.2, 0.5)}[
            s["temperature"]
        ]
        ess = {"start": start + wobble(s), "end": end + wobble(s)}
        return {**ess, "pool_nats": worth, "accuracy": worth, "curve": [start, end]}

    verdict = judge("ess_over_training", values)
    assert verdict.outcome == "holds"
    assert "to 0.10 (temperature 0.05, the lowest) with InfoNCE" in verdict.because
    assert "to 0.50 (temperature 0.2, the highest) with FlatNCE" in verdict.because


def test_two_lines_of_a_table_that_need_two_prices_contradict_each_other():
    def values(s):
        price = 3.0 if s["line"] == "MoCo" else 2.48
        prices = {"lowest_price": price - 0.01, "highest_price": price + 0.01}
        return {"device_hours": 1.0, "dollars": price, **prices}

    verdict = judge("cost_table", values)
    assert verdict.outcome == "does not hold"
    assert "No one price fits both lines of V100" in verdict.because


def test_the_price_of_the_table_is_read_off_its_lines(tmp_path):
    (result,) = reproduce("cost_table", size="tiny", out=tmp_path)
    (clip,) = result.rows.where(line="CLIP")
    assert clip["lowest_price"] < 634_000 / (592 * 18 * 24) < clip["highest_price"]


def test_gamma_is_not_held_against_kcl():
    def values(s):
        points = {"InfoNCE, tau": 4, "KCL, gamma": 8}.get(s["varied"], 1)
        return {"value": 1.0, "accuracy": 40 + points * s["factor"] + wobble(s)}

    assert judge("temperature_sensitivity", values).outcome == "holds"
