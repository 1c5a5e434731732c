"""Two processes train as one does, go on as one would, and end together.

Starting processes takes longer than all they do here: two pairs are started, one by the
command itself and one by torchrun, since they are to be killed. The others are forked.
"""

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
import torch
from tests.processes import on_processes
from torch import nn

import invariance as inv
from invariance.devices import is_first_process, started_outside
from invariance.errors import SettingError
from invariance.training import settle_machine

CASES = {
    "simclr": {
        "optim": inv.Optim(name="sgd", accumulate=2),
        "batch_size": 8,
        "ess": inv.Ess(target=0.5),  # moves the temperature after every step
    },
    "attacked": {  # against the loss of both; signs of rounded numbers may differ
        "method": "moco",
        "options": {"size": 32},
        "views_adversarial": "added",
        "attack": inv.Attack(norm="l2", steps=2),
        "optim": inv.Optim(name="sgd"),
    },
    # running averages, by which kNN encodes, are those of the first process's pieces
    "pieces": {"method": "byol", "micro_batch": 4, "knn_every": 0},
    "byol-fsdp": {"method": "byol"},
    "pcl-fsdp": {  # twin, queue, bank and clusters
        "method": "pcl",
        "options": {"size": 32, "n_clusters": 3},
        "optim": inv.Optim(name="sgd"),
    },
    "swav-fsdp": {
        "method": "swav",
        "options": {"n_prototypes": 6, "epsilon": 0.5},
        "optim": inv.Optim(name="lars"),
    },
    "learned-fsdp": {
        "method": "info_nce",
        "temperature": "learned",
        "critic": "mlp",
        "optim": inv.Optim(name="sgd", clip_norm=0.5),
    },
}
RESUMED = "byol-fsdp"  # stopped on one process and gone on with on two, and back
KILLED = {"epochs": 9, "batch_size": 16, "hidden": 16, "width": 8, "log_every": 1}
KILLED |= {"method": "byol", "knn_every": 0, "quiet": True, "evaluate": False}

SCRIPT = """
import os
import invariance as inv
from invariance.devices import is_first_process

machine = inv.Machine(device="cpu", devices=2)
for name in ("first", "second"):
    inv.train(inv.Train(data="pictures.npy", name=name, machine=machine, **CHANGES))
if is_first_process():  # a command started from here is one process of its own
    assert not {"WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"} & os.environ.keys()
    assert os.environ["LOCAL_WORLD_SIZE"] == "2"  # these two go on together
"""


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
        **{"epochs": 2, "hidden": 16, "width": 8, "knn_every": 1} | changes,
        name=name,
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


def train_all(place, stopped_after, rank):
    """What one of two processes does: train every case, stop, and go on."""
    for name in CASES:
        given = objects()
        inv.train(settings_of(name, place / "two", 2), **given)
        assert type(given["encoder"][1]) is nn.BatchNorm2d
    machine = inv.Machine(devices=2, strategy="fsdp")
    again = inv.Train(resume=str(place / "there" / RESUMED), machine=machine)
    inv.train(dataclasses.replace(again, quiet=True), **objects())
    data, out = str(place / "pictures.npy"), str(place / "runs")
    machine = inv.Machine(device="cpu", devices=2)
    inv.train(inv.Train(data=data, out=out, name="whole", machine=machine, **KILLED))
    stopped = settings_of(RESUMED, place / "back", 2)
    stopped_after(4 if rank == 0 else 10_000, stopped, **objects())  # one is asked


def go_on(place, rank):
    """What one of two processes does, once other two have been killed."""
    for name in ("killed", "hanging"):
        inv.train(inv.Train(resume=str(place / "runs" / name), quiet=True))


@pytest.fixture
def place(tmp_path):
    """A folder with pictures."""
    noise = np.random.default_rng(0)
    images = noise.integers(0, 255, (72, 16, 16, 3), dtype=np.uint8)
    np.save(tmp_path / "pictures.npy", images)
    return tmp_path


@pytest.fixture
def start(place, one_thread):
    """Start a training to be killed, in the folder of the pictures."""
    started = []

    def run(*words, by=()):
        command = [sys.executable, *by, "-m", "invariance", "train", "pictures.npy"]
        for name, value in KILLED.items():
            flag = f"--{name.replace('_', '-')}"
            no = value is False
            command += [f"--no-{flag[2:]}" if no else flag]
            command += [] if isinstance(value, bool) else [str(value)]
        command += ["--checkpoint-seconds", "0", "--machine.device", "cpu", *words]
        process = subprocess.Popen(
            command,
            cwd=place,
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


def has_readings(folder, n, process):
    """Whether a run has so many readings; raises if it has ended."""
    if process.poll() is not None:
        raise AssertionError(process.communicate()[0])
    path = folder / "metrics.jsonl"
    return path.exists() and len(path.read_text().splitlines()) >= n


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


def test_curves_resumes_and_ends(place, start, stopped_after, readings):
    elastic = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    elastic += ("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
    hanging = start("--name", "hanging", "--machine.devices", "2")
    killed = start("--name", "killed", by=elastic)
    waiting, took, stopped = {"hanging": hanging, "killed": killed}, None, None
    while waiting:  # none may come to its end before it is its turn
        for name, process in list(waiting.items()):
            if has_readings(place / "runs" / name, 3, process):
                kind = signal.SIGSTOP if name == "hanging" else signal.SIGKILL
                child = children_of(process)[-1]
                os.kill(child, kind)
                stopped = child if name == "hanging" else stopped
                took = took or (name == "hanging" and stop_clock_at_end(process))
                del waiting[name]
        time.sleep(0.02)
    stopped_after(4, settings_of(RESUMED, place / "there", 1), **objects())

    for name in CASES:
        inv.train(settings_of(name, place / "one", 1), **objects())
    # a dry run plays the first of two: nothing of it may be left in the second
    shared_out = settings_of(RESUMED, place / "two", 2)
    inv.train(dataclasses.replace(shared_out, dry_run=True), **objects())
    on_processes(2, partial(train_all, place, stopped_after), place, torchrun=True)
    one = {name: readings(place / "one" / name) for name in CASES}
    for name in CASES:
        assert_alike(readings(place / "two" / name), one[name], name)
    back = place / "back" / RESUMED
    assert 0 < len(readings(back)) < len(one[RESUMED])
    alone = inv.Machine(devices=1)
    inv.train(inv.Train(resume=str(back), machine=alone, quiet=True), **objects())
    for folder in (back, place / "there" / RESUMED):
        assert_alike(readings(folder), one[RESUMED], folder)

    said, _ = killed.communicate(timeout=60)
    assert killed.returncode
    assert "has ended, so the run has ended." in said
    assert "continue with: invariance train --resume runs/killed" in said
    said, _ = hanging.communicate(timeout=60)
    assert hanging.returncode == 2
    assert took() < 45  # 20 on a machine that does nothing else
    assert f"Process 1 (pid {stopped} on " in said and "has not been heard of" in said
    assert "continue with: invariance train --resume runs/hanging" in said
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)
    on_processes(2, partial(go_on, place), place, torchrun=True)
    whole = readings(place / "runs" / "whole")
    assert len(whole) == 36
    assert readings(place / "runs" / "killed") == whole
    assert readings(place / "runs" / "hanging") == whole


def test_a_script_goes_on_after_runs_of_two(place, one_thread):
    text = SCRIPT.replace("CHANGES", repr(KILLED | {"epochs": 1}))
    (place / "script.py").write_text(text, encoding="utf-8")
    run = {"cwd": place, "env": one_thread, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "script.py"], **run, timeout=120)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (place / "runs").iterdir()} == {"first", "second"}


def assert_alike(lines, others, name):
    assert len(lines) == len(others) >= 8
    assert ("knn" in lines[-1]) != (name == "pieces")
    for line, other in zip(lines, others, strict=True):
        assert line == pytest.approx(other, rel=1e-4, abs=1e-5), name


OTHERS = {"clip": "captioned_shapes", "cpc": "latent_walk"}


def train_others(out, devices, rank=0):
    """Runs of two encoders and of a prediction, on one process or several."""
    for method, data in OTHERS.items():
        inv.train(
            inv.Train(
                data=data,
                method=method,
                limit=48,
                batch_size=16,
                epochs=1,
                width=8,
                log_every=1,
                knn_every=0,
                evaluate=False,
                quiet=True,
                optim=inv.Optim(name="sgd"),
                out=str(out),
                name=method,
                machine=inv.Machine(device="cpu", devices=devices),
            )
        )


def test_pairs_and_sequences_train_alike(tmp_path, readings):
    train_others(tmp_path / "one", 1)
    work = partial(train_others, tmp_path / "two", 2)
    on_processes(2, work, tmp_path, torchrun=True)
    for method in OTHERS:
        one, two = (readings(tmp_path / place / method) for place in ("one", "two"))
        assert len(one) == len(two) == 3
        for line, other in zip(two, one, strict=True):
            assert line == pytest.approx(other, rel=1e-3, abs=1e-4), method


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


def test_a_port_in_use(small, pictures, variables):
    machine = inv.Machine(device="cpu", nodes=2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = f"{taken.getsockname()[1]}"
        variables(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, NODE_RANK="0")
        with pytest.raises(SettingError, match=f"port {port}, which another program"):
            inv.train(dataclasses.replace(small(), machine=machine), data=pictures)
    assert "LOCAL_RANK" not in os.environ
