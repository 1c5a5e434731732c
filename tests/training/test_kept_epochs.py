"""Epochs kept for good, and what training did as they show it."""

import json

import numpy as np
import pytest
import torch

import invariance as inv
from invariance.cli import main
from invariance.errors import DataError, SettingError
from invariance.runs import render_kept
from invariance.training import Train, train

KEPT = [0, 2, 4, 5]


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory, pictures):
    """Five epochs, every second one kept; not to be written to."""
    folder = tmp_path_factory.mktemp("kept")
    images, labels = pictures
    np.savez(folder / "pictures.npz", images=images, labels=labels)
    settings = Train(
        data=str(folder / "pictures.npz"),
        epochs=5,
        keep_every=2,
        batch_size=16,
        hidden=16,
        width=8,
        knn_every=0,
        evaluate=False,
        quiet=True,
        out=str(folder / "runs"),
    )
    return train(settings)


def weights(encoder):
    return torch.cat([p.detach().flatten() for p in encoder.parameters()])


def test_the_first_every_so_many_and_the_last_are_kept(kept_run):
    folder = kept_run.folder
    paths = inv.list_kept(folder)
    assert list(paths) == KEPT
    encoders = {epoch: inv.load(folder, epoch=epoch) for epoch in KEPT}
    assert torch.equal(weights(encoders[5]), weights(kept_run.encoder()))
    assert not torch.equal(weights(encoders[0]), weights(encoders[2]))
    by_file = inv.load(paths[2])
    assert torch.equal(weights(by_file), weights(encoders[2]))


def test_nothing_is_kept_unless_asked_for(small, pictures):
    folder = train(small(), data=pictures).folder
    assert inv.list_kept(folder) == {} and not (folder / "kept").exists()
    with pytest.raises(DataError, match=r"has kept no epochs.*--keep-every N"):
        inv.diagnose_kept(folder)
    with pytest.raises(DataError, match="has not kept epoch 1: it has none"):
        inv.load(folder, epoch=1)


@pytest.mark.parametrize("stop", [1, 6])
def test_a_resumed_run_keeps_the_same(small, pictures, stopped_after, stop):
    settings = small(epochs=3, keep_every=1)
    whole = train(settings, data=pictures).folder
    folder = stopped_after(stop, settings, data=pictures)
    train(Train(resume=str(folder), quiet=True), data=pictures)
    ours, theirs = inv.list_kept(folder), inv.list_kept(whole)
    assert list(ours) == list(theirs) == [0, 1, 2, 3]
    for epoch in ours:
        a, b = (torch.load(paths[epoch]) for paths in (ours, theirs))
        assert a["step"] == b["step"] == 4 * epoch
        assert all(torch.equal(a["learner"][k], v) for k, v in b["learner"].items())


def test_keeping_changes_no_step(small, pictures):
    plain, kept = (
        train(small(keep_every=every), data=pictures).folder for every in (0, 1)
    )
    a, b = (inv.load(folder) for folder in (plain, kept))
    assert torch.equal(weights(a), weights(b))


def test_information_and_accuracy_are_read_over_training(kept_run, capsys):
    rows = inv.diagnose_kept(kept_run.folder)
    assert [row["epoch"] for row in rows] == KEPT
    assert [row["step"] for row in rows] == [4 * epoch for epoch in KEPT]
    for row in rows:
        assert row["of"] == "z" and row["batch_size"] == 16 and row["n_pool"] == 64
        assert row["batch_nats"] <= torch.tensor(16.0).log() + 1e-6
        assert row["pool_nats"] <= torch.tensor(64.0).log() + 1e-6
        assert 0 <= row["knn"] <= 1 and 0 <= row["linear"] <= 1
        assert 0 < row["ess"] <= 1 and row["uniformity"] <= 0
    assert rows[-1]["pool_nats"] > rows[0]["pool_nats"]  # it has learned
    # the last epoch reads as the finished run does
    read = inv.diagnose(kept_run.folder, keep=False)
    assert rows[-1]["pool_nats"] == read["information, pool of 64", "z"].value
    lines = (kept_run.folder / "kept.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    table = render_kept(rows)
    assert max(map(len, table)) <= 80 and table[1].startswith("epoch   nats   nats")
    assert len(table) == 2 + len(rows)
    assert main(["diagnose", str(kept_run.folder), "--kept", "--json"]) == 0
    assert [json.loads(x) for x in capsys.readouterr().out.splitlines()] == rows
    assert main(["report", str(kept_run.folder)]) == 0
    page = (kept_run.folder / "report.html").read_text()
    assert "Information of kept epochs" in page and "Accuracy of kept epochs" in page


def test_a_batch_size_is_proposed_from_noise_and_cost(kept_run, capsys):
    early, late = (inv.propose_batch_size(kept_run.folder, epoch=e) for e in (0, None))
    assert capsys.readouterr().out == ""  # the dry runs are not shown
    for proposal in (early, late):
        assert 2 <= proposal.batch_size <= 64 and proposal.noise_batch > 0
        assert proposal.fixed_seconds >= 0 and proposal.partition_error >= 0
        assert f"Batches of {proposal.batch_size}:" in str(proposal)
    assert early.noise_batch != late.noise_batch
    with pytest.raises(DataError, match="not kept epoch 3"):
        inv.propose_batch_size(kept_run.folder, epoch=3)


def test_a_table_to_read(kept_run, capsys):
    assert main(["diagnose", str(kept_run.folder), "--kept", "--pool", "40"]) == 0
    shown = capsys.readouterr().out
    assert "pool" in shown and "linear" in shown and "kept.jsonl" in shown


def test_samples_without_labels_are_read_without_scores(small):
    rows = np.random.default_rng(0).normal(size=(72, 6)).astype(np.float32)
    run = train(small(encoder="mlp", keep_every=1, epochs=1), data=rows)
    read = inv.diagnose_kept(run, data=rows)
    assert [row["epoch"] for row in read] == [0, 1]
    assert "pool_nats" in read[0] and "knn" not in read[0]
    with pytest.raises(SettingError, match="Unknown protocol 'nearest'"):
        inv.diagnose_kept(run, data=rows, protocols=["nearest"])


def test_what_is_wrong_is_said(kept_run, tmp_path):
    with pytest.raises(DataError, match="not kept epoch 3: it has 0, 2, 4, 5"):
        inv.load(kept_run.folder, epoch=3)
    with pytest.raises(SettingError, match="that a run folder has kept: got"):
        inv.load(kept_run.folder / "encoder.safetensors", epoch=2)
    broken = tmp_path / "epoch-00001.pt"
    broken.write_bytes(b"no numbers")
    with pytest.raises(DataError, match="is damaged, or no state of a learner"):
        inv.load(broken)
    with pytest.raises(SettingError, match="keep_every must be at least 0: got -1"):
        train(Train(keep_every=-1))
