"""Checkpoints are on disk whole or not at all, and execute nothing."""

import errno
import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from invariance.errors import TrainingError
from invariance.folder import write_whole
from invariance.randomness import random_states, set_random_states
from invariance.training import newest_checkpoint as newest
from invariance.training import train

# only training writes checkpoints, so no public name does
from invariance.training._checkpoint import save


def state(step):
    return {"step": step, "weights": torch.full((1000,), float(step))}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_two_are_kept(tmp_path):
    assert newest(tmp_path) is None
    for step in (1, 2, 3):
        save(tmp_path, step, state(step))
    assert names(tmp_path) == ["step-00000002.pt", "step-00000003.pt"]
    assert newest(tmp_path)["step"] == 3


@pytest.mark.parametrize("where", ["write", "fsync", "rename"])
@pytest.mark.parametrize(
    "number, words", [(errno.ENOSPC, "the disk is full"), (errno.EIO, "output error")]
)
def test_a_failing_disk_leaves_the_last_one(
    where, number, words, tmp_path, monkeypatch
):
    folder = tmp_path / "run" / "checkpoints"
    folder.mkdir(parents=True)
    save(folder, 1, state(1))

    def fail(*_):
        raise OSError(number, os.strerror(number))

    if where == "write":
        monkeypatch.setattr(torch, "save", fail)
    elif where == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(type(folder), "replace", fail)
    with pytest.raises(TrainingError) as error:
        save(folder, 2, state(2))
    assert words in str(error.value)
    assert f"invariance train --resume {tmp_path / 'run'}" in str(error.value)
    assert names(folder) == ["step-00000001.pt"]
    assert newest(folder)["step"] == 1


@pytest.mark.parametrize("n", [10, 1_000_000])
def test_a_disk_that_is_really_full(n, tmp_path):
    """Writing through to /dev/full fails inside torch.save, or when it is flushed."""
    (tmp_path / "step-00000001.pt.part").symlink_to("/dev/full")
    with pytest.raises(TrainingError, match="the disk is full"):
        write_whole(
            tmp_path / "step-00000001.pt",
            lambda file: torch.save({"weights": torch.zeros(n)}, file),
        )
    assert names(tmp_path) == []


def test_other_errors_pass_and_leave_nothing(tmp_path):
    def fail(file):
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        write_whole(tmp_path / "x.pt", fail)
    assert names(tmp_path) == []


def test_what_a_killed_save_left_is_cleared(tmp_path):
    (tmp_path / "step-00000001.pt.part").write_bytes(b"half")
    assert newest(tmp_path) is None
    save(tmp_path, 2, state(2))
    assert names(tmp_path) == ["step-00000002.pt"]


@pytest.mark.parametrize("keep", [0, 1, 100, 2000])
def test_a_truncated_one_falls_back_to_the_one_before(keep, tmp_path):
    save(tmp_path, 1, state(1))
    path = save(tmp_path, 2, state(2))
    path.write_bytes(path.read_bytes()[:keep])
    assert newest(tmp_path)["step"] == 1


class Malicious:
    """Unpickling it would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    proof, folder = tmp_path / "executed", tmp_path / "checkpoints"
    folder.mkdir()
    torch.save({"weights": Malicious(str(proof))}, folder / "step-00000008.pt")
    with pytest.raises(TrainingError, match="None of the 1 checkpoints"):
        newest(folder)
    bare = pickle.dumps(Malicious(str(proof)), protocol=2)
    (folder / "step-00000009.pt").write_bytes(bare)
    with pytest.raises(TrainingError, match="None of the 2 checkpoints"):
        newest(folder)
    torch.save(state(7), folder / "step-00000007.pt")
    assert newest(folder)["step"] == 7 and not proof.exists()


def test_random_states_come_back(tmp_path, our_errors):
    save(tmp_path, 1, random_states())
    first = torch.rand(3), np.random.rand(3), random.random()
    set_random_states(newest(tmp_path))
    again = torch.rand(3), np.random.rand(3), random.random()
    assert torch.equal(first[0], again[0]) and first[2] == again[2]
    assert (first[1] == again[1]).all()


def test_a_full_disk_ends_a_run_in_words(small, pictures, monkeypatch):
    saved = []

    def fail_later(value, file, real=torch.save):
        saved.append(value["step"])
        if len(saved) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(value, file)

    monkeypatch.setattr(torch, "save", fail_later)
    settings = small(checkpoint_seconds=0.0, name="full")
    with pytest.raises(TrainingError, match=r"step-00000003\.pt: the disk is full"):
        train(settings, data=pictures)
    folder = Path(settings.out) / "full" / "checkpoints"
    assert names(folder) == ["step-00000001.pt", "step-00000002.pt"]
    assert newest(folder)["step"] == 2
