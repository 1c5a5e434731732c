"""What ``loss.py --device cuda`` does: every size and width, in one process.

Forward and backward by the device's clock, the median of as many repetitions as fit a
fraction of a second after another to warm up, of a long one the first; memory is the
peak above the inputs. A size is tried if the last one says that it will not take long;
the most telling figures come first, and what the time did not suffice for is named.
TFLOP/s count 6 N^2 d for NT-Xent and its kin (N = 2 pairs rows: scores, scores again,
one product of the gradient) and 8 N^2 d for two sides (N = pairs, two products),
whatever a program saves or wastes. Everything is compiled beforehand, by processes side
by side.
"""

import argparse
import importlib.util
import json
import multiprocessing
import shlex
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import loss_job
from kernels import warm_up

Row = dict[str, Any]
SIZES = (512, 2048, 8192, 16384, 32768, 65536, 131072, 262144, 1048576)
WIDTHS = (128, 256, 512)
FAMILY_SIZES = (512, 8192, 65536, 262144)
LARGEST = (1048576,)
COMPILED_SIZES = (512, 8192, 65536)
HEADLINES = {"nt_xent": 128, "info_nce": 512}  # the width shown in the figure
LONGEST = {True: 40.0, False: 1.2}  # seconds of one step: of ours, of others
WARM_SECONDS, REPEAT_SECONDS = 0.12, 0.06
LONG = 0.8  # seconds from which a step is taken once, without one to warm up
PROCESSES = 14  # that compile
WORK = {"nt_xent": 24, "info_nce": 8}  # times pairs^2 width


class Clock:
    """What is left of the time for everything."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()


def ceiling(dtype: torch.dtype) -> float:
    """TFLOP/s of a plain matrix product."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=dtype) for _ in range(2))
    times = [elapsed_ms(lambda: a @ b) for _ in range(12)]
    return 2 * 8192**3 / statistics.median(times) / 1e9


def elapsed_ms(call: Any) -> float:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    marks[0].record()
    call()
    marks[1].record()
    torch.cuda.synchronize()
    return marks[0].elapsed_time(marks[1])


def inputs(pairs: int, width: int, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(0)
    shape = {"generator": generator, "device": "cuda"}
    centre, *noise = (torch.randn(pairs, width, **shape) for _ in range(3))
    return [(centre + x).to(dtype).requires_grad_() for x in noise]


def measure(
    loss: Any, pairs: int, width: int, dtype: torch.dtype, expected: float
) -> Row:
    """Median milliseconds, peak megabytes above the inputs, and the value."""
    values = []
    try:
        u, v = inputs(pairs, width, dtype)

        def once() -> float:
            return elapsed_ms(lambda: values.append(loss_job.step(loss, u, v)))

        if expected < LONG:
            warm_up(once, WARM_SECONDS)
        u.grad = v.grad = None
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        times = [once()]
        enough = 1e3 * REPEAT_SECONDS
        while expected < LONG and (sum(times) < enough or len(times) < 5):
            times.append(once())
        mb = (torch.cuda.max_memory_allocated() - held) / 2**20
        return {"ms": statistics.median(times), "mb": mb, "value": float(values[-1])}
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        short = any(word in text for word in loss_job.NO_MEMORY)
        return {"words": "out of memory" if short else text.splitlines()[0][:80]}
    finally:
        u = v = None
        torch.cuda.empty_cache()


class Bench:
    """Measures one after the other and says what each gave."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.dtype = getattr(torch, options.dtype)
        self.clock = Clock(options.seconds)
        self.known: dict[tuple[str, str, int], list[Row]] = {}
        earlier = before(options)
        self.before = [r for r in earlier.get("rows", []) if "no time" not in str(r)]
        now = shlex.join(["python", "benchmarks/loss.py", *sys.argv[1:]])
        self.command = "; ".join([*filter(None, [earlier.get("command")]), now])
        for row in self.before:
            if "ms" in row:
                key = (row["objective"], row["who"], row["width"])
                self.known.setdefault(key, []).append(row)
        self.compile_all(options.widths)
        self.ceiling = ceiling(self.dtype)
        print(f"a matrix product: {self.ceiling:.0f} TFLOP/s", flush=True)

    def curve(
        self, objective: str, who: str, width: int, sizes: tuple[int, ...]
    ) -> list[Row]:
        """One loss over growing sizes, as far as memory and time go."""
        if who in loss_job.PACKAGES and importlib.util.find_spec(who) is None:
            return [self._row(objective, who, width, sizes[0], "not installed")]
        job = {"objective": objective, "who": who, "width": width, "device": "cuda"}
        torch.compiler.reset()  # it compiles a function for a few shapes, no more
        loss, rows = loss_job.build(job), []
        for pairs in sizes:
            if self.done(objective, who, width, pairs):
                continue
            expected = self._expected(objective, who, width, pairs)
            longest = LONGEST[who == "invariance"]
            if 1.2 * expected + 1 > self.clock.left():
                row = self._row(objective, who, width, pairs, "no time left")
            elif expected > longest:
                words = f"not run: about {expected:.0f} s"
                row = self._row(objective, who, width, pairs, words)
            else:
                found = measure(loss, pairs, width, self.dtype, expected)
                row = self._row(objective, who, width, pairs, found)
            rows.append(row)
            if "words" in row:
                break
            self.known.setdefault((objective, who, width), []).append(row)
        return rows

    def compile_all(self, widths: list[int]) -> None:
        """Fill the compilers' caches on disk, so that the run itself finds them."""
        sizes = {"invariance": (512, 8192, 16384), "torch.compile": COMPILED_SIZES[:2]}
        curves = [
            *[(name, "invariance", SIZES) for name in HEADLINES],
            *[(name, "invariance", (*FAMILY_SIZES, *LARGEST)) for name in family()],
            *[(name, "torch.compile", COMPILED_SIZES) for name in HEADLINES],
        ]
        jobs = [
            (objective, who, width, sizes[who], self.dtype)
            for objective, who, wanted in curves
            for width in widths
            if not all(self.done(objective, who, width, pairs) for pairs in wanted)
        ]
        start = time.monotonic()
        context = multiprocessing.get_context("spawn")
        with context.Pool(PROCESSES) as pool:
            pool.map(compile_one, jobs, chunksize=1)
        print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)

    def done(self, objective: str, who: str, width: int, pairs: int) -> bool:
        """Whether an earlier run measured it, or stopped at a smaller size."""
        curve = [
            row
            for row in self.before
            if (row["objective"], row["who"], row["width"]) == (objective, who, width)
        ]
        ended = any("words" in row and row["pairs"] < pairs for row in curve)
        return ended or any(row["pairs"] == pairs for row in curve)

    def _expected(self, objective: str, who: str, width: int, pairs: int) -> float:
        """Seconds of a step, if time above the smallest size's grows as the square."""
        known = self.known.get((objective, who, width), [])
        if not known:
            return 0.0
        last, least = known[-1], min(row["ms"] for row in known)
        seconds = last["ms"] / 1e3
        if last["ms"] < 2 * least:  # the host's time, which does not grow
            return seconds
        return seconds * (pairs / last["pairs"]) ** 2

    def _row(
        self, objective: str, who: str, width: int, pairs: int, found: Row | str
    ) -> Row:
        found = {"words": found} if isinstance(found, str) else found
        row = {"objective": objective, "who": who, "width": width, "pairs": pairs}
        row |= found
        if "ms" in row and objective in WORK:
            row["tflops"] = WORK[objective] * pairs**2 * width / row["ms"] / 1e9
            row["share"] = row["tflops"] / self.ceiling
        print(text_of(row), flush=True)
        return row


def text_of(row: Row) -> str:
    name = f"{row['objective']:14} {row['who']:14} d={row['width']:<4}"
    ending = row.get("words") or f"{row['ms']:10.3f} ms {row['mb']:9,.0f} MB"
    share = f"  {row['share']:4.0%} of the ceiling" if "share" in row else ""
    return f"{name} {row['pairs']:>9,} pairs {ending}{share}"


def run(options: argparse.Namespace) -> None:
    if not torch.cuda.is_available():
        sys.exit("There is no CUDA device.")
    bench = Bench(options)
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": bench.command,
        "ceiling_tflops": round(bench.ceiling),
        **{k: v for k, v in loss_job.facts("cuda").items() if "ject" not in k},
    }
    rows: list[Row] = list(bench.before)
    for width in options.widths:
        for objective in HEADLINES:
            rows += bench.curve(objective, "invariance", width, SIZES)
            for who, sizes in others(objective).items():
                rows += bench.curve(objective, who, width, sizes)
            write(rows, facts, options)
        for objective in family():
            rows += bench.curve(objective, "invariance", width, FAMILY_SIZES)
        write(rows, facts, options)
    figure(rows, stem(options).with_suffix(".png"))
    for width in options.widths:
        for objective in family():
            rows += bench.curve(objective, "invariance", width, LARGEST)
            write(rows, facts, options)


def family() -> list[str]:
    """The objectives that are not compared with other libraries."""
    return [name for name in loss_job.inv.OBJECTIVES if name not in HEADLINES]


def others(objective: str) -> dict[str, tuple[int, ...]]:
    """With whom an objective is compared, and at which sizes."""
    peers = [who for who in loss_job.PEERS[objective] if who != CUBIC]
    sizes = dict.fromkeys(["plain PyTorch", *peers], SIZES)
    return sizes | {"torch.compile": COMPILED_SIZES}


def before(options: argparse.Namespace) -> dict[str, Any]:
    """What an earlier run of the same versions left, if this is to go on with it."""
    if not options.go_on:
        return {}
    found = json.loads(stem(options).with_suffix(".json").read_text())
    now = json.loads(json.dumps(loss_job.facts("cuda")))
    if (found["versions"], found["device"]) != (now["versions"], now["device"]):
        sys.exit("The earlier run was of other versions or on another device.")
    return found


def compile_one(job: tuple) -> None:
    objective, who, width, sizes, dtype = job
    settings = {"objective": objective, "who": who, "width": width, "device": "cuda"}
    loss = loss_job.build(settings)
    for pairs in sizes:
        loss_job.step(loss, *inputs(pairs, width, dtype))
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


CUBIC = "pytorch_metric_learning"  # its memory grows with the cube of the pairs


def stem(options: argparse.Namespace) -> Path:
    options.out.mkdir(parents=True, exist_ok=True)
    return options.out / f"loss_cuda_{options.dtype}"


def write(rows: list[Row], facts: Row, options: argparse.Namespace) -> None:
    """What there is so far: a run that is stopped keeps it."""
    catalogue = list(loss_job.inv.OBJECTIVES)
    rows = sorted(rows, key=lambda r: (catalogue.index(r["objective"]), r["pairs"]))
    text = json.dumps(facts | {"rows": rows}, indent=1)
    stem(options).with_suffix(".json").write_text(text + "\n")
    title = f"# Losses on a GPU, forward and backward, {options.dtype}"
    parts = [title, " ".join(__doc__.split("\n\n")[1].split())]
    for width in WIDTHS:
        for objective in HEADLINES:
            some = select(rows, objective, width)
            if some:
                parts += [f"## {objective}, width {width}", table(some, "who")]
    rest = [r for r in rows if r["objective"] not in HEADLINES]
    for width in WIDTHS:
        some = [r for r in rest if r["width"] == width]
        if some:
            own = [
                r | {"who": r["objective"]}
                for r in rows
                if r["who"] == "invariance"
                and r["objective"] in HEADLINES
                and r["width"] == width
                and r["pairs"] in (*FAMILY_SIZES, *LARGEST)
            ]
            parts += [
                f"## All objectives, width {width}",
                table(own + [r | {"who": r["objective"]} for r in some], "objective"),
            ]
    notes = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    page = "\n\n".join([*parts, "## Run", notes])
    stem(options).with_suffix(".md").write_text(page + "\n")


def select(rows: list[Row], objective: str, width: int) -> list[Row]:
    return [r for r in rows if r["objective"] == objective and r["width"] == width]


def table(rows: list[Row], first: str) -> str:
    """One line a loss, one column a size: milliseconds, megabytes, share."""
    sizes = sorted({r["pairs"] for r in rows})
    lines = [[first, *(f"{n:,} pairs" for n in sizes)], ["---"] * (len(sizes) + 1)]
    for who in dict.fromkeys(r["who"] for r in rows):
        found = {r["pairs"]: cell(r) for r in rows if r["who"] == who}
        lines.append([who, *(found.get(n, "") for n in sizes)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(row: Row) -> str:
    if "words" in row:
        return row["words"]
    share = f", {row['share']:.0%}" if "share" in row else ""
    memory = f", {row['mb']:,.0f} MB" if "mb" in row else ""
    return f"{row['ms']:,.3g} ms{memory}{share}"


def figure(rows: list[Row], path: Path) -> None:
    """Time and memory over pairs, a row for each of the two losses compared."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    plot, axes = plt.subplots(len(HEADLINES), 2, figsize=(10, 7.2), squeeze=False)
    for (objective, width), pair in zip(HEADLINES.items(), axes, strict=True):
        some = sorted(select(rows, objective, width), key=lambda r: r["pairs"])
        for axis, key, unit in zip(pair, ("ms", "mb"), ("ms", "MB"), strict=True):
            for who in dict.fromkeys(r["who"] for r in some):
                ready = [r for r in some if r["who"] == who and r.get(key, 0) > 0]
                if ready:
                    points = [r["pairs"] for r in ready], [r[key] for r in ready]
                    bold = {"lw": 2.5, "color": "black"} if who == "invariance" else {}
                    axis.loglog(*points, "o-", ms=4, label=who, **bold)
            title = f"{objective}, width {width}"
            axis.set(title=title, xlabel="pairs", ylabel=f"forward + backward, {unit}")
            ticks = sorted({r["pairs"] for r in some})
            axis.set_xticks(ticks, [short(n) for n in ticks], fontsize=8)
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            if axis.lines:
                axis.legend(fontsize=8)
    plot.tight_layout()
    plot.savefig(path, dpi=120)
    plt.close(plot)


def short(n: int) -> str:
    return f"{n // 1024:,}k" if n >= 1024 else str(n)
