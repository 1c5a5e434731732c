"""What bf16 gains a training on a CPU, and what it costs; what compiling gains there.

    python benchmarks/precision.py                       # precision_cpu.md
    python benchmarks/precision.py --parts speed --turns 1 --out speed.md
    python benchmarks/precision.py --parts compile --turns 2 --out compile_cpu.md

Speed: images (texts, windows) per second of `invariance train` in float32 and in bf16,
several networks, in turns; shown is the best median of each. Compile: the same with the
encoder compiled and without, a few of the networks. Accuracy: the demo (SimCLR on 6,000
generated shapes, 20 epochs), some seeds in each precision, kNN and linear probe on the
test part, and the seconds that training took.
"""

import argparse
import contextlib
import io
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import torch

import invariance as inv
from intervals import show_mean
from invariance.devices import computes_bf16, read_cpu, usable_cores

RESULTS = Path(__file__).parent / "results"
PRECISIONS = ("32", "bf16")
SHAPES = {"data": "shapes", "batch_size": 64, "image_size": 96, "limit": 320}
SENTENCES = {"data": "paraphrases", "method": "simcse", "limit": 3000}
CAPTIONS = {"data": "captioned_shapes", "method": "clip", "limit": 3000}
RUNS: dict[str, dict[str, Any]] = {
    "tiny, 32 pixels (the demo's)": {"data": "shapes", "limit": 4000},
    "resnet18, 32 pixels": SHAPES | {"encoder": "resnet18", "image_size": 32},
    "resnet18, 96 pixels (photos')": SHAPES | {"encoder": "resnet18"},
    "resnet50, 96 pixels": SHAPES | {"encoder": "resnet50", "limit": 128},
    "vit_tiny_patch16_224, 96 pixels": SHAPES | {"encoder": "vit_tiny_patch16_224"},
    "simcse, sentences": SENTENCES,
    "clip, captions": CAPTIONS,
    "mobilenetv3_small_100, 96 pixels": SHAPES | {"encoder": "mobilenetv3_small_100"},
    "convnext_atto, 96 pixels": SHAPES | {"encoder": "convnext_atto"},
}
COMPILED = (
    "tiny, 32 pixels (the demo's)",
    "resnet18, 96 pixels (photos')",
    "vit_tiny_patch16_224, 96 pixels",
)


def train(
    settings: Mapping[str, Any], precision: str, out: str, *, compiled: bool = False
) -> inv.Run:
    """One run, of which nothing is said."""
    machine = inv.Machine(device="cpu", precision=precision, compile=compiled)
    with contextlib.redirect_stdout(io.StringIO()):
        run = inv.train(
            inv.Train(
                **settings,
                machine=machine,
                knn_every=0,
                evaluate=False,
                quiet=True,
                out=out,
            )
        )
    assert isinstance(run, inv.Run)
    return run


def measure_rate(
    settings: Mapping[str, Any], precision: str, *, compiled: bool = False
) -> float:
    """Samples per second, the median of the readings of two epochs after the first."""
    settings = {"epochs": 3, "log_every": 2} | settings
    with tempfile.TemporaryDirectory() as out:
        run = train(settings, precision, out, compiled=compiled)
        readings = [m for m in run.metrics if m["epoch"] > 1]
    return median(reading["time/images_per_second"] for reading in readings)


def compare_speed(turns: int) -> str:
    """A row per network."""
    best: dict[tuple[str, str], float] = {}
    for turn in range(turns):
        for name, settings in RUNS.items():
            for precision in PRECISIONS:
                rate = measure_rate(settings, precision)
                best[name, precision] = max(rate, best.get((name, precision), 0.0))
                print(turn, name, precision, f"{rate:,.1f} per second", flush=True)
    lines = [
        "| run | float32, samples/s | bf16, samples/s | bf16 / float32 |",
        "|---|---:|---:|---:|",
    ]
    for name in RUNS:
        exact, rounded = (best[name, precision] for precision in PRECISIONS)
        cells = [name, f"{exact:,.0f}", f"{rounded:,.0f}", f"{rounded / exact:.2f} x"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def compare_compiled(turns: int) -> str:
    """A row per network and precision."""
    lines = [
        "| run | precision | samples/s | compiled | compiled / not |",
        "|---|---|---:|---:|---:|",
    ]
    for name in COMPILED:
        for precision in PRECISIONS:
            best = [0.0, 0.0]
            for turn in range(turns):
                for compiled in (False, True):
                    how = {"compiled": compiled}
                    rate = measure_rate(RUNS[name], precision, **how)
                    best[compiled] = max(rate, best[compiled])
                    print(turn, name, precision, how, f"{rate:,.1f}", flush=True)
            cells = [name, precision, *(f"{rate:,.0f}" for rate in best)]
            lines.append(f"| {' | '.join(cells)} | {best[1] / best[0]:.2f} x |")
    return "\n".join(lines)


def compare_accuracy(seeds: Sequence[int]) -> str:
    """A row per precision."""
    rows: dict[str, list[dict[str, float]]] = {p: [] for p in PRECISIONS}
    for seed in seeds:
        for precision in PRECISIONS:
            with tempfile.TemporaryDirectory() as out:
                began = time.perf_counter()
                run = train({"seed": seed}, precision, out)
                row = {"seconds": time.perf_counter() - began}
                scores = inv.evaluate(
                    run.folder, protocols=["knn", "linear"], quiet=True
                )
                for name in ("knn", "linear"):
                    row[name] = 100 * scores.values(name)[0]
            rows[precision].append(row)
            print(seed, precision, json.dumps(row), flush=True)
    lines = [
        "| precision | seeds | kNN, % | linear probe, % | seconds of the training |",
        "|---|---:|---:|---:|---:|",
    ]
    for precision, measured in rows.items():
        cells = [
            show_mean([row[name] for row in measured])
            for name in ("knn", "linear", "seconds")
        ]
        lines.append(f"| {precision} | {len(measured)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known, usual = ["speed", "accuracy", "compile"], ["speed", "accuracy"]
    parser.add_argument("--parts", nargs="+", choices=known, default=usual)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=RESULTS / "precision_cpu.md")
    given = parser.parse_args()
    if not computes_bf16("cpu"):
        print("This CPU has no bf16 in hardware: it will be slower than float32.")
    name = read_cpu().get("model name", "CPU")
    turns = "of one turn" if given.turns == 1 else f"the best of {given.turns} turns"
    about = (
        f"{name}, {usable_cores()} cores, {datetime.now(UTC):%Y-%m-%d}, torch "
        f"{torch.__version__}, `python {shlex.join(sys.argv)}`. Samples per second "
        f"are {turns}. "
        "Up to 64 pixels a ResNet keeps all pixels in its first layers, so it is "
        "slower at 32 than at 96."
    )
    only_compiled = given.parts == ["compile"]
    title = "# A compiled encoder on a CPU" if only_compiled else "# bf16 on a CPU"
    parts = [title, about]
    if "speed" in given.parts:
        parts.append(compare_speed(given.turns))
    if "compile" in given.parts:
        parts.append(compare_compiled(given.turns))
    if "accuracy" in given.parts:
        parts += [
            "The demo, 20 epochs of 6,000 shapes:",
            compare_accuracy(given.seeds),
        ]
    text = "\n\n".join(parts) + "\n"
    given.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
