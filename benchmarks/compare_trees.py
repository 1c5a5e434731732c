"""Every loss of two source trees side by side: is one of them slower?

    git worktree add ../old COMMIT
    python benchmarks/compare_trees.py --old ../old/src --new src --device cpu

Forward and backward of each objective at several sizes. Each tree is measured in
processes of its own, in turns (old, new, old, new, ...), on the same rows; shown is the
best of a tree's medians. On a GPU the same step is also replayed as a CUDA graph, where
the host's part is gone.
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from checks import require_cuda, source_tree

SIZES = {"cpu": (8, 64, 512, 2048), "cuda": (32, 512, 8192, 65536)}
NOT_TWO_VIEWS = ("swav",)


def cases(inv, torch, device: str) -> dict:
    """Losses of two views, by name."""

    def labeled(u, v):
        labels = torch.arange(len(u), device=device).repeat(2) // 4
        return inv.sup_con(torch.cat([u, v]), labels)

    special = {
        "sup_con": labeled,
        "multi_view": lambda u, v: inv.multi_view(torch.stack([u, v])),
    }
    named = {
        name: special.get(name, getattr(inv, name))
        for name in inv.OBJECTIVES
        if name not in NOT_TWO_VIEWS
    }
    return named | {"debiased, hard": lambda u, v: inv.debiased(u, v, hardness=1.0)}


def measure(device: str, seconds: float) -> dict:
    """Median milliseconds of a step, by loss and size; on a GPU of a replay too."""
    import torch

    import invariance as inv

    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    results: dict[str, float] = {}
    for name, loss in cases(inv, torch, device).items():
        for pairs in SIZES[device]:
            generator = torch.Generator().manual_seed(0)
            rows = torch.randn(2, pairs, 128, generator=generator).to(device, dtype)
            u, v = (x.clone().requires_grad_() for x in rows)

            def step(loss=loss, u=u, v=v):
                u.grad = v.grad = None
                loss(u, v).backward()

            results[f"{name} {pairs}"] = median_ms(torch, step, device, seconds)
            if device == "cuda":
                replay = capture(torch, step)
                key = f"{name} {pairs} graph"
                results[key] = median_ms(torch, replay, device, seconds / 2)
    return results


def capture(torch, step):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def median_ms(torch, run, device: str, seconds: float) -> float:
    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        run()
    wait()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        wait()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--old", type=source_tree, help="src of the tree before")
    options.add_argument("--new", type=source_tree, default="src")
    options.add_argument("--device", choices=list(SIZES), default="cpu")
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--seconds", type=float, default=0.15)
    options.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options.add_argument("--measure", action="store_true", help="one process of it")
    given = options.parse_args()
    if given.measure:
        print(json.dumps(measure(given.device, given.seconds)))
        return
    if given.old is None:
        options.error("--old is the src folder of the tree to compare with.")
    if given.device == "cuda":
        require_cuda(options)
    given.out.mkdir(parents=True, exist_ok=True)
    best: dict[str, dict[str, float]] = {"old": {}, "new": {}}
    command = [sys.executable, __file__, "--measure", "--device", given.device]
    command += ["--seconds", str(given.seconds)]
    for _ in range(given.turns):
        for tree, place in (("old", given.old), ("new", given.new)):
            env = os.environ | {"PYTHONPATH": str(place.resolve())}
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
            for key, value in json.loads(done.stdout.splitlines()[-1]).items():
                best[tree][key] = min(value, best[tree].get(key, value))
    write(best, given.device, given.out)


def write(best: dict, device: str, out: Path) -> None:
    import torch

    lines = ["| loss, pairs | old, ms | new, ms | new / old |", "|---|---|---|---|"]
    lines += [
        f"| {key} | {old:.3f} | {best['new'][key]:.3f} | {best['new'][key] / old:.2f} |"
        for key, old in best["old"].items()
        if key in best["new"]
    ]
    where = torch.cuda.get_device_name() if device == "cuda" else platform.processor()
    about = (
        f"{datetime.now(UTC):%Y-%m-%d}, {where or 'CPU'}, torch {torch.__version__}, "
        f"`python {shlex.join(sys.argv)}`. Width 128, forward and backward, best of "
        "the medians of processes that take turns; 'graph' is a replayed CUDA graph."
    )
    text = "\n".join([about, "", *lines]) + "\n"
    (out / f"trees_{device}.md").write_text(
        f"# The losses, before and after a change\n\n{text}"
    )
    print(text)


if __name__ == "__main__":
    main()
