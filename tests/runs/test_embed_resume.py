"""Killed at any moment and started again: the same file, row for row."""

import json
import multiprocessing
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import invariance as inv
from invariance.cli import main
from invariance.errors import DataError

# to fall over at a chosen moment
from invariance.runs import _embed, _embed_job
from invariance.runs._embed_job import Job


@pytest.fixture
def stretches(monkeypatch):
    """A stretch of work is one batch, so that there are many."""
    monkeypatch.setattr(_embed, "STRETCH_BYTES", 1)


@pytest.fixture
def interrupted(monkeypatch, stretches):
    """Embed until so many batches are kept, then fall over."""

    class PowerCut(BaseException):
        pass

    def run(n, *words, **how):
        kept = []
        add = Job.add

        def add_some(self, parts):
            if len(kept) == n:
                raise PowerCut
            kept.append(add(self, parts))

        with monkeypatch.context() as patch, pytest.raises(PowerCut):
            patch.setattr(Job, "add", add_some)
            inv.write_embeddings(*words, batch_size=4, **how)

    return run


def same(a, b):
    a, b = inv.read_embeddings(a), inv.read_embeddings(b)
    return a.names == b.names and torch.equal(a.features, b.features)


def test_killed_again_and_again(run, stretches, tmp_path, monkeypatch, capsys):
    """With SIGKILL, in forked processes, at random moments of the command's work."""
    dice = np.random.default_rng(1)
    images = dice.integers(0, 255, (3000, 24, 24, 3), dtype=np.uint8)
    np.save(tmp_path / "big.npy", images)
    monkeypatch.chdir(tmp_path)
    words = ["embed", str(run), "big.npy", "-o", "killed.npz", "--batch-size", "16"]
    moments, folder = random.Random(0), tmp_path / "killed.npz.part"
    for _ in range(2):
        enough = len(list(folder.glob("rows-*"))) + moments.randrange(1, 50)
        process = multiprocessing.get_context("fork").Process(
            target=main, args=(words,)
        )
        process.start()
        while process.is_alive() and len(list(folder.glob("rows-*"))) < enough:
            time.sleep(0.002)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    assert main(words) == 0
    said = capsys.readouterr()
    assert "continuing after" in said.err
    assert "3,000 rows of 256 features" in said.out
    whole = inv.write_embeddings(run, "big.npy", tmp_path / "whole.npz", batch_size=16)
    assert same(tmp_path / "killed.npz", whole.path)
    assert not folder.exists()


@pytest.mark.parametrize("ending", [".npz", ".parquet", ".csv"])
def test_only_what_is_missing_is_computed(ending, interrupted, run, photos, tmp_path):
    out = tmp_path / f"out{ending}"
    interrupted(3, run, photos, out)
    assert not out.exists()
    done = inv.write_embeddings(run, photos, out, batch_size=4)
    assert done.n_new == 21 - 12 and done.n == 20
    assert set(done.unreadable) == {"cat/cut.png", "dog/empty.png", "dog/words.jpg"}
    whole = inv.write_embeddings(run, photos, tmp_path / f"w{ending}", batch_size=4)
    assert same(out, whole.path)


def test_a_polite_interrupt_loses_nothing(run, pixels, tmp_path, monkeypatch):
    encode_all = _embed.encode_all

    def some(*words, **how):
        for k, part in enumerate(encode_all(*words, **how)):
            if k == 5:
                raise KeyboardInterrupt
            yield part

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_embed, "encode_all", some)
        inv.write_embeddings(run, pixels, tmp_path / "out.npz", batch_size=4)
    done = inv.write_embeddings(run, pixels, tmp_path / "out.npz", batch_size=4)
    assert done.n == 40 and done.n_new == 20


def test_killed_while_the_file_is_put_together(interrupted, run, pixels, tmp_path):
    out = tmp_path / "out.npz"
    interrupted(10, run, np.concatenate([pixels, pixels]), out)
    half = tmp_path / "out.npz.part" / "out.npz.part"
    half.write_bytes(b"PK half a file")
    done = inv.write_embeddings(run, np.concatenate([pixels, pixels]), out)
    assert done.n == 80 and same(out, out)


def test_killed_before_clearing_up(run, pixels, tmp_path, monkeypatch):
    out = tmp_path / "out.npz"
    with monkeypatch.context() as patch:
        patch.setattr(Job, "discard", lambda self: None)
        inv.write_embeddings(run, pixels, out)
    assert (tmp_path / "out.npz.part").exists()
    before = out.stat()
    done = inv.write_embeddings(run, pixels, out)
    assert done.n == 40 and done.n_new == 0
    assert out.stat().st_mtime_ns == before.st_mtime_ns
    assert not (tmp_path / "out.npz.part").exists()


def test_a_job_of_another_encoder_or_other_data_is_refused(
    interrupted, run, other_run, pixels, tmp_path
):
    out = tmp_path / "out.npz"
    interrupted(3, run, pixels, out)
    for words, why in (
        ((other_run, pixels), "with another encoder"),
        ((run, pixels[::-1].copy()), "other data, or the data have changed"),
    ):
        with pytest.raises(DataError, match=why):
            inv.write_embeddings(*words, out)
    with pytest.raises(DataError, match="another split"):
        inv.write_embeddings(run, pixels, out, split="train", limit=None)
    done = inv.write_embeddings(other_run, pixels, out, overwrite=True)
    assert done.n_new == 40
    found = inv.read_embeddings(out)
    assert torch.equal(found.features, inv.embed(other_run, pixels).features)


def test_a_job_that_has_done_nothing_yet_is_in_nobodys_way(
    run, pixels, tmp_path, monkeypatch
):
    out = tmp_path / "out.npz"

    def fail(*_, **__):
        raise DataError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(_embed, "encode_all", fail)
        with pytest.raises(DataError, match="no memory"):
            inv.write_embeddings(run, pixels, out)
    assert inv.write_embeddings(run, pixels, out, limit=10).n == 10
    assert not (tmp_path / "out.npz.part").exists()


def test_a_changed_file_of_a_folder_is_noticed(interrupted, run, photos, tmp_path):
    interrupted(2, run, photos, tmp_path / "out.npz")
    path = photos / "cat/0.png"
    path.write_bytes((photos / "cat/1.png").read_bytes())
    with pytest.raises(DataError, match="the data have changed"):
        inv.write_embeddings(run, photos, tmp_path / "out.npz")


def test_overwriting_is_resumed_too_and_keeps_the_old_file_till_then(
    interrupted, run, other_run, pixels, tmp_path
):
    out = tmp_path / "out.npz"
    inv.write_embeddings(other_run, pixels, out)
    old = out.read_bytes()
    interrupted(3, run, pixels, out, overwrite=True)
    assert out.read_bytes() == old
    done = inv.write_embeddings(run, pixels, out, batch_size=4)
    assert done.n_new == 28
    assert torch.equal(
        inv.read_embeddings(out).features,
        inv.embed(run, pixels, batch_size=4).features,
    )


def test_two_processes_do_not_write_one_file(interrupted, run, pixels, tmp_path):
    out = tmp_path / "out.npz"
    interrupted(2, run, pixels, out)
    held = (
        "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); "
        "lock.acquire(); print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", held, str(tmp_path / "out.npz.part" / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.readline()
        with pytest.raises(DataError, match="Another process is writing"):
            inv.write_embeddings(run, pixels, out)
        process.communicate("\n")
    assert inv.write_embeddings(run, pixels, out).n == 40


@pytest.mark.parametrize(
    "full", ["rows-000000000004-000000000008.part", "out.npz.part"]
)
def test_a_full_disk_is_said_and_work_goes_on_later(
    full, interrupted, run, pixels, tmp_path
):
    out = tmp_path / "out.npz"
    interrupted(1, run, pixels, out)
    (tmp_path / "out.npz.part" / full).symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"(disk is full|No space left).*same command"):
        inv.write_embeddings(run, pixels, out, batch_size=4)
    assert not out.exists()
    done = inv.write_embeddings(run, pixels, out, batch_size=4)
    assert done.n == 40 and done.n_new == (0 if full == "out.npz.part" else 36)


def test_a_foreign_thing_in_the_way_is_left_alone(run, pixels, tmp_path):
    (tmp_path / "out.npz.part").write_text("mine")
    with pytest.raises(DataError, match="is in the way"):
        inv.write_embeddings(run, pixels, tmp_path / "out.npz")
    assert (tmp_path / "out.npz.part").read_text() == "mine"
    folder = tmp_path / "two.npz.part"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    inv.write_embeddings(run, pixels, tmp_path / "two.npz")
    assert [p.name for p in folder.iterdir()] == ["mine.txt"]


def test_what_a_job_says_of_itself(interrupted, run, pixels, tmp_path):
    interrupted(1, run, pixels, tmp_path / "out.npz")
    said = json.loads((tmp_path / "out.npz.part" / "job.json").read_text())
    assert set(said) == {"encoder", "data", "split", "limit", "shard", "overwrite"}
    assert set(said) - {"overwrite"} <= set(_embed_job.DIFFERENCES)
