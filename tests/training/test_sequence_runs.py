"""Runs on sequences: they learn, survive a kill, and pass every door."""

import json
import math

import numpy as np
import pytest
import soundfile
import torch

import invariance as inv
from invariance.errors import DataError, SettingError, ShapeError
from invariance.training import Train, make_plan, train


@pytest.fixture
def audio(tmp_path):
    """Twenty recordings of two classes, low and high tones in noise."""
    dice = np.random.default_rng(0)
    for k in range(20):
        name = ("low", "high")[k % 2]
        t = np.arange(2000 + 100 * k) / 8000
        tone = np.sin(2 * np.pi * (200, 900)[k % 2] * t) + 0.3 * dice.normal(
            size=t.size
        )
        path = tmp_path / "audio" / name / f"{k}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, 0.2 * tone, 8000)
    return tmp_path / "audio"


@pytest.fixture
def series(tmp_path):
    """Thirty series of three channels on scales of their own."""
    dice = np.random.default_rng(0)
    values = dice.normal(size=(30, 96, 3)).cumsum(1) * [1e-6, 1.0, 1e4] + [0, 5, -1e4]
    np.save(tmp_path / "series.npy", values)
    return tmp_path / "series.npy"


def settings(data, tmp_path, **changes):
    usual = {
        "method": "cpc",
        "epochs": 2,
        "batch_size": 4,
        "options": {"steps": 3},
        "log_every": 1,
        "quiet": True,
        "evaluate": False,
        "out": str(tmp_path / "runs"),
    }
    return Train(data=str(data), **usual | changes)


def test_it_learns_the_hidden_state(tmp_path):
    run = train(
        settings(
            *("latent_walk", tmp_path),
            options={},
            epochs=3,
            batch_size=32,
            limit=1000,
            log_every=10,
        )
    )
    scores = inv.evaluate(
        run.folder,
        protocols=["linear", "steps_ahead"],
        settings={"steps_ahead": {"steps": 3}},
        quiet=True,
    )
    plain, untrained, trained = (
        scores.values("linear", features)[0]
        for features in (
            "values and statistics",
            "untrained encoder",
            "trained encoder",
        )
    )
    assert trained > 0.5 and trained > untrained + 0.15 and trained > plain + 0.3
    nats = scores.values("steps_ahead")
    truth = inv.data.information_ahead(3, n=2000)
    assert nats[0] > 0.25 and nats[1] > 0.15
    assert all(ours < most + 0.05 for ours, (most, _) in zip(nats, truth, strict=True))
    assert abs(scores.values("steps_ahead", "untrained encoder")[0]) < 0.05


def test_killed_and_resumed_it_is_the_run_that_was_not(audio, survive_a_kill):
    survive_a_kill(
        *("audio", "--method", "cpc", "--window", "800", "--batch-size", "8"),
        *("--epochs", "2", "--options", "steps", "2", "--no-evaluate"),
        *("--machine.device", "cpu"),
        step=5,
    )


def test_a_run_on_audio_from_dry_run_to_report(audio, tmp_path, capsys):
    how = {"window": 800, "options": {"steps": 2}, "batch_size": 16, "epochs": 1}
    asked = settings(audio, tmp_path, evaluate=True, **how)
    plan = make_plan(asked)
    assert plan.learner.encoder.name == "cpc_audio" and plan.source.shape == (1, 800)
    facts = " ".join(plan.facts())
    assert "windows of 1x800" in facts and "2 steps ahead" in facts
    assert "negatives: samples_and_times" in facts and "symmetric" not in facts
    run = train(asked)
    rows = [json.loads(x) for x in (run.folder / "evaluation.jsonl").open()]
    assert {row["protocol"] for row in rows} >= {"knn", "linear", "steps_ahead"}
    assert {row["features"] for row in rows} >= {"values and statistics"}
    page = (run.folder / "report.html").read_text()
    assert "How far ahead" in page and "patches ahead" in page
    encoder = inv.load(run.folder)
    assert encoder.kind == plan.source.kind and encoder.kind.rate == 8000
    assert encoder(torch.zeros(2, 1, 800)).shape == (2, 256)
    reading = [json.loads(x) for x in (run.folder / "metrics.jsonl").open()][-1]
    n_candidates = round(math.exp(reading["mi_ceiling"]))
    assert reading["accuracy_chance"] == pytest.approx(1 / n_candidates)
    assert n_candidates > 16
    embedded = tmp_path / "windows.parquet"
    n = inv.write_embeddings(run.folder, audio, embedded).n
    first, sheet = next(iter(sorted(audio.rglob("*.wav")))), tmp_path / "sheet.png"
    for gallery in (audio, embedded):
        found = inv.search(run.folder, gallery, str(first), k=3, sheet=sheet)
        assert f"in {n} windows" in found.lines()[0]
        assert "@" in found.neighbors[0].hits[0].name
        assert "cannot be shown" not in " ".join(found.notes)
    diagnosed = inv.diagnose(run.folder, keep=False)
    names = {reading.name for reading in diagnosed.readings}
    assert {"uniformity", "effective rank"} <= names and "information" not in names
    assert "shows each sample in only one view" in " ".join(diagnosed.notes)
    with pytest.raises(DataError, match="3 channels, and windows of 1 channel"):
        inv.embed(run.folder, np.zeros((4, 800, 3)))


def test_series_are_standardized_by_the_training_part(series, tmp_path):
    plan = make_plan(settings(series, tmp_path))
    (windows,) = plan.source.batches([torch.arange(len(plan.source))])
    first = plan.learner.encoder.network[0](windows)
    means, spreads = first.mean((0, 2)), first.std((0, 2))
    torch.testing.assert_close(means, torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(spreads, torch.ones(3), atol=1e-3, rtol=0)
    held_out = {path.partition("@")[0] for path in plan.held_out.paths}
    assert not held_out & {path.partition("@")[0] for path in plan.source.paths}


def test_without_labels_it_is_scored_by_how_far_it_predicts(series, tmp_path):
    run = train(settings(series, tmp_path, evaluate=True))
    rows = [json.loads(x) for x in (run.folder / "evaluation.jsonl").open()]
    assert {row["protocol"] for row in rows} == {"steps_ahead"}
    assert not rows[0]["settings"]["certified"]  # too few recordings
    assert "an estimate, not a bound" in (run.folder / "report.html").read_text()


def test_streamed_and_resident_runs_are_the_same(series, tmp_path, readings):
    runs = [
        train(settings(series, tmp_path, storage=storage, name=storage)).folder
        for storage in ("resident", "streamed")
    ]
    assert readings(runs[0]) == readings(runs[1])


def test_micro_batches_are_as_good_as_the_whole(series, tmp_path, readings):
    runs = [
        train(settings(series, tmp_path, micro_batch=n, name=f"m{n}")).folder
        for n in (None, 3)
    ]
    losses = [[r["loss"] for r in readings(run) if "loss" in r] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_other_methods_take_sequences_too(series, tmp_path):
    run = train(settings(series, tmp_path, method="simclr", window=96, options={}))
    assert inv.load(run.folder).name == "cpc_small"


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"options": {"steps": 12}}, ShapeError, "needs windows of 13 patches or more"),
        ({"window": 200}, DataError, "shorter than the window of 200"),
        ({"encoder": "tiny"}, SettingError, "not a network for windows"),
        ({"views": "simclr"}, SettingError, "views 'simclr' are for"),
        (
            {"image_size": 32},
            SettingError,
            "image_size is for samples of the kind image",
        ),
        ({"data": "shapes"}, DataError, "cpc learns from samples of the kind sequence"),
        (
            {"data": "shapes", "method": "simclr", "window": 9, "options": {}},
            SettingError,
            "window is for samples of the kind sequence",
        ),
    ],
)
def test_what_is_refused(series, tmp_path, changes, error, message):
    asked = settings(changes.pop("data", series), tmp_path, **changes)
    with pytest.raises(error, match=message):
        make_plan(asked)
