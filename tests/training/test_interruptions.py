"""Signals and kills through the real command line, in processes of their own."""

import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest
from safetensors.torch import load_file

COMMAND = [sys.executable, "-m", "invariance", "train"]


@pytest.fixture
def files(tmp_path, pictures):
    np.save(tmp_path / "pictures.npy", pictures[0])
    return tmp_path


@pytest.fixture
def start(files, one_thread):
    """Start a command in the folder of the pictures; its output comes by the line."""
    started = []

    def run(*words):
        process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=files,
            env=one_thread,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def words(name, epochs):
    return [
        *("pictures.npy", "--name", name, "--epochs", str(epochs)),
        *("--batch-size", "16", "--hidden", "16", "--width", "8", "--log-every", "1"),
        *("--method", "byol", "--checkpoint-seconds", "0", "--json"),
    ]


def read_until(process, text):
    """The lines up to the one with this text."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError("".join(lines))


def test_killed_twice(start, files, readings):
    whole = start(*words("whole", 3))  # meanwhile
    moments = random.Random(0)
    folder = files / "runs" / "killed"
    process = start(*words("killed", 3))
    for k in range(2):
        read_until(process, f'"step": {2 + 4 * k}')
        for _ in range(moments.randrange(3)):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process = start("--resume", str(folder), "--json")
    said, _ = process.communicate()
    assert process.returncode == 0, said
    whole.communicate()
    assert readings(folder) == readings(files / "runs" / "whole")
    ours, theirs = (
        load_file(files / "runs" / name / "encoder.safetensors")
        for name in ("killed", "whole")
    )
    assert ours.keys() == theirs.keys()
    assert all(ours[k].equal(theirs[k]) for k in ours)


@pytest.mark.usefixtures("hear_hangups")
def test_polite_requests_to_stop(start, files):
    process = start(*words("asked", 12), "--checkpoint-seconds", "1000")
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"):
        read_until(process, '"step"')
        process.send_signal(getattr(signal, name))
        said, _ = process.communicate()
        assert process.returncode == 130, said
        assert "saved. Continue with: invariance train --resume runs/asked" in said
        assert "Traceback" not in said and "leaked" not in said
        checkpoints = list((files / "runs" / "asked" / "checkpoints").iterdir())
        assert {path.suffix for path in checkpoints} == {".pt"}
        process = start("--resume", "runs/asked", "--json")
        read_until(process, "resuming runs/asked after step")
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert "leaked" not in said  # as nanobind says of what is kept at the end
    assert (files / "runs" / "asked" / "encoder.safetensors").exists()
