"""Several processes train as one does, go on as one would, and end together.

Starting processes takes longer than all they do here, so there are three pairs of them,
each started in another way: by the command itself, by torchrun, and with the variables
that srun sets.
"""

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

import invariance as inv
from invariance.devices import is_first_process, started_outside
from invariance.errors import SettingError
from invariance.training import Stopped, settle_machine

CASES = {
    "simclr": {"optim": inv.Optim(name="sgd", accumulate=2), "batch_size": 8},
    "simclr-fsdp": {"optim": inv.Optim(name="sgd", clip_norm=0.5)},
    "byol-fsdp": {"method": "byol"},
    "moco-fsdp": {"method": "moco", "options": {"size": 40.0}},
    "bank-fsdp": {"method": "ir_sampled", "options": {"n_draws": 20.0}},
    "swav-fsdp": {
        "method": "swav",
        "options": {"n_prototypes": 6, "epsilon": 0.5},
        "optim": inv.Optim(name="lars"),
    },
    "learned-fsdp": {
        "method": "info_nce",
        "temperature": "learned",
        "optim": inv.Optim(name="sgd"),
    },
}
RESUMED = "byol-fsdp"  # stopped on one process and gone on with on two, and back
KILLED = (
    *("pictures.npy", "--epochs", "3", "--batch-size", "16", "--hidden", "16"),
    *("--width", "8", "--log-every", "1", "--method", "byol", "--no-evaluate"),
    *("--knn-every", "0", "--checkpoint-seconds", "0", "--quiet"),
)


class Smooth(nn.Sequential):
    """Batch norm and no kinks: there, rounding decides which way a gradient goes."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 12, 3, 2),
            nn.BatchNorm2d(12),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(12 * 49, 16),
        )


def settings_of(name, out, devices):
    changes = {"method": "simclr", "batch_size": 16} | CASES[name]
    strategy = "fsdp" if name.endswith("fsdp") and devices > 1 else "auto"
    return inv.Train(
        **{"epochs": 2, "hidden": 16, "width": 8, "name": name} | changes,
        knn_every=1,
        log_every=1,
        evaluate=False,
        quiet=True,
        out=str(out),
        machine=inv.Machine(device="cpu", devices=devices, strategy=strategy),
    )


def objects():
    """Data and encoder, the same in every process."""
    noise = np.random.default_rng(0)
    images = noise.integers(0, 255, (80, 16, 16, 3), dtype=np.uint8)
    torch.manual_seed(0)
    return {"data": (images, np.arange(80) % 5), "encoder": Smooth()}


def ask_to_stop(epoch, _):
    if epoch == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    return {}


def train_in_two_processes():
    """What each of the two processes of this file does when it is run."""
    torch.set_num_threads(1)
    for name in CASES:
        inv.train(settings_of(name, "two", 2), **objects())
    stopped = settings_of(RESUMED, "back", 2)
    try:
        inv.train(stopped, **objects(), each_epoch=ask_to_stop)
    except Stopped:
        print("stopped", flush=True)
    machine = inv.Machine(devices=2, strategy="fsdp")
    again = inv.Train(resume=f"there/{RESUMED}", quiet=True, machine=machine)
    inv.train(again, **objects())
    machine = inv.Machine(device="cpu", devices=2)
    settings = inv.Train(
        data="pictures.npy",
        **{"epochs": 3, "batch_size": 16, "hidden": 16, "width": 8, "log_every": 1},
        **{"method": "byol", "evaluate": False, "knn_every": 0, "quiet": True},
        name="whole",
        machine=machine,
    )
    inv.train(settings)
    while not os.path.exists("ended"):  # noqa: PTH110
        time.sleep(0.1)
    for folder in ("runs/killed", "runs/hanging"):
        again = inv.Train(resume=folder, quiet=True)
        inv.train(again)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where the runs of all processes are, once these have ended."""
    folder = tmp_path_factory.mktemp("processes")
    noise = np.random.default_rng(0)
    images = noise.integers(0, 255, (72, 16, 16, 3), dtype=np.uint8)
    np.save(folder / "pictures.npy", images)
    return folder


def start(words, place, **variables):
    known = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    known |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"} | variables
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=place,
        env=known,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def start_as_srun(place):
    """This file, in two processes with the variables that srun gives its tasks."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = str(door.getsockname()[1])
    return [
        start(
            [__file__],
            place,
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
            SLURM_JOB_ID="4711",
            SLURM_STEP_ID="0",
            SLURM_NTASKS="2",
            SLURM_NNODES="1",
            SLURM_NODEID="0",
            SLURM_PROCID=str(rank),
            SLURM_LOCALID=str(rank),
        )
        for rank in range(2)
    ]


def wait_for_readings(folder, n, process):
    """Until a run has so many readings; raises if it ends before."""
    path = folder / "metrics.jsonl"
    while not path.exists() or len(path.read_text().splitlines()) < n:
        if process.poll() is not None:
            raise AssertionError(process.communicate()[0])
        time.sleep(0.02)


def children_of(process):
    listed = subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(process.pid)])
    return [int(pid) for pid in listed.split()]


def stop_clock_at_end(process):
    """Ask what this gives how many seconds the process has gone on from now."""
    began, ends = time.monotonic(), []

    def wait():
        process.wait()
        ends.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    return lambda: thread.join() or ends[0] - began


def test_losses_resumes_and_ends(place, stopped_after, readings):
    def losses(folder):
        return [reading["loss"] for reading in readings(folder)]

    train = ["-m", "invariance", "train", *KILLED, "--machine.device", "cpu"]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    hanging = start([*train, "--machine.devices", "2", "--name", "hanging"], place)
    killed = start([*torchrun, *train, "--name", "killed"], place)
    stopped_after(4, settings_of(RESUMED, place / "there", 1), **objects())

    wait_for_readings(place / "runs" / "killed", 3, killed)
    os.kill(children_of(killed)[1], signal.SIGKILL)
    wait_for_readings(place / "runs" / "hanging", 3, hanging)
    (child,) = children_of(hanging)
    os.kill(child, signal.SIGSTOP)
    took = stop_clock_at_end(hanging)
    tasks = start_as_srun(place)
    for name in CASES:
        inv.train(settings_of(name, place / "one", 1), **objects())
    said, _ = killed.communicate(timeout=60)
    assert killed.returncode
    assert "has ended, so the run has ended." in said
    assert "go on with: invariance train --resume runs/killed" in said
    said, _ = hanging.communicate(timeout=60)
    assert hanging.returncode == 2
    assert took() < 45  # 20 on a machine that does nothing else
    assert f"Process 1 (pid {child} on " in said and "has not been heard of" in said
    assert "go on with: invariance train --resume runs/hanging" in said
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    (place / "ended").touch()
    for task in tasks:
        said, _ = task.communicate(timeout=300)
        assert task.returncode == 0, said
        assert "stopped" in said

    for name in CASES:
        one = losses(place / "one" / name)
        assert len(one) >= 8
        assert losses(place / "two" / name) == pytest.approx(one, rel=1e-4), name
    back = place / "back" / RESUMED
    assert 0 < len(losses(back)) < len(losses(place / "one" / RESUMED))
    alone = inv.Machine(devices=1)
    inv.train(inv.Train(resume=str(back), machine=alone, quiet=True), **objects())
    for folder in (back, place / "there" / RESUMED):
        one = losses(place / "one" / RESUMED)
        assert losses(folder) == pytest.approx(one, rel=1e-4), folder
    whole = readings(place / "runs" / "whole")
    assert readings(place / "runs" / "killed") == whole
    assert readings(place / "runs" / "hanging") == whole


@pytest.fixture
def variables(monkeypatch):
    """The environment of a process, with none of those that tell of others."""
    for name in ("LOCAL_RANK", "NODE_RANK", "RANK", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)

    def put(**values):
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return put


def test_one_process_where_nobody_says_more(variables):
    machine = settle_machine(inv.Machine())
    assert (machine.devices, machine.nodes) == (1, 1)
    variables(SLURM_JOB_ID="1", SLURM_NTASKS="8", SLURM_PROCID="0")  # a batch script
    assert started_outside() is None
    variables(LOCAL_RANK="1")
    assert not is_first_process()
    variables(LOCAL_RANK="0", NODE_RANK="1")
    assert not is_first_process()


def test_torchrun_and_srun_say_how_many(variables):
    variables(SLURM_STEP_ID="0", SLURM_NTASKS="8", SLURM_NNODES="2", SLURM_PROCID="5")
    machine = settle_machine(inv.Machine())
    assert (machine.devices, machine.nodes) == (4, 2)
    assert not is_first_process()
    variables(TORCHELASTIC_RUN_ID="x", WORLD_SIZE="6", GROUP_WORLD_SIZE="3", RANK="0")
    assert settle_machine(inv.Machine(devices=2)).nodes == 3
    assert is_first_process()
    with pytest.raises(
        SettingError, match="torchrun has started 2 processes on 3 mach"
    ):
        settle_machine(inv.Machine(devices=4))


def test_machines_that_do_not_know_each_other(small, pictures):
    machine = inv.Machine(device="cpu", nodes=2)
    with pytest.raises(SettingError, match="needs to know where they meet: set MASTER"):
        inv.train(dataclasses.replace(small(), machine=machine), data=pictures)


if __name__ == "__main__":
    train_in_two_processes()
