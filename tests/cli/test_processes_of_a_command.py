"""``--devices 2``: a command in two processes; one is killed, or who started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import invariance as inv
from invariance.cli import main
from invariance.devices import usable_cores
from invariance.encoders import build_encoder, standardize, write_encoder

WORDS = ["embed", "encoder.safetensors", "a.npy", "-o", "two.npz"]
WORDS += ["--batch-size", "128", "--devices", "2"]


@pytest.mark.skipif(
    usable_cores() < 2 or not Path("/proc").exists(), reason="needs two cores and Linux"
)
def test_one_is_killed_and_the_same_command_goes_on(tmp_path, monkeypatch, capfd):
    dice = np.random.default_rng(0)
    images = dice.integers(0, 255, (30_000, 12, 12, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", images)
    torch.manual_seed(0)
    encoder = standardize(build_encoder("tiny", image_size=12), [0.5] * 3, [0.3] * 3)
    write_encoder(encoder, tmp_path / "encoder.safetensors")
    here = {"PYTHONPATH": str(Path(inv.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    how = {"cwd": tmp_path, "env": os.environ | here, "text": True}
    command = [sys.executable, "-m", "invariance", *WORDS]

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
    ) as started:
        while started.poll() is None and not list(tmp_path.glob("*.part/rows-*[0-9]")):
            time.sleep(0.02)
        first, second = children_of(started)
        os.kill(second, signal.SIGKILL)
        _, complained = started.communicate(timeout=60)
    assert started.returncode == 128 + signal.SIGKILL
    assert complained.splitlines()[-1] == (
        "invariance: process 2 of 2 was killed (signal 9); the same command "
        "continues where it stopped."
    )
    assert "Traceback" not in complained
    assert not Path(f"/proc/{first}").exists() and not Path(f"/proc/{second}").exists()

    done = subprocess.run(command, capture_output=True, **how)
    assert done.returncode == 0, done.stderr
    assert "continuing after" in done.stderr
    assert done.stdout.count("embeddings: two.npz, 30,000 rows of 256 features") == 1
    torch.set_num_threads(1)
    alone = inv.write_embeddings(
        tmp_path / "encoder.safetensors",
        tmp_path / "a.npy",
        tmp_path / "one.npz",
        batch_size=128,
    )
    assert (tmp_path / "two.npz").read_bytes() == alone.path.read_bytes()

    monkeypatch.chdir(tmp_path)
    assert main(WORDS) == 2
    assert capfd.readouterr().err.count("'two.npz' exists already") == 1


def children_of(process):
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return list(map(int, listed.split()))


def wait_until_gone(numbers, seconds=20):
    """Whether those processes end in time; one that nobody waited for has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        states = [Path(f"/proc/{number}/stat") for number in numbers]
        if not any(s.exists() and ") Z " not in s.read_text() for s in states):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(
    usable_cores() < 2 or not Path("/proc").exists(), reason="needs two cores and Linux"
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
@pytest.mark.usefixtures("hear_hangups")
def test_processes_do_not_outlive_the_one_that_started_them(tmp_path, number):
    np.save(tmp_path / "a.npy", np.zeros((60_000, 12, 12, 3), dtype=np.uint8))
    encoder = standardize(build_encoder("tiny", image_size=12), [0.5] * 3, [0.3] * 3)
    write_encoder(encoder, tmp_path / "encoder.safetensors")
    here = {"PYTHONPATH": str(Path(inv.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "invariance", *WORDS]
    with subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | here, stderr=subprocess.DEVNULL
    ) as started:
        while started.poll() is None and not list(tmp_path.glob("*.part/rows-*[0-9]")):
            time.sleep(0.02)
        children = children_of(started)
        assert len(children) == 2
        started.send_signal(number)
        started.wait(20)
    assert wait_until_gone(children)
    assert not (tmp_path / "two.npz").exists()
