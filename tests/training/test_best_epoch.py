"""The best epoch: chosen on training images, kept whole, the same after a resume."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import invariance as inv
from invariance.encoders import read_encoder as read
from invariance.errors import DataError
from invariance.training import Train, make_plan, train

# the monitor is asked between epochs, which no public name lets one do
from invariance.training._monitor import Monitor, held_out_knn, split_rows


def scripted(monkeypatch, accuracies):
    """Readings of one's choice, in this order."""
    readings = iter(accuracies)
    name = "invariance.training._monitor.held_out_knn"
    monkeypatch.setattr(name, lambda *_: next(readings))


def test_the_best_of_several_epochs_is_kept(small, pictures, monkeypatch):
    scripted(monkeypatch, [0.2, 0.9, 0.5])
    settings = small(epochs=3, knn_every=1, evaluate=True)
    run = train(settings, data=pictures)
    said, weights = read(run.folder / "encoder-best.safetensors")
    assert (said["epoch"], said["knn"]) == (2, 0.9)
    final = load_file(run.folder / "encoder.safetensors")
    assert any(not torch.equal(final[k], v) for k, v in weights.items())
    best = [row for row in run.evaluation.rows if row["features"] == "best epoch"]
    assert best and {row["epoch"] for row in best} == {2}
    encoder = run.encoder(best=True)
    assert all(torch.equal(weights[k], v) for k, v in encoder.state_dict().items())
    log = (run.folder / "train.log").read_text()
    assert "best epoch (2)" in log and "Best epoch: 2, by kNN on training" in log


def test_of_equals_the_later_is_kept_and_the_last_is_said(small, pictures, monkeypatch):
    scripted(monkeypatch, [0.7, 0.7])
    run = train(small(knn_every=1, evaluate=True), data=pictures)
    final, best = (
        load_file(run.folder / name)
        for name in ("encoder.safetensors", "encoder-best.safetensors")
    )
    assert all(torch.equal(final[k], best[k]) for k in final)
    scores = run.evaluation
    assert scores.values("linear", "best epoch") == scores.values("linear")
    assert {r["epoch"] for r in scores.rows if r["features"] == "best epoch"} == {2}


@pytest.mark.parametrize("stop", [2, 5, 9])
def test_a_resumed_run_keeps_the_same_best(small, pictures, stopped_after, stop):
    settings = small(epochs=3, knn_every=1)
    whole = train(settings, data=pictures).folder
    folder = stopped_after(stop, settings, data=pictures)
    train(Train(resume=str(folder), quiet=True), data=pictures)
    ours, theirs = (read(f / "encoder-best.safetensors") for f in (folder, whole))
    assert ours[0] == theirs[0]
    assert all(torch.equal(ours[1][k], theirs[1][k]) for k in theirs[1])


def test_a_best_whose_file_is_lost_is_chosen_again(
    small, pictures, stopped_after, monkeypatch
):
    settings = small(epochs=3, knn_every=1)
    scripted(monkeypatch, [0.9, 0.1, 0.2])
    folder = stopped_after(5, settings, data=pictures)
    (folder / "encoder-best.safetensors").unlink()
    train(Train(resume=str(folder), quiet=True), data=pictures)
    assert read(folder / "encoder-best.safetensors")[0]["epoch"] == 3


def test_test_images_do_not_matter(small, pictures):
    """Other labels in the test part leave every reading of the monitor as it is."""
    images, labels = pictures
    plan = make_plan(small(), data=pictures)
    assert plan.held_out is not None
    held = {image.numpy().tobytes() for image in plan.held_out.samples}
    other = np.array(
        [
            3 - label if image.transpose(2, 0, 1).tobytes() in held else label
            for image, label in zip(images, labels, strict=True)
        ]
    )
    assert (other != labels).sum() == len(held) == 6
    runs = [
        train(small(knn_every=1), data=(images, wrong)) for wrong in (labels, other)
    ]
    a, b = ([m.get("knn") for m in run.metrics] for run in runs)
    assert a == b and any(value is not None for value in a)


def test_voters_are_not_asked():
    voters, asked = split_rows(torch.arange(100, 400, 3))
    assert set(voters.tolist()) | set(asked.tolist()) == set(range(100, 400, 3))
    assert not set(voters.tolist()) & set(asked.tolist())


def test_without_labels_or_readings_there_is_no_best(small, pictures):
    plan = make_plan(small(), data=pictures[0])
    assert held_out_knn(plan.source, plan.untrained, "cpu") is None
    run = train(small(knn_every=0), data=pictures)
    with pytest.raises(DataError, match="no run or encoder file"):
        run.encoder(best=True)
    with pytest.raises(DataError, match="no run or encoder file"):
        inv.load(run.folder / "encoder-best.safetensors")


def test_nothing_is_kept_where_nothing_was_read(small, pictures, tmp_path):
    monitor = Monitor(make_plan(small(), data=pictures[0]), tmp_path, "cpu")
    assert monitor.look(monitor.plan.untrained, 1) is None
    assert monitor.encoder() is None and monitor.state_dict() is None


def test_looking_changes_nothing_of_what_is_learned(small, pictures):
    looked, blind = (
        train(small(knn_every=every), data=pictures).folder for every in (1, 0)
    )
    ours, theirs = (load_file(f / "encoder.safetensors") for f in (looked, blind))
    assert all(torch.equal(ours[k], theirs[k]) for k in theirs)
