"""Run folders of earlier versions still open, and still say what they said.

``tests/old_runs`` holds folders written by 0.1.0 before the run folder got a room of
its own; ``tests/old_runs/make.py`` says how they were made.
"""

import json

import pytest
import torch
from tests.old_runs import folders
from tests.old_runs.folders import FINISHED, INTERRUPTED

import invariance as inv
from invariance.cli import main

EXPECTED = json.loads((folders.HERE / "expected.json").read_text(encoding="utf-8"))


def close(values, tolerance=1e-4):
    """Kernels of another processor add in another order."""
    return pytest.approx(values, rel=tolerance, abs=tolerance)


def assert_features(folder, expected):
    torch.testing.assert_close(
        torch.tensor(folders.features(folder)),
        torch.tensor(expected),
        rtol=1e-3,
        atol=1e-4,
    )


@pytest.fixture
def old_run(tmp_path):
    return lambda name: folders.unpack(name, tmp_path / "runs")


@pytest.mark.parametrize("name", [*FINISHED, *INTERRUPTED])
def test_it_opens_and_gives_the_same_features(old_run, name):
    assert_features(old_run(name), EXPECTED[name]["features"])


@pytest.mark.parametrize("name", FINISHED)
def test_it_evaluates_to_the_same_score(old_run, name):
    folder = old_run(name)
    before = (folder / "evaluation.jsonl").read_text().splitlines()
    # one picture of the 1,000 may fall on the other side of a tie
    assert folders.knn(folder) == pytest.approx(EXPECTED[name]["knn"], abs=0.0011)
    after = (folder / "evaluation.jsonl").read_text().splitlines()
    assert len(after) > len(before)  # 128 rows are another question than all of them


@pytest.mark.parametrize("name", FINISHED)
def test_it_is_diagnosed_as_before(old_run, name):
    assert folders.readings(old_run(name)) == close(EXPECTED[name]["readings"], 1e-3)


@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupted_run_goes_on_as_it_would_have(old_run, name):
    folder = old_run(name)
    rows = folders.metrics(folder)
    folders.resume(folder)
    resumed = folders.metrics(folder)
    assert resumed[: len(rows)] == rows
    assert [row["loss"] for row in resumed] == close(EXPECTED[name]["losses"], 2e-3)
    assert (folder / "encoder.safetensors").exists()


def test_an_interrupted_run_goes_on_from_the_command_line(old_run, capsys):
    folder = old_run("tiny-stopped")
    assert main(["train", "--resume", str(folder), "--quiet"]) == 0
    losses = [row["loss"] for row in folders.metrics(folder)]
    assert losses == close(EXPECTED["tiny-stopped"]["losses"], 2e-3)


@pytest.mark.parametrize("name", [*FINISHED, *INTERRUPTED])
def test_its_report_is_written(old_run, name):
    folder = old_run(name)
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    method = "simclr" if name.startswith("tiny") else name
    assert method in page
    for metric in ("loss", "uniformity"):
        assert metric in page


def test_the_report_shows_old_scores_and_pictures(old_run):
    folder = old_run("tiny")
    main(["report", str(folder)])
    page = (folder / "report.html").read_text(encoding="utf-8")
    rows = [
        json.loads(r)
        for r in (folder / "evaluation.jsonl").read_text().split("\n")
        if r
    ]
    trained = {
        r["protocol"]: r["value"] for r in rows if r["features"] == "trained encoder"
    }
    for protocol in ("knn", "linear"):
        assert f"{100 * trained[protocol]:.1f}" in page
    assert "data:image/jpeg;base64" in page


def test_two_old_runs_are_compared(old_run, tmp_path):
    runs = [str(old_run(name)) for name in ("simclr", "ball")]
    page = tmp_path / "both.html"
    assert main(["report", *runs, "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "simclr" in text and "ball" in text


def test_old_runs_are_listed_and_chosen_by_settings(old_run, tmp_path, capsys):
    for name in (*FINISHED, *INTERRUPTED):
        old_run(name)
    out = str(tmp_path / "runs")
    assert main(["list", "runs", "--out", out]) == 0
    listed = capsys.readouterr().out
    assert all(f"runs/{name} " in listed for name in (*FINISHED, *INTERRUPTED))
    assert main(["list", "runs", "options.k == 0.1", "--out", out]) == 0
    firsts = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert firsts == ["run", f"{out}/ball"]


def test_pictures_are_embedded_by_an_old_run(old_run):
    pixels = (255 * folders.pictures()).round().byte().permute(0, 2, 3, 1).numpy()
    rows = inv.embed(old_run("tiny"), pixels, device="cpu").features
    assert rows.shape == (4, 256)
    expected = torch.tensor(EXPECTED["tiny"]["features"])
    torch.testing.assert_close(rows[:, :6], expected, rtol=0.02, atol=0.01)


def test_an_old_run_is_where_a_new_one_starts(old_run, tmp_path):
    settings = inv.Train(
        start_from=str(old_run("tiny")),
        encoder="tiny",
        limit=64,
        epochs=1,
        batch_size=32,
        evaluate=False,
        knn_every=0,
        quiet=True,
        out=str(tmp_path / "new"),
        machine=inv.Machine(device="cpu"),
    )
    assert inv.train(settings).metrics[-1]["loss"] > 0
