"""Time and peak memory of our losses and those of other libraries, in one run.

    python benchmarks/loss.py --device cpu
    python benchmarks/loss.py --device cuda --dtype bfloat16
    python benchmarks/loss.py --parts growth

Three parts: ``peers``, NT-Xent and symmetric InfoNCE beside everyone who has them;
``family``, all our objectives at one size; ``growth``, memory up to 65,536 pairs. Every
figure is forward and backward in a process of its own (``loss_job.py``), beside other
libraries the best of some processes: where a process finds its memory can cost it half
as much again, all through its life. A run of all parts writes loss_<device>.md, .json
and .png; a run of some adds their names. Other libraries are the ``bench`` extra,
inf-cl is ``pip install inf_cl``: one that is not installed is named as missing.

On a CUDA device (``loss_cuda.py``) everything happens in one process and within
``--seconds``: all objectives, 512 to 1,048,576 pairs, three widths.
"""

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
AGREEMENT = 1e-4  # relative difference of two values that count as one
CUBIC_LIMIT = 512  # pairs; pytorch-metric-learning's memory grows with their cube
Row = dict[str, Any]
Results = dict[str, list[Row]]  # by part


class Bench:
    """Runs jobs one after the other and says what each gave."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.facts = self._child({"device": options.device})
        if "versions" not in self.facts:
            sys.exit(f"The benchmark could not start: {self.facts['words']}")
        self.names = self.facts.pop("objectives")
        self.peers = self.facts.pop("peers")

    def best(self, objective: str, who: str, pairs: int, repeats: int) -> Row:
        """The fastest of some processes."""
        rows = [self(objective, who, pairs, repeats)]
        while "ms" in rows[0] and len(rows) < self.options.processes:
            rows.append(self(objective, who, pairs, repeats))
        return min(rows, key=lambda row: row.get("ms", math.inf))

    def __call__(self, objective: str, who: str, pairs: int, repeats: int) -> Row:
        keys = ("device", "dtype", "width", "memory_gb")
        row = {"objective": objective, "who": who, "pairs": pairs, "repeats": repeats}
        words = self._why_not(who, pairs)
        job = row | {key: getattr(self.options, key) for key in keys}
        row |= {"words": words} if words else self._child(job)
        ending = row.get("words") or f"{row['ms']:,.1f} ms, {row['mb']:,.0f} MB"
        print(f"{objective:14} {who:24} {pairs:>9,} pairs  {ending}", flush=True)
        return row

    def _why_not(self, who: str, pairs: int) -> str:
        if who == "inf_cl" and self.options.device == "cpu":
            return "needs CUDA"
        if who == "pytorch_metric_learning" and pairs > CUBIC_LIMIT:
            return f"not run above {CUBIC_LIMIT} pairs: memory grows with their cube"
        return ""

    def _child(self, job: Row) -> Row:
        command = [sys.executable, str(HERE / "loss_job.py"), json.dumps(job)]
        limits = {"capture_output": True, "timeout": self.options.timeout}
        try:
            done = subprocess.run(command, text=True, **limits)
        except subprocess.TimeoutExpired:
            return {"words": f"not done in {self.options.timeout:g} s"}
        if done.returncode:  # a library may end the process where PyTorch would raise
            memory = done.returncode == -9 or "alloc" in done.stderr
            last = [*done.stderr.strip().splitlines(), f"exit {done.returncode}"][-2:]
            return {"words": "out of memory" if memory else f"failed: {last[0][:80]}"}
        return json.loads(done.stdout.splitlines()[-1])


def peers(bench: Bench, options: argparse.Namespace) -> list[Row]:
    rows = []
    for objective, others in bench.peers.items():
        if objective not in options.objectives:
            continue
        for pairs in options.pairs:
            us = bench.best(objective, "invariance", pairs, options.repeats)
            rows.append(us)
            for who in ("plain PyTorch", "torch.compile", *others):
                rows.append(bench.best(objective, who, pairs, options.repeats))
                compare(rows[-1], us)
    return rows


def family(bench: Bench, options: argparse.Namespace) -> list[Row]:
    names = ["nt_xent", *(n for n in options.objectives if n != "nt_xent")]
    size = options.family_pairs, options.repeats
    rows = [bench(name, "invariance", *size) for name in names]
    for row in rows[1:]:
        compare(row, rows[0])
    return rows


def growth(bench: Bench, options: argparse.Namespace) -> list[Row]:
    return [bench("nt_xent", "invariance", n, 1) for n in options.growth_pairs]


def compare(row: Row, base: Row) -> None:
    """Add ratios to the base and the relative difference of the values."""
    if "words" in row or "words" in base:
        return
    row["times_time"] = row["ms"] / base["ms"]
    if min(base["mb"], row["mb"]) >= 1:  # less is the noise of the allocator
        row["times_memory"] = row["mb"] / base["mb"]
    if row["objective"] == base["objective"]:
        row["difference"] = abs(row["value"] / base["value"] - 1)


def peers_text(rows: list[Row]) -> str:
    head = ["objective", "pairs", "who", "time", "of ours", "memory", "of ours"]
    names = [[r["objective"], f"{r['pairs']:,}", r["who"]] for r in rows]
    lines = [[*n, *figures(r), value(r)] for n, r in zip(names, rows, strict=True)]
    return markdown([*head, "value"], lines)


def value(row: Row) -> str:
    if "words" in row or row["who"] == "invariance":
        return "-"
    if "difference" not in row:
        return "not compared"
    word = "agrees" if row["difference"] <= AGREEMENT else "DIFFERS"
    return f"{word} ({row['difference']:.0e})"


def figures(row: Row) -> list[str]:
    if "words" in row:
        return [row["words"], "-", "-", "-"]
    time, memory = (
        f"{row[key]:,.2f} x" if key in row else "-"
        for key in ("times_time", "times_memory")
    )
    return [f"{row['ms']:,.1f} ms", time, f"{row['mb']:,.0f} MB", memory]


def family_text(rows: list[Row]) -> str:
    head = ["objective", "time", "of nt_xent's", "memory", "of nt_xent's"]
    table = markdown(head, [[r["objective"], *figures(r)] for r in rows])
    return f"At {rows[0]['pairs']:,} pairs.\n\n{table}"


def growth_text(rows: list[Row]) -> str:
    head = ["pairs", "time", "memory", "KB a pair", "the score matrix alone"]
    lines = []
    for r in rows:
        matrix = f"{(2 * r['pairs']) ** 2 * 4 / 2**20:,.0f} MB"
        time, _, memory, _ = figures(r)
        each = "-" if "words" in r else f"{r['mb'] * 1024 / r['pairs']:.1f}"
        lines.append([f"{r['pairs']:,}", time, memory, each, matrix])
    text = markdown(head, lines)
    ends = [r for r in (rows[0], rows[-1]) if r.get("mb", 0) > 0]
    if len(ends) < 2 or ends[0]["pairs"] == ends[1]["pairs"]:
        return text
    more = ends[1]["pairs"] / ends[0]["pairs"]
    power = math.log(ends[1]["mb"] / ends[0]["mb"]) / math.log(more)
    return f"{text}\n\nMemory grows as pairs^{power:.2f}; a score matrix, as pairs^2."


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(results: Results, path: Path) -> None:
    """Time and memory over pairs, both axes logarithmic; one row a comparison."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawn: dict[str, list[Row]] = {}
    for part in ("peers", "growth"):
        for row in results.get(part, []):
            title = row["objective"] + (", growth" if part == "growth" else "")
            drawn.setdefault(title, []).append(row)
    size = (10, 3.6 * len(drawn))
    plot, axes = plt.subplots(len(drawn), 2, figsize=size, squeeze=False)
    for (title, rows), pair in zip(drawn.items(), axes, strict=True):
        for axis, key, unit in zip(pair, ("ms", "mb"), ("ms", "MB"), strict=True):
            for who in dict.fromkeys(r["who"] for r in rows):
                ready = [r for r in rows if r["who"] == who and r.get(key, 0) > 0]
                points = [r["pairs"] for r in ready], [r[key] for r in ready]
                if ready:
                    axis.loglog(*points, "o-", label=who)
            axis.set(title=title, xlabel="pairs", ylabel=f"forward + backward, {unit}")
            ticks = sorted({r["pairs"] for r in rows})
            axis.set_xticks(ticks, [f"{n:,}" for n in ticks])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            if axis.lines:
                axis.legend(fontsize=8)
    plot.tight_layout()
    plot.savefig(path, dpi=120)


PARTS = {
    "peers": (peers, peers_text),
    "family": (family, family_text),
    "growth": (growth, growth_text),
}


def write(results: Results, facts: Row, options: argparse.Namespace) -> None:
    names = [] if len(options.parts) == len(PARTS) else options.parts
    kind = [options.dtype] if options.dtype != "float32" else []
    stem = options.out / "_".join(["loss", options.device, *kind, *names])
    options.out.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(facts | results, indent=2) + "\n")
    parts = [f"## {part}\n\n{PARTS[part][1](rows)}" for part, rows in results.items()]
    print(f"\n{parts[-1]}\n")
    notes = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    title = f"# Losses, forward and backward, {options.dtype}, width {options.width}"
    how = f"A value agrees if it is ours to {AGREEMENT:g}, relative, on equal inputs."
    page = "\n\n".join([title, how, *parts, "## Run", notes])
    stem.with_suffix(".md").write_text(page + "\n")
    if results.keys() & {"peers", "growth"}:
        figure(results, stem.with_suffix(".png"))
    print("Written:", *sorted(options.out.glob(f"{stem.name}.*")), "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    add("--objectives", nargs="+", help="all of the catalogue, unless named")
    add("--pairs", nargs="+", type=int, default=(512, 2048, 8192), help="for peers")
    add("--family-pairs", type=int, default=2048)
    sizes = [2**k for k in range(12, 17)]
    add("--growth-pairs", nargs="+", type=int, default=sizes)
    add("--width", type=int, default=128)
    add("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    add("--repeats", type=int, default=3, help="best (CPU) or median (CUDA) of")
    add("--processes", type=int, default=3, help="for peers, on a CPU")
    add("--timeout", type=float, default=600, help="seconds for one measurement")
    add("--memory-gb", type=float, default=16, help="for one on a CPU; 0: no limit")
    add("--out", type=Path, default=HERE / "results")
    cuda = parser.add_argument_group("on a CUDA device")
    cuda.add_argument("--seconds", type=float, default=600, help="for all of it")
    widths = {"nargs": "+", "type": int, "default": [128, 256, 512]}
    cuda.add_argument("--widths", **widths)
    text = "add to what an earlier run wrote there, which was out of time"
    cuda.add_argument("--go-on", action="store_true", help=text)
    options = parser.parse_args()
    if options.device == "cuda":
        import loss_cuda

        loss_cuda.run(options)
        return
    bench = Bench(options)
    options.objectives = options.objectives or bench.names
    if strange := set(options.objectives) - set(bench.names):
        parser.error(f"no objective {sorted(strange)}; there are {bench.names}")
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", "benchmarks/loss.py", *sys.argv[1:]]),
        "load_average": round(os.getloadavg()[0], 1),
        **bench.facts,
    }
    results: Results = {}
    for part in options.parts:
        results[part] = PARTS[part][0](bench, options)
        write(results, facts, options)  # a run that is stopped keeps what it has


if __name__ == "__main__":
    main()
