"""Zero-shot names of unseen combinations: clip and siglip on captioned shapes.

    python benchmarks/captioned_shapes.py --seeds 3 --methods clip siglip

Each run is ``invariance train captioned_shapes --method clip`` and nothing else. One in
five combinations of color and shape is never trained on; the test part shows those
alone, and each image is named by the nearest of all 80 combinations. The machine may be
busy with other things, so the cost is the processor time of the whole command (user and
system, evaluation and report included) and the steps, not the time on the clock alone.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLACE = Path(__file__).parent / "results" / "captioned_shapes"
METRICS = {
    "zero-shot": ("zero_shot", "accuracy"),
    "image to caption, recall@10": ("pairs", "image to caption recall@10"),
    "caption to image, recall@10": ("pairs", "caption to image recall@10"),
    "kNN of shapes": ("knn", "accuracy"),
    "linear probe of shapes": ("linear", "accuracy"),
}
COLUMNS = ("chance", "raw pixels", "untrained encoder", "trained encoder")


def train(method: str, seed: int, out: str, threads: int, extra: list[str]) -> dict:
    """One run by the command line: its scores, and what it cost."""
    command = [sys.executable, "-m", "invariance", "train", "captioned_shapes"]
    command += ["--method", method, "--seed", str(seed), "--out", out, "--quiet"]
    name = f"{method}-{seed}"
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [*command, "--name", name, *extra],
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    folder = Path(out) / name
    rows = [json.loads(x) for x in (folder / "evaluation.jsonl").open()]
    lines = [json.loads(x) for x in (folder / "metrics.jsonl").open()]
    scores = {
        f"{label} | {row['features']}": row["value"]
        for label, key in METRICS.items()
        for row in rows
        if (row["protocol"], row["metric"]) == key
    }
    return {
        "method": method,
        "seed": seed,
        "steps": max(line.get("step", 0) for line in lines),
        "cpu_seconds": after.ru_utime
        - before.ru_utime
        + after.ru_stime
        - before.ru_stime,
        "seconds": time.monotonic() - began,
        "threads": threads,
        "scores": scores,
    }


def render(runs: list[dict]) -> str:
    """A table per method: mean ± standard deviation over seeds, in per cent."""
    lines = ["# Captioned shapes: names of combinations never trained on", ""]
    for method in dict.fromkeys(run["method"] for run in runs):
        mine = [run for run in runs if run["method"] == method]
        cost = statistics.fmean(run["cpu_seconds"] for run in mine)
        clock = ", ".join(f"{run['seconds']:.0f}" for run in mine)
        lines += [
            f"## {method}, {len(mine)} seeds",
            "",
            f"{mine[0]['steps']:,} steps; {cost:.0f} s of processor time (user + "
            f"system) for the whole command, on {mine[0]['threads']} threads of a "
            f"machine with 2 cores; {clock} s by the clock.",
            "",
            f"| | {' | '.join(COLUMNS)} |",
            "|---|" + "---|" * len(COLUMNS),
        ]
        for label in METRICS:
            cells = []
            for column in COLUMNS:
                values = [
                    100 * run["scores"][key]
                    for run in mine
                    if (key := f"{label} | {column}") in run["scores"]
                ]
                spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
                same = len(set(values)) == 1
                cells.append(
                    f"{statistics.fmean(values):.1f}{'' if same else spread}"
                    if values
                    else "-"
                )
            lines.append(f"| {label} | {' | '.join(cells)} |")
        each = [f"{100 * r['scores']['zero-shot | trained encoder']:.1f}" for r in mine]
        lines += ["", f"Zero-shot by seed: {', '.join(each)} %.", ""]
    return "\n".join(lines)


def main() -> None:
    """Train, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=["clip", "siglip"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[])
    options = parser.parse_args()
    runs = []
    PLACE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as out:
        for method in options.methods:
            for seed in range(options.seeds):
                runs.append(train(method, seed, out, options.threads, options.extra))
                PLACE.with_suffix(".json").write_text(json.dumps(runs, indent=1) + "\n")
                PLACE.with_suffix(".md").write_text(render(runs) + "\n")
                print(json.dumps(runs[-1]), flush=True)


if __name__ == "__main__":
    main()
