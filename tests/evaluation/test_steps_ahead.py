"""How far ahead: bounds that hold, windows that count, data without labels."""

import math

import pytest
import torch

from invariance.data import information_ahead, latent_walk, load
from invariance.encoders import Encoder, Predictive
from invariance.errors import DataError, SettingError, ShapeError
from invariance.evaluation import (
    evaluate_encoders,
    make_task,
    plan_protocols,
    steps_ahead,
)
from invariance.folder import tabulate


def make_gaussians(n, correlation, seed):
    """Contexts, and codes correlated with them, coordinate by coordinate."""
    generator = torch.Generator().manual_seed(seed)
    c = torch.randn(n, 3, generator=generator)
    noise = torch.randn(n, 2, 3, generator=generator)
    rho = torch.tensor(correlation)[:, None]
    return c, rho * c[:, None] + (1 - rho**2).sqrt() * noise


def test_the_bound_is_below_the_truth_and_close_to_it():
    correlation = [0.6, 0.3]
    train, test = (make_gaussians(n, correlation, seed=n) for n in (2500, 1000))
    scores = steps_ahead(train, test)
    for score, rho in zip(scores, correlation, strict=True):
        truth = -1.5 * math.log(1 - rho**2)
        # bilinear scores are not all of it: a Gaussian's has squares as well
        assert 0.6 * truth < score.value < truth + 0.05
        assert score.interval[0] < score.value < score.interval[1]
        assert score.settings["certified"] and score.metric == "nats"
        assert score.settings["ceiling"] == pytest.approx(math.log(1000))
    assert [score.settings["ahead"] for score in scores] == [1, 2]
    assert "nats: " in str(scores[0]) and "%" not in str(scores[0]).split("(")[0]


def test_of_noise_nothing_is_claimed():
    train, test = (make_gaussians(n, [0.0, 0.0], seed=n) for n in (500, 400))
    for score in steps_ahead(train, test):
        assert abs(score.value) < 0.05 and score.interval[0] <= 0.01


def test_windows_of_one_recording_certify_nothing():
    train, test = (make_gaussians(n, [0.9, 0.3], seed=n) for n in (400, 100))
    few = steps_ahead(train, test, recordings=["a", "b"] * 50)
    assert not few[0].settings["certified"] and few[0].n_test == 100
    assert "not independent" in few[0].notes[0]
    many = steps_ahead(train, test, recordings=[f"{k // 2}" for k in range(100)])
    assert many[0].settings["certified"] and many[0].n_test == 50 and not many[0].notes


def test_the_same_seed_gives_the_same_scores():
    train, test = (make_gaussians(n, [0.9, 0.3], seed=n) for n in (300, 100))
    first, second = (steps_ahead(train, test, seed=3) for _ in range(2))
    assert [s.value for s in first] == [s.value for s in second]
    with pytest.raises(ShapeError, match="1 to fit with and 100 to test"):
        steps_ahead((train[0][:1], train[1][:1]), test)


def make_encoder(window=128):
    torch.manual_seed(0)
    network = Predictive(channels=4, latent=8, width=8)
    return Encoder(network, input_shape=(4, window), name="small")


def test_it_is_a_protocol_of_sequences_with_and_without_labels():
    parts = [
        load("latent_walk", n=n, split=s) for n, s in ((80, "train"), (40, "test"))
    ]
    task = make_task(*parts, limit=None, device="cpu")
    plan = plan_protocols()
    encoders = {"values and statistics": None, "untrained encoder": make_encoder()}
    rows = evaluate_encoders(task, encoders, plan=plan)
    assert {row["protocol"] for row in rows} > {"knn", "linear", "steps_ahead"}
    ahead = [row for row in rows if row["protocol"] == "steps_ahead"]
    assert [row["settings"]["ahead"] for row in ahead] == [*range(1, 9)]
    assert {row["features"] for row in ahead} == {"untrained encoder"}
    lines = [x for x in tabulate(rows).lines if x.protocol == "steps_ahead"]
    assert lines[0].detail == "nats, 1 ahead, at most 3.69" and not lines[0].share
    unlabeled = [
        load("latent_walk", n=40, split=split, labels=False)
        for split in ("train", "test")
    ]
    task = make_task(*unlabeled, limit=None, device="cpu")
    few = plan_protocols("steps_ahead", settings={"steps_ahead": {"steps": 2}})
    rows = evaluate_encoders(task, encoders, plan=few)
    assert [row["settings"]["ahead"] for row in rows] == [1, 2]
    rows = evaluate_encoders(task, encoders, plan=plan)
    assert {row["protocol"] for row in rows} == {"steps_ahead"}
    with pytest.raises(DataError, match="knn compares with labels, but the windows of"):
        evaluate_encoders(task, encoders, plan=plan_protocols(["knn", "steps_ahead"]))


def test_it_is_for_sequences_and_for_networks_with_codes():
    parts = [load("shapes", n=20, split=split) for split in ("train", "test")]
    task = make_task(*parts, limit=None, device="cpu")
    with pytest.raises(DataError, match="is for sequence data, but a sample of shapes"):
        evaluate_encoders(
            task, {"raw pixels": None}, plan=plan_protocols("steps_ahead")
        )
    parts = [load("latent_walk", n=20, split=split) for split in ("train", "test")]
    task = make_task(*parts, limit=None, device="cpu")
    plain = Encoder(torch.nn.Flatten(), input_shape=(4, 128))
    plan = plan_protocols("steps_ahead")
    assert evaluate_encoders(task, {"trained encoder": plain}, plan=plan) == []
    plan = plan_protocols("steps_ahead", settings={"steps_ahead": {"steps": 16}})
    with pytest.raises(
        SettingError, match="needs windows of 17 or more: these have 16"
    ):
        evaluate_encoders(task, {"trained encoder": make_encoder()}, plan=plan)


def test_no_encoder_passes_the_truth_of_the_walk():
    """The best there is: beliefs as contexts, the states' evidence as codes."""
    from invariance.data import filter_states

    truth = information_ahead(2, n=2000)

    def parts(n, seed):
        windows, _ = latent_walk(n, seed=seed)
        start = 128 - 2 * 8
        beliefs = filter_states(windows[..., :start])[:, -1]
        # what a patch says of the state: beliefs from that patch alone
        codes = [
            filter_states(windows[..., start + 8 * k :][..., :8]).mean(1)
            for k in range(2)
        ]
        return (beliefs + 1e-3).log().float(), torch.stack(codes, 1).float()

    scores = steps_ahead(parts(3000, 5), parts(1000, 6))
    for score, (nats, error) in zip(scores, truth, strict=True):
        assert 0.3 * nats < score.value < nats + 3 * error + 0.05
