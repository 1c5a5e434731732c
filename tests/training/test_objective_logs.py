"""What an objective says of itself reaches metrics.jsonl, and resumes exactly."""

import json
import math

import pytest

import invariance as inv
from invariance.diagnostics import reachable_information
from invariance.methods import Method
from invariance.training import Ess, Train, train


def metrics(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_the_parts_of_a_loss_are_in_the_metrics(small, pictures):
    run = train(small(method="vicreg"), data=pictures)
    for row in metrics(run.folder):
        parts = {k: v for k, v in row.items() if k.startswith("loss/")}
        assert set(parts) == {"loss/invariance", "loss/variance", "loss/covariance"}
        weights = {"invariance": 25, "variance": 25, "covariance": 1}
        total = sum(weights[name] * row[f"loss/{name}"] for name in weights)
        assert row["loss"] == pytest.approx(total, rel=1e-5)


def test_a_constant_loss_is_logged_as_info_nce(small, pictures):
    run = train(small(method="flatclr"), data=pictures)
    assert all(row["loss"] == row["info_nce"] for row in metrics(run.folder))


def test_the_limits_of_the_information_are_in_the_metrics(small, pictures):
    """A queue's candidates count: log(1 + K), and what the temperature allows of it."""
    settings = small(method="moco", options={"size": 24})
    rows = metrics(train(settings, data=pictures).folder)
    for row in rows:
        n = math.exp(row["mi_ceiling"])
        limit = reachable_information(n, row["temperature"])
        assert row["mi_reachable"] == pytest.approx(limit)
        assert row["mi_nats"] == pytest.approx(row["mi_ceiling"] - row["info_nce"])
        # MoCo's objective is InfoNCE: the reading is that of its own candidates
        assert row["info_nce"] == pytest.approx(row["loss"], abs=1e-4)
        assert row["accuracy_chance"] == 1 / settings.batch_size
    assert rows[-1]["mi_ceiling"] > math.log(settings.batch_size)
    assert rows[-1]["mi_ceiling"] <= math.log(25) + 1e-6


LEARNED = Method(
    objective="nt_xent", settings={"temperature": "learned"}, hidden=16, width=8
)


def test_a_learned_temperature_is_logged_and_resumed(
    small, pictures, stopped_after, readings
):
    whole = train(small(), data=pictures, method=LEARNED).folder
    temperatures = [row["temperature"] for row in metrics(whole)]
    assert len(set(temperatures)) == len(temperatures)
    folder = stopped_after(3, small(), data=pictures, method=LEARNED)
    again = Train(resume=str(folder), quiet=True)
    resumed = train(again, data=pictures, method=LEARNED).folder
    assert readings(resumed) == readings(whole)


def test_a_learned_temperature_cannot_follow_a_target_too(small, pictures):
    with pytest.raises(ValueError, match="temperature that may move"):
        train(small(ess=Ess(target=0.3)), data=pictures, method=LEARNED)


def test_a_learned_critic_is_read_as_it_scores(small, pictures):
    settings = small(method="info_nce", critic="bilinear", batch_size=32)
    run = train(settings, data=pictures)
    first, *_, last = metrics(run.folder)
    assert first["loss"] == pytest.approx(math.log(32), abs=1e-4)  # a zero matrix
    assert all(row["info_nce"] > 0 for row in (first, last))
    assert first["info_nce"] == pytest.approx(first["loss"], abs=1e-4)
    assert first["mi_reachable"] == pytest.approx(first["mi_ceiling"])
    assert last["mi_nats"] == pytest.approx(last["mi_ceiling"] - last["info_nce"])
    assert "ess" in last and 0 <= last["accuracy"] <= 1
    (note,) = inv.diagnose(run, data=pictures, keep=False).notes[-1:]
    assert "compared by their cosines here" in note
