"""Runs killed with SIGKILL and resumed, against runs that were left alone.

    python benchmarks/resume.py                # 25 kills, writes results/resume.md
    python benchmarks/resume.py --kills 5 --seed 1
    python benchmarks/resume.py --kills 12 --processes 6 --out resume_cuda.md \
        --settings --encoder resnet18          # what follows goes to every run

Every run goes through the real command line in a process of its own, saves at every
step, and is killed once: in turn at a random moment between its first file and its end,
and while a checkpoint is half written. It is then resumed to its end. Its metrics
(but for the clock's), its encoder and its last checkpoint (weights, optimiser, momentum
twin, temperature, random generators) must equal those of a run that was never killed,
bit for bit. So must those of a second run that was left alone. Four methods take turns:
simclr with an ESS target, byol, moco and la.
"""

import argparse
import json
import os
import platform
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lightning_fabric
import numpy
import torch

RESULTS = Path(__file__).parent / "results"
METHODS = {
    "simclr + ESS": ("--method", "simclr", "--ess.target", "0.3", "--ess.end", "0.2"),
    "byol": ("--method", "byol"),
    "moco": ("--method", "moco"),
    "la": ("--method", "la"),
}
BUDGET = (
    *("--limit", "600", "--batch-size", "64", "--epochs", "3", "--log-every", "1"),
    *("--checkpoint-seconds", "0", "--knn-every", "1", "--no-evaluate", "--quiet"),
)
PACKAGES = (torch, lightning_fabric, numpy)


@dataclass(frozen=True)
class Outcome:
    """One killed run: how it died, and what differs after its resumption."""

    method: str
    aim: str
    saved_steps: int
    inside_save: bool
    differences: tuple[str, ...]


def start(*words: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "invariance", "train", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> None:
    """Wait for its end, which must be a good one."""
    _, complaint = process.communicate()
    if process.returncode:
        raise SystemExit(f"a run ended with {process.returncode}: {complaint}")


def wait_for(condition: Any, process: subprocess.Popen) -> bool:
    """Look very often; False if the process ended first."""
    while not condition():
        if process.poll() is not None:
            return False
        time.sleep(0.0002)
    return True


def left_alone(out: Path, method: str) -> tuple[Path, float]:
    """A whole run, and how long it took from its first file to its end."""
    folder = out / "whole"
    process = start("--out", str(out), "--name", "whole", *METHODS[method], *BUDGET)
    wait_for((folder / "config.yaml").exists, process)
    begin = time.monotonic()
    finish(process)
    return folder, time.monotonic() - begin


def killed(
    out: Path, method: str, aim: str, seconds: float, dice: random.Random
) -> tuple[Path, int, bool] | None:
    """A run killed once and resumed to its end; None if it ended before its time."""
    folder = Path(tempfile.mkdtemp(dir=out)) / "run"
    name = ("--out", str(folder.parent), "--name", folder.name)
    process = start(*name, *METHODS[method], *BUDGET)
    checkpoints = folder / "checkpoints"
    alive = wait_for((folder / "config.yaml").exists, process)
    if alive and aim == "any moment":
        time.sleep(dice.uniform(0, seconds))
    elif alive:
        after = f"step-{dice.randrange(0, 26):08}.pt"
        wait_for(lambda: any(p.name > after for p in checkpoints.iterdir()), process)
        alive = wait_for(lambda: any(checkpoints.glob("*.part")), process)
        time.sleep(dice.uniform(0, 0.004))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    if not alive or process.returncode != -signal.SIGKILL:
        return None
    steps = [int(p.stem.removeprefix("step-")) for p in checkpoints.glob("*.pt")]
    inside = any(checkpoints.glob("*.part"))
    if (folder / "encoder.safetensors").exists():
        return None
    finish(start("--resume", str(folder), "--quiet"))
    return folder, max(steps, default=0), inside


def differences(folder: Path, whole: Path) -> tuple[str, ...]:
    """What is not the same to the bit."""
    found = []
    if readings(folder) != readings(whole):
        found.append("metrics")
    for name in ("encoder.safetensors",):
        if (folder / name).read_bytes() != (whole / name).read_bytes():
            found.append(name)
    ours, theirs = last_state(folder), last_state(whole)
    found += [key for key in theirs if not same(ours.get(key), theirs[key])]
    return tuple(found)


def readings(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [{k: v for k, v in r.items() if not k.startswith("time/")} for r in records]


def last_state(folder: Path) -> dict[str, Any]:
    path = sorted((folder / "checkpoints").glob("step-*.pt"))[-1]
    state = torch.load(path, map_location="cpu", weights_only=True)
    del state["metrics"]  # a length in bytes, which the clock's readings change
    return state


def same(a: Any, b: Any) -> bool:
    if isinstance(b, torch.Tensor):
        return isinstance(a, torch.Tensor) and a.dtype == b.dtype and a.equal(b)
    if isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in b)
    if isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def run(n_kills: int, seed: int, processes: int) -> tuple[list[str], list[Outcome]]:
    """Methods that do not repeat, and all outcomes, told as they come."""
    with (
        tempfile.TemporaryDirectory() as place,
        ThreadPoolExecutor(processes) as workers,
    ):
        folders = {m: Path(place) / str(k) for k, m in enumerate(METHODS)}
        first = {m: workers.submit(left_alone, f, m) for m, f in folders.items()}
        second = {
            m: workers.submit(left_alone, f / "again", m) for m, f in folders.items()
        }
        whole = {method: done.result() for method, done in first.items()}
        unlike = []
        for method, done in second.items():
            found = differences(done.result()[0], whole[method][0])
            unlike += [method] if found else []
            verdict = f"DIFFERENT: {', '.join(found)}" if found else "the same"
            print(f"{method}: left alone twice, {verdict}", flush=True)

        def outcome(k: int) -> Outcome:
            method = list(METHODS)[k % len(METHODS)]
            aim = ("any moment", "saving")[k // len(METHODS) % 2]
            reference, seconds = whole[method]
            dice, ended = random.Random(f"{seed} {k}"), None
            while ended is None:  # else it was quicker than its killer
                ended = killed(reference.parent, method, aim, seconds, dice)
            folder, steps, inside = ended
            found = differences(folder, reference)
            verdict = f"DIFFERENT: {', '.join(found)}" if found else "the same"
            where = ", a checkpoint half written" if inside else ""
            print(
                f"kill {k + 1:>2}  {method:<12}  aimed at {aim:<10}  "
                f"step {steps:>2} saved{where}  {verdict}",
                flush=True,
            )
            return Outcome(method, aim, steps, inside, found)

        return unlike, list(workers.map(outcome, range(n_kills)))


def report(unlike: list[str], outcomes: list[Outcome], facts: dict[str, Any]) -> str:
    bad = sum(bool(o.differences) for o in outcomes)
    inside = sum(o.inside_save for o in outcomes)
    lines = [
        f"{len(outcomes)} runs killed and resumed, {inside} of them with a checkpoint "
        f"half written: {len(outcomes) - bad} equal to the run left alone, bit for "
        f"bit, {bad} different. Two runs left alone: "
        + (f"different for {', '.join(unlike)}." if unlike else "equal, every method."),
        "",
        "| kill | method | aimed at | steps saved | half-written checkpoint | result |",
        "| ---: | :--- | :--- | ---: | :--- | :--- |",
    ]
    for k, o in enumerate(outcomes, start=1):
        result = "same" if not o.differences else ", ".join(o.differences)
        half = "yes" if o.inside_save else ""
        lines.append(
            f"| {k} | {o.method} | {o.aim} | {o.saved_steps} | {half} | {result} |"
        )
    lines += ["", *(f"- {name}: {value}" for name, value in facts.items())]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "resume.md")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--settings", nargs=argparse.REMAINDER, default=[])
    given = parser.parse_args()
    global BUDGET
    BUDGET += tuple(given.settings)
    unlike, outcomes = run(given.kills, given.seed, given.processes)
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", "benchmarks/resume.py", *sys.argv[1:]]),
        "each run": "27 steps of 64 shapes, a checkpoint at every step",
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {p.__name__: p.__version__ for p in PACKAGES},
    }
    text = report(unlike, outcomes, facts)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(f"# Killed and resumed\n\n{text}\n")
    print(text.splitlines()[0])
    return int(bool(unlike) or any(o.differences for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
