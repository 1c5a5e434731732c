"""Runs on tables: they learn, survive a kill, and pass every door."""

import csv
import json

import numpy as np
import pytest
import torch

import invariance as inv
from invariance.errors import DataError, SettingError
from invariance.training import Train, make_plan, train


@pytest.fixture
def table(tmp_path):
    """Some beetles as a file."""
    columns = inv.data.beetles(160)
    with (tmp_path / "beetles.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
    return tmp_path / "beetles.csv"


def settings(data, tmp_path, **changes):
    usual = {
        "method": "scarf",
        "target": "species",
        "epochs": 2,
        "batch_size": 32,
        "log_every": 1,
        "quiet": True,
        "evaluate": False,
        "out": str(tmp_path / "runs"),
    }
    return Train(data=str(data), **usual | changes)


def test_it_learns_the_species(tmp_path):
    how = {"target": None, "epochs": 12, "batch_size": 128, "log_every": 0}
    run = train(settings("beetles", tmp_path, limit=2000, **how))
    scores = inv.evaluate(run.folder, protocols=["knn", "retrieval"], quiet=True)
    names = ("raw columns", "untrained encoder", "trained encoder")
    raw, untrained, trained = (
        scores.values("retrieval", name, metric="map")[0] for name in names
    )
    assert trained > untrained + 0.25 and trained > raw + 0.25
    knn = [scores.values("knn", name)[0] for name in names[1:]]
    assert knn[1] > knn[0] + 0.07


def test_killed_and_resumed_it_is_the_run_that_was_not(table, survive_a_kill):
    survive_a_kill(
        *(str(table), "--target", "species", "--method", "scarf", "--epochs", "3"),
        *("--batch-size", "32", "--no-evaluate", "--machine.device", "cpu"),
        step=5,
    )


def test_a_table_from_dry_run_to_report(table, tmp_path, capsys):
    asked = settings(table, tmp_path, evaluate=True)
    plan = make_plan(asked)
    facts = " ".join(plan.facts())
    assert "rows of 27 columns" in facts and "Classes are from 'species'" in facts
    assert plan.learner.encoder.name == "mlp" and plan.recipe == "scarf"
    run = train(asked)
    rows = [json.loads(x) for x in (run.folder / "evaluation.jsonl").open()]
    assert {row["features"] for row in rows} >= {"raw columns", "trained encoder"}
    assert (run.folder / "report.html").read_text().count("habitat forest") > 10

    encoder = inv.load(run.folder)
    assert encoder.kind == plan.source.kind and encoder.kind.target == "species"
    columns = inv.data.beetles(30, seed=5)
    shuffled = dict(reversed(columns.items()))
    features = inv.embed(run.folder, columns).features
    np.testing.assert_array_equal(inv.embed(run.folder, shuffled).features, features)
    del shuffled["species"]  # which nobody needs
    np.testing.assert_array_equal(inv.embed(run.folder, shuffled).features, features)

    first = {name: cells[0] for name, cells in columns.items()}
    found = inv.search(run.folder, columns, first, k=3, sheet=tmp_path / "near.png")
    assert found.neighbors[0].hits[0].name == "0"
    text = json.dumps(first)
    assert inv.search(run.folder, columns, text, k=1).neighbors[0].hits[0].name == "0"

    strange = json.dumps(first | {"habitat": "moon"})
    result = inv.search(run.folder, columns, strange, k=1)
    assert "that the training rows did not have: habitat 'moon', in the" in str(result)
    assert "did not have" not in str(found)

    for to in ("pt2", "onnx", "safetensors"):
        file = inv.export(run.folder, to, tmp_path / f"beetles.{to}")
        assert "encoder(images)" not in file.usage and "samples" in file.usage
    assert "encoder.kind.read makes one of a row" in file.usage
    with pytest.raises(SettingError, match=r"safetensors, pt2 or onnx\.$"):
        inv.export(run.folder, "timm", tmp_path / "beetles.timm.safetensors")
    batch = torch.stack([encoder.kind.read(first)] * 3)
    program = torch.export.load(tmp_path / "beetles.pt2").module()
    with torch.no_grad():
        torch.testing.assert_close(program(batch), encoder(batch))


def test_a_target_of_numbers_from_training_to_report(table, tmp_path):
    run = train(settings(table, tmp_path, evaluate=True, target="hour"))
    rows = [json.loads(x) for x in (run.folder / "evaluation.jsonl").open()]
    assert {row["protocol"] for row in rows} == {"ridge", "knn_regression"}
    assert {row["metric"] for row in rows} == {"r2", "mae"}
    features = ("raw columns", "untrained encoder", "trained encoder")
    assert list(dict.fromkeys(row["features"] for row in rows)) == [*features]
    scores = inv.evaluate(run.folder, quiet=True)
    for name in features:
        assert (
            scores.values("ridge", name)
            == [row["value"] for row in rows if row["features"] == name][:1]
        )
    assert "R² is 1 for perfect predictions and 0 for guessing the mean" in str(scores)
    page = (run.folder / "report.html").read_text()
    assert "Ridge regression" in page and "mean absolute error" in page
    assert "hour" not in [column.name for column in inv.load(run).kind.columns]
    with pytest.raises(DataError, match="have none: use ridge or knn_regression"):
        inv.evaluate(run.folder, protocols=["linear"], quiet=True)
    with pytest.raises(DataError, match="supervised twin learns classes"):
        inv.evaluate(run.folder, supervised=True, quiet=True)


@pytest.mark.parametrize("views", ["noise", "uniform_noise", "hide_columns"])
def test_stopping_changes_nothing(table, tmp_path, views, stopped_after, readings):
    asked = settings(table, tmp_path, views=views, method="simclr")
    whole = train(asked)
    folder = stopped_after(3, asked)
    train(Train(resume=str(folder), quiet=True))
    assert readings(folder) == readings(whole.folder)


def test_an_encoder_lays_out_what_its_kind_says(table, tmp_path):
    plan = make_plan(settings(table, tmp_path))
    (batch,) = plan.source.batches([torch.arange(len(plan.source))])
    assert batch.isnan().any()
    first = plan.learner.encoder.network[0]
    torch.testing.assert_close(first(batch), plan.source.kind.plain(batch))


def test_a_network_of_ones_own_is_given_rows_laid_out(table, tmp_path):
    source = inv.data.load(table, target="species")
    width = source.kind.plain(next(iter(source.batches([torch.arange(2)])))).shape[1]
    asked = settings(table, tmp_path, epochs=1)
    mine = torch.nn.Sequential(torch.nn.Linear(width, 7), torch.nn.ReLU())
    run = train(asked, encoder=mine)
    again = torch.nn.Sequential(torch.nn.Linear(width, 7), torch.nn.ReLU())
    encoder = inv.load(run.folder, network=again)
    (batch,) = source.batches([torch.arange(4)])
    assert encoder(batch).isfinite().all() and encoder.width == 7


def test_streamed_and_resident_runs_are_the_same(table, tmp_path, readings):
    runs = [
        train(settings(table, tmp_path, storage=storage, name=storage)).folder
        for storage in ("resident", "streamed")
    ]
    assert readings(runs[0]) == readings(runs[1])


@pytest.mark.parametrize("views", ["noise", "uniform_noise", "hide_columns", "same"])
def test_other_views_of_rows(table, tmp_path, views):
    run = train(settings(table, tmp_path, method="simclr", views=views, epochs=1))
    assert inv.load(run.folder).width == 256


def test_arrays_may_be_learned_from_with_scarf_too(tmp_path):
    rows = np.random.default_rng(0).normal(size=(80, 5)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    asked = settings(tmp_path / "rows.npy", tmp_path, target=None)
    plan = make_plan(asked)
    assert plan.source.kind.name == "vector" and plan.recipe == "scarf"


def test_points_are_seen_in_two_dimensions(tmp_path):
    how = {"target": None, "encoder": "mlp-16-16-2", "head": "none", "epochs": 1}
    how |= {"method": "ir", "views": "uniform_noise", "options": {"noise_width": 0.3}}
    run = train(settings("double_spiral", tmp_path, limit=256, **how))
    encoder = inv.load(run.folder)
    assert encoder.name == "mlp-16-16-2" and encoder.width == 2
    assert (encoder(inv.data.double_spiral(50)[0]) < 0).any()  # no ReLU at its end


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"data": "shapes", "target": None}, DataError, "scarf learns from samples of"),
        ({"views": "simclr"}, SettingError, "views 'simclr' are for"),
        ({"encoder": "tiny"}, SettingError, "not a network for rows"),
        ({"encoder": "mlp-0-2"}, SettingError, "layers of an mlp are 1 to"),
        ({"columns": ("color",)}, SettingError, "scarf redraws some columns"),
        ({"options": {"redrawn_share": 1.0}}, SettingError, "share is the part of a"),
        ({"columns": ("color", "species")}, SettingError, "'species' is the target"),
    ],
)
def test_what_is_refused(table, tmp_path, changes, error, message):
    asked = settings(changes.pop("data", table), tmp_path, **changes)
    with pytest.raises(error, match=message):
        make_plan(asked)
