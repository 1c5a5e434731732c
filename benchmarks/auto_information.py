"""The `auto` estimator on 30 distributions with exact mutual information.

    python benchmarks/auto_information.py                  # all 30, resumes
    python benchmarks/auto_information.py --only spiral    # by a word in the name
    python benchmarks/auto_information.py --tuning         # what defaults were set on

10,000 samples each, seed fixed. A value counts as right within 10 % or 0.1 nats, and
an interval as right if it holds the truth. Nothing was tuned on these 30 or their
seeds: rules and defaults were set on the `--tuning` set, which has other parameters
and other seeds. Every finished row is kept in results/auto_information.json (delete it
to start anew); the table goes to results/auto_information.md.
"""

import argparse
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

import invariance as inv
from invariance.estimators import (
    Pairs,
    blocks,
    canonical_gaussian,
    correlated_gaussian,
    gaussian,
    image,
    noisy_copy,
    spiral,
    student,
    table,
    uniform_noise,
)

RESULTS = Path(__file__).parent / "results"
TITLE = "# Mutual information, the estimator chosen by the data"
SAMPLES = 10_000


def dense(x_width: int, y_width: int, correlation: float) -> Pairs:
    d = x_width + y_width
    covariance = torch.full((d, d), correlation, dtype=torch.float64)
    covariance.fill_diagonal_(1.0)
    name = f"dense gaussian {x_width}x{y_width}, rho={correlation:g}"
    return gaussian(covariance, x_width=x_width, name=name)


def g(dim: int, nats: float) -> Pairs:
    return correlated_gaussian(dim, nats=nats)


CHECK: list[Callable[[], Pairs]] = [
    lambda: g(1, 0.0),
    lambda: g(1, 0.5),
    lambda: g(1, 3.0),
    lambda: g(3, 1.0),
    lambda: g(5, 2.0),
    lambda: g(20, 2.0),
    lambda: g(20, 4.0),
    lambda: canonical_gaussian([0.8, 0.8], x_width=5, y_width=3),
    lambda: dense(10, 10, 0.5),
    lambda: image(g(1, 1.0), y="cubic"),
    lambda: image(g(5, 2.0), x="cubic", y="cubic"),
    lambda: image(g(20, 2.0), y="cubic"),
    lambda: image(g(20, 6.0), y="cubic"),
    lambda: image(g(2, 1.0), x="asinh", y="asinh"),
    lambda: image(g(10, 3.0), x="asinh", y="asinh"),
    lambda: image(g(1, 0.5), x="half_cube", y="half_cube"),
    lambda: image(g(25, 3.0), x="half_cube", y="half_cube"),
    lambda: image(g(1, 1.0), x="swiss_roll"),
    lambda: image(g(1, 0.4), x="swiss_roll", y="cubic"),
    lambda: image(g(2, 1.0), x=spiral(), y=spiral()),
    lambda: image(g(3, 1.0), x=spiral(), y=spiral()),
    lambda: image(g(5, 2.0), x=spiral(), y="asinh"),
    lambda: student(1, dof=1),
    lambda: student(2, dof=2, rho=0.5),
    lambda: student(5, dof=3),
    lambda: uniform_noise(noise=0.1),
    lambda: uniform_noise(noise=0.75),
    lambda: table([[8, 1, 1, 0], [1, 6, 1, 2], [0, 2, 5, 3]]),
    lambda: noisy_copy(12, keep=0.8),
    lambda: blocks([g(2, 0.5), uniform_noise(noise=0.25), student(1, dof=2)]),
]
TUNING: list[Callable[[], Pairs]] = [
    lambda: g(1, 1.7),
    lambda: g(4, 1.5),
    lambda: g(30, 5.0),
    lambda: g(6, 0.0),
    lambda: canonical_gaussian([0.9], x_width=4, y_width=6),
    lambda: dense(6, 3, 0.3),
    lambda: image(g(15, 3.0), y="cubic"),
    lambda: image(g(3, 0.7), x="asinh", y="half_cube"),
    lambda: image(g(1, 1.5), x="swiss_roll"),
    lambda: image(g(2, 0.8), x=spiral(0.5), y=spiral(0.3)),
    lambda: image(g(4, 1.2), x=spiral(), y=spiral()),
    lambda: image(g(6, 1.0), x=spiral(0.2)),
    lambda: student(1, dof=1.5, rho=0.3),
    lambda: student(2, dof=1.5, rho=0.3),
    lambda: student(4, dof=2.5),
    lambda: uniform_noise(noise=0.15),
    lambda: uniform_noise(3, noise=0.3),
    lambda: noisy_copy(5, keep=0.5),
    lambda: blocks([g(3, 1.0), uniform_noise(2, noise=0.4)]),
    lambda: blocks([image(g(2, 0.6), x="spiral"), student(2, dof=4)]),
]


def measure(pairs: Pairs, seed: int) -> dict[str, object]:
    dice = torch.Generator().manual_seed(seed)
    x, y = pairs.sample(SAMPLES, generator=dice, dtype=torch.float64)
    start = time.perf_counter()
    e = inv.estimate_mi(x, y, estimator="auto")
    off = abs(e.nats - pairs.nats)
    return {
        "name": str(pairs),
        "exact": pairs.nats,
        "nats": e.nats,
        "low": e.interval[0],
        "high": e.interval[1],
        "estimator": e.estimator,
        "right": off <= max(0.1, 0.1 * pairs.nats),
        "covered": e.interval[0] <= pairs.nats <= e.interval[1],
        "seconds": time.perf_counter() - start,
        "seed": seed,
        "reason": e.reason,
    }


def page(rows: list[dict[str, object]], facts: dict[str, object]) -> str:
    lines = [
        "| distribution | exact | auto | 95 % interval | picked | right | covered |",
        "| --- | ---: | ---: | ---: | --- | --- | --- |",
    ]
    for r in rows:
        lines.append(
            f"| {r['name']} | {r['exact']:.3f} | {r['nats']:.3f} | {r['low']:.3f} to "
            f"{r['high']:.3f} | {str(r['estimator'])[6:-1]} | "
            f"{'yes' if r['right'] else 'NO'} | {'yes' if r['covered'] else 'NO'} |"
        )
    return "\n".join([*lines, "", verdict(rows), "", *said(facts)]) + "\n"


def verdict(rows: list[dict[str, object]]) -> str:
    n = len(rows)
    right, covered = (sum(bool(r[k]) for r in rows) for k in ("right", "covered"))
    share = 100 * covered / n
    return (
        f"Within 10 % or 0.1 nats: {right} of {n} (goal 25 of 30). "
        f"Interval holds the truth: {covered} of {n}, {share:.0f} % (goal 85 %)."
    )


def said(facts: dict[str, object]) -> list[str]:
    return [f"- {key}: {value}" for key, value in facts.items()]


def gather_facts(**more: object) -> dict[str, object]:
    """When, by which command and on what a result was made."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "command": shlex.join(["python", "benchmarks/" + Path(sys.argv[0]).name])
        + (" " + shlex.join(sys.argv[1:]) if sys.argv[1:] else ""),
        **more,
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {p: version(p) for p in ("torch", "numpy", "scipy")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a word in the name")
    parser.add_argument("--tuning", action="store_true", help="the tuning set instead")
    parser.add_argument("--seed", type=int, help="first seed (2000, or 100 for tuning)")
    chosen = parser.parse_args()
    makers = TUNING if chosen.tuning else CHECK
    first = chosen.seed or (100 if chosen.tuning else 2000)
    name = "auto_information" + ("_tuning" if chosen.tuning else "")
    kept = RESULTS / f"{name}.json"
    store = json.loads(kept.read_text()) if kept.exists() else {"rows": []}
    done = {(r["name"], r["seed"]): r for r in store["rows"]}
    rows = []
    for number, make in enumerate(makers):
        pairs, seed = make(), first + number
        if chosen.only not in str(pairs):
            continue
        row = done.get((str(pairs), seed))
        if row is None:
            row = measure(pairs, seed)
            done[(str(pairs), seed)] = row
            kept.write_text(json.dumps({"rows": list(done.values())}, indent=1))
        rows.append(row)
        print(
            f"{row['name']:<58.58} exact {row['exact']:6.3f}  auto {row['nats']:6.3f} "
            f"[{row['low']:6.3f}, {row['high']:6.3f}] {row['estimator']:<17} "
            f"{'right' if row['right'] else 'OFF':<5} "
            f"{'covered' if row['covered'] else 'MISSED':<7} {row['seconds']:5.1f} s",
            flush=True,
        )
    print(verdict(rows))
    seconds = round(sum(float(str(r["seconds"])) for r in rows))
    facts = gather_facts(samples=SAMPLES, seconds=seconds)
    if len(rows) == len(makers):
        (RESULTS / f"{name}.md").write_text(f"{TITLE}\n\n{page(rows, facts)}")
        print(f"table: benchmarks/results/{name}.md")


if __name__ == "__main__":
    main()
