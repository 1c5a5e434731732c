"""What a second core brings to a loss, and what a busy neighbor costs it.

    python benchmarks/threads.py
    git worktree add ../old COMMIT
    python benchmarks/threads.py --against ../old/src

Forward and backward on a CPU in three situations: on one core; on several cores
(``--cores``, two unless told); and on those cores while another process keeps one of
them busy, as on a shared machine. Measured are this tree, another one if given, and
plain PyTorch, each in processes of its own that take turns, on the same rows. Shown is
the best of the processes' medians. Writes threads_cpu.md into ``--out``.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from checks import source_tree

SITUATIONS = ("one core", "several cores", "beside a busy process")
HERE = Path(__file__).parent
Figures = dict[tuple, float]  # ms, by (objective, pairs, who, situation)


def measure(job: dict) -> dict:
    """Median milliseconds of a step, in this process."""
    os.sched_setaffinity(0, job["cores"])
    import torch

    from loss_job import build, inputs, step

    torch.set_num_threads(len(job["cores"]))
    job |= {"width": 128, "device": "cpu", "dtype": "float32"}
    loss, (u, v) = build(job), inputs(job["pairs"], job)
    step(loss, u, v)
    times, end = [], time.perf_counter() + job["seconds"]
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        step(loss, u, v)
        times.append(1000 * (time.perf_counter() - start))
    facts = {"torch": torch.__version__, "load": os.getloadavg()[0]}
    return {"ms": statistics.median(times), **facts}


@contextmanager
def busy_process(cores: list[int]) -> Iterator[None]:
    code = f"import os\nos.sched_setaffinity(0, {cores})\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def run_child(job: dict, tree: Path) -> dict:
    """Measure in a process that imports ``invariance`` from a tree."""
    paths = [str(tree.resolve()), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        env.pop(name, None)
    command = [sys.executable, __file__, "--measure", json.dumps(job)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def run_all(options: argparse.Namespace) -> tuple[Figures, dict]:
    trees = {"invariance": HERE.parent / "src"}
    if options.against:
        trees["invariance, other tree"] = options.against
    trees["plain PyTorch"] = trees["invariance"]
    cores = sorted(os.sched_getaffinity(0))[: options.cores]
    if len(cores) < options.cores:
        sys.exit(f"{options.cores} cores are asked for, and there are {len(cores)}.")
    best, facts = {}, {}
    for turn in range(options.turns):
        for objective in options.objectives:
            for pairs in options.pairs:
                for who, tree in trees.items():
                    for situation in SITUATIONS:
                        own = cores[:1] if situation == "one core" else cores
                        job = {"objective": objective, "pairs": pairs, "cores": own}
                        job |= {"who": who.split(",")[0], "seconds": options.seconds}
                        crowd = situation == "beside a busy process"
                        with busy_process(cores) if crowd else nullcontext():
                            facts = run_child(job, tree)
                        ms, key = facts.pop("ms"), (objective, pairs, who, situation)
                        best[key] = min(ms, best.get(key, ms))
                        print(turn, *key, f"{ms:,.1f} ms", flush=True)
    return best, facts


def write(best: Figures, facts: dict, options: argparse.Namespace) -> str:
    head = ["objective", "pairs", "who", "one core", f"{options.cores} cores", "gain"]
    head += ["beside a busy process", "slower by"]
    lines = [" | ".join(head), "|".join(["---"] * len(head))]
    for objective, pairs, who in dict.fromkeys(key[:3] for key in best):
        one, several, crowded = (
            best[objective, pairs, who, situation] for situation in SITUATIONS
        )
        cells = [objective, f"{pairs:,}", who, f"{one:,.1f} ms", f"{several:,.1f} ms"]
        cells += [f"{one / several:.2f} x", f"{crowded:,.1f} ms"]
        lines.append(" | ".join([*cells, f"{crowded / several:.2f} x"]))
    about = (
        f"{datetime.now(UTC):%Y-%m-%d}, torch {facts['torch']}, load average "
        f"{facts['load']:.1f}, `python {shlex.join(sys.argv)}`. Width 128, float32, "
        f"forward and backward, best of the medians of {options.turns} processes. "
        "The busy process shares the cores."
    )
    table = "\n".join(f"| {line} |" for line in lines)
    return f"# A second core, and a busy neighbor\n\n{about}\n\n{table}\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--against", type=source_tree, help="another tree's src folder"
    )
    options.add_argument("--objectives", nargs="+", default=["nt_xent", "info_nce"])
    options.add_argument("--pairs", nargs="+", type=int, default=[512, 2048, 4096])
    options.add_argument("--cores", type=int, default=2)
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--seconds", type=float, default=2.0, help="per process")
    options.add_argument("--out", type=Path, default=HERE / "results")
    options.add_argument("--measure", help="one process of it")
    given = options.parse_args()
    if given.measure:
        print(json.dumps(measure(json.loads(given.measure))))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    text = write(*run_all(given), given)
    (given.out / "threads_cpu.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
