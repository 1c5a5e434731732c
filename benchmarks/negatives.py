"""Where negatives come from, on the generated shapes; and the momentum of the bank.

    python benchmarks/negatives.py                      # three seeds, CPU or GPU
    python benchmarks/negatives.py --parallel 8         # eight runs at a time on a GPU

Same encoder, epochs, batch, optimiser and views for all; each method's own temperature,
head and memory as in its catalogue entry. Raw pixels and the encoder before training
are the lines to beat. The second table is Instance Discrimination with a bank momentum
of 0, 0.5 and 0.9.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

import invariance as inv
from invariance.data import load
from invariance.training import make_plan
from methods import scores, spread, tell

RESULTS = Path(__file__).parent / "results"
METHODS = [
    *("simclr", "moco", "moco_v1", "ir", "ir_sampled", "ir_nce", "ball", "annulus"),
    *("la", "vince", "vince_plus", "pcl", "nnclr"),
]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SWEEP = (0.0, 0.5, 0.9)
PACKAGES = ("torch", "scikit-learn")


def job(name: str, seed: int, options: dict, budget: dict) -> dict:
    """Train once and score, in this process."""
    train, test = load("shapes"), load("shapes", split="test")
    if name == "raw pixels":
        return scores(train, test, None)
    if name == "untrained":
        plan = make_plan(inv.Train(seed=seed, **budget))
        return scores(train, test, plan.untrained.to(DEVICE).eval())
    with tempfile.TemporaryDirectory() as out:
        settings = inv.Train(
            method=name,
            seed=seed,
            options=options,
            out=out,
            evaluate=False,
            knn_every=0,
            quiet=True,
            **budget,
        )
        run = inv.train(settings)
        last = run.metrics[-1]
        found = scores(train, test, run.encoder().to(DEVICE))
    kept = ("effective_rank", "uniformity", "alignment", "acceptance", "weight_ess")
    return {**found, **{k: last[k] for k in kept if k in last}}


def started(work: tuple, budget: dict) -> dict:
    """The same in a process of its own, so that several share a device."""
    name, seed, options = work
    asked = json.dumps([name, seed, options, budget])
    done = subprocess.run(
        [sys.executable, __file__, "--job", asked], capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{name}, seed {seed}: {done.stderr[-2000:]}")
    row = {"features": name, "seed": seed, "options": options}
    row |= json.loads(done.stdout.splitlines()[-1])
    tell(row)
    return row


def table(rows: list[dict], keys: dict[str, list[dict]]) -> str:
    lines = ["| features | kNN | linear probe |", "| :--- | ---: | ---: |"]
    for name, found in keys.items():
        cells = [name, spread(found, "knn"), spread(found, "linear")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--no-sweep", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "negatives")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        torch.set_num_threads(max(torch.get_num_threads() // 4, 1))
        print(json.dumps(job(*json.loads(given.job))))
        return
    budget = {"epochs": given.epochs, "batch_size": given.batch_size}
    seeds = range(given.seeds)
    work: list[tuple] = [("raw pixels", 0, {})]
    work += [("untrained", seed, {}) for seed in seeds]
    work += [(name, seed, {}) for name in given.methods for seed in seeds]
    if not given.no_sweep:
        momenta = [m for m in SWEEP if m != 0.5]  # 0.5 is ir itself
        work += [("ir", seed, {"bank_momentum": m}) for m in momenta for seed in seeds]
    with ThreadPoolExecutor(given.parallel) as pool:
        rows = list(pool.map(lambda w: started(w, budget), work))
    by_name: dict[str, list[dict]] = {}
    sweep: dict[str, list[dict]] = {f"m = {m}": [] for m in SWEEP}
    for row in rows:
        if not row["options"]:
            by_name.setdefault(row["features"], []).append(row)
        if row["features"] == "ir":
            sweep[f"m = {row['options'].get('bank_momentum', 0.5)}"].append(row)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", "benchmarks/negatives.py", *sys.argv[1:]]),
        "budget": f"{budget}, 6,000 images, AdamW as by default, encoder tiny",
        "seeds": given.seeds,
        "device": f"{device}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }
    about = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    text = "# Where negatives come from, on shapes\n\n" + table(rows, by_name)
    if not given.no_sweep:
        text += "\n\n## The bank's momentum (Instance Discrimination)\n\n"
        text += table(rows, sweep)
    text += (
        "\n\nMean and standard deviation over seeds of the accuracy on 1,000 test "
        "images; the seed sets weights, order and views.\n\n" + about + "\n"
    )
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.with_suffix(".md").write_text(text)
    rows_json = json.dumps({**facts, "rows": rows}, indent=1)
    given.out.with_suffix(".json").write_text(rows_json + "\n")
    print(text)


if __name__ == "__main__":
    main()
