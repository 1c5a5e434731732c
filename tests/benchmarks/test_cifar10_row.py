"""One configuration, one row: the split, the row's content, and what is refused."""

import json
import tarfile

import pytest
import torch

import cifar10

QUICK = ("--encoder", "tiny", "--epochs", "2", "--batch-size", "16", "--hidden", "16")


def test_a_row_says_everything(folder, tmp_path, capsys):
    lines = tmp_path / "rows.jsonl"
    words = [str(folder), "--lines", str(lines), "--every", "1", "--test", *QUICK]
    assert cifar10.main([*words, "--seed", "3", "--method", "dcl"]) == 0
    (row,) = [json.loads(line) for line in lines.read_text().splitlines()]
    assert row["seed"] == 3 and row["settings"]["method"] == "dcl"
    assert row["settings"]["optim.lr_scaling"] and row["settings"]["batch_size"] == 16
    assert row["n_train"] == 72 and row["held_out"]["n"] == 8 and row["test"]["n"] == 20
    assert row["seconds"].keys() == {
        "loading",
        "preparing",
        "training",
        "curve",
        "evaluation",
    }
    assert min(row["seconds"].values()) > 0 and row["images_per_second"] > 0
    assert row["test"]["linear"] > 90  # dark or light
    assert [point["epoch"] for point in row["curve"]] == [1, 2]
    for point in row["curve"]:
        assert point.keys() >= {"knn", "pool_nats", "sharp_nats", "batch_nats", "ess"}
    assert row["commit"] and row["versions"]["torch"] == torch.__version__.split("+")[0]
    assert "kNN" in capsys.readouterr().out


def test_the_test_set_is_left_alone_unless_asked_for(folder, tmp_path):
    parts = cifar10.load_parts(folder)
    assert parts.test is None and len(parts.train) == 72
    assert parts.held_out.labels.bincount().tolist() == [4, 4]
    pixels = {image.numpy().tobytes() for image in parts.train.samples}
    assert not any(x.numpy().tobytes() in pixels for x in parts.held_out.samples)


def test_an_archive_is_unpacked_once(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(cifar10.tempfile, "gettempdir", lambda: str(tmp_path))
    with tarfile.open(tmp_path / "set.tar.xz", "w:xz") as archive:
        for part in ("train", "test"):
            archive.add(folder / part, part)
    place = cifar10.find_folder(tmp_path / "set.tar.xz")
    assert len(list(place.rglob("*.png"))) == 100
    (place / "mark").touch()
    assert cifar10.find_folder(tmp_path / "set.tar.xz") == place
    assert (place / "mark").exists()


@pytest.mark.parametrize(
    "words, message",
    [
        (["--hold-out", "0"], "Nothing would be scored: hold images out, or --test."),
        (["--hold-out", "1"], "hold_out is a share from 0 to below 1: got 1.0."),
        (["--method", "symclr"], "Did you mean 'simclr'?"),
    ],
)
def test_what_cannot_work_is_said(folder, words, message, capsys):
    assert cifar10.main([str(folder), *QUICK, *words]) == 2
    assert message in capsys.readouterr().err


def test_information_of_batches_and_of_the_pool():
    z = torch.eye(64)
    readings = cifar10.read_information(z, z, 0.05, 8)
    assert readings["batch_nats"] == pytest.approx(torch.tensor(8.0).log().item())
    assert readings["pool_nats"] == pytest.approx(torch.tensor(64.0).log().item())
    assert readings["sharp_nats"] == pytest.approx(torch.tensor(32.0).log().item())
