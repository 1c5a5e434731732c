"""Runs small enough to make dozens of them."""

import contextlib
import json
import multiprocessing
import os
import signal
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from invariance.cli import main
from invariance.folder import new_folder
from invariance.training import Stopped, Train, train


@pytest.fixture(scope="session")
def pictures():
    """64 pictures of 16 x 16 with four classes that a glance tells apart."""
    generator = np.random.default_rng(0)
    labels = np.arange(72) % 4
    images = generator.integers(0, 120, (72, 16, 16, 3), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[8 * (label // 2) :, 8 * (label % 2) :] += 100
    return images, labels


@pytest.fixture
def small(tmp_path):
    """Settings of a run of a second, with changes."""

    def make(**changes):
        settings = {
            "epochs": 2,
            "batch_size": 16,
            "hidden": 16,
            "width": 8,
            "encoder": "tiny",
            "evaluate": False,
            "knn_every": 0,
            "log_every": 1,
            "quiet": True,
            "out": str(tmp_path / "runs"),
        }
        return Train(**settings | changes)

    return make


@pytest.fixture
def stopped_after(monkeypatch):
    """Train, but be asked to stop after so many steps; gives the run's folder."""

    def run(n_steps, settings, **objects):
        calls = iter(range(1, 10_000))

        @contextlib.contextmanager
        def asked():
            yield lambda: next(calls) == n_steps

        with monkeypatch.context() as patch:
            patch.setattr("invariance.training._train.catch_signals", asked)
            folders = {}
            patch.setattr(
                "invariance.training._train.new_folder",
                lambda *a: folders.setdefault("run", new_folder(*a)),
            )
            with pytest.raises(Stopped):
                train(settings, **objects)
        return folders["run"] if folders else None

    return run


@pytest.fixture(scope="session")
def readings():
    """Every reading of a run but the clock's, as written."""

    def read(folder):
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        return [
            {k: v for k, v in r.items() if not k.startswith("time/")} for r in records
        ]

    return read


@pytest.fixture(scope="session")
def newest():
    """The state of the newest checkpoint of a run."""

    def load(folder):
        path = sorted((folder / "checkpoints").glob("step-*.pt"))[-1]
        return torch.load(path, weights_only=True)

    return load


@pytest.fixture(scope="session")
def one_thread():
    """The environment of a subprocess that takes one core."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


@pytest.fixture
def survive_a_kill(tmp_path, monkeypatch, readings):
    """A command of training, killed and resumed, says what it says when it is not.

    Only the one that is killed is a process of its own, and it is forked: what a start
    of Python takes is longer than these runs.
    """

    def run(words, pipe):
        os.dup2(pipe, 1)
        sys.stdout = os.fdopen(1, "w", buffering=1)
        main(words)

    def kill(words, step):
        there, here = os.pipe()
        process = multiprocessing.get_context("fork").Process(
            target=run, args=(words, here)
        )
        process.start()
        os.close(here)
        with os.fdopen(there) as lines:
            for line in lines:
                if f'"step": {step}' in line:
                    process.kill()
                    break
            process.join()
        assert process.exitcode == -signal.SIGKILL

    def check(*words, step, networks=("encoder",)):
        monkeypatch.chdir(tmp_path)
        often = ("--log-every", "1", "--json", "--checkpoint-seconds", "0")
        words = ["train", *words, *often, "--name"]
        kill([*words, "killed"], step)
        for command in ([*words, "whole"], ["train", "--resume", "runs/killed"]):
            assert main(command) == 0
        folders = [tmp_path / "runs" / name for name in ("killed", "whole")]
        assert readings(folders[0]) == readings(folders[1])
        for name in networks:
            ours, theirs = (load_file(f / f"{name}.safetensors") for f in folders)
            assert ours.keys() == theirs.keys()
            assert all(ours[k].equal(theirs[k]) for k in ours)

    return check
