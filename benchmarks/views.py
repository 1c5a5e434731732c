"""SimCLR's views: ours, torchvision's, kornia's, on a CPU and on a CUDA device.

    python benchmarks/views.py                # writes benchmarks/results/views_<device>
    python benchmarks/views.py --repeats 9 --devices cpu
    python benchmarks/views.py --devices cuda --compiled 512    # the batches to compile

All do SimCLR's views of uint8 images held in memory: random resized crop, flip, color
jitter, grayscale, blur above 64 pixels, normalize. On a CPU it is one view, in images
per second. The peers run in turn within each
repeat, and the best repeat counts, so that other work on the machine hurts them alike.
torchvision, and our views as a transform, work on one image at a time in DataLoader
workers, which are started before the clock. kornia draws one order of the color changes
for a whole batch.

Two rates are taken: by the wall clock with all cores, and by the processor time of one
thread (images per core-second, without workers), which says what the work costs and
does not move when other programs use the machine.

On a CUDA device it is the two views of a batch, in microseconds: by the fused kernels,
by our operations one after another, by the same compiled, each called from Python and
captured in a graph, and by the peers. kornia and torchvision are given whole batches
there; torchvision then draws one set of numbers for all images.
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from invariance.views import (
    DeviceViews,
    Draws,
    Normalize,
    ViewSet,
    simclr,
    transform,
)

RESULTS = Path(__file__).parent / "results"
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
WORKERS = 2
Job = Callable[[], int]  # does some images and says how many


def ours(images: Tensor, device: str) -> Job:
    size = images.shape[-1]
    views = ViewSet(simclr(size, n_views=1, normalize=Normalize(MEAN, STD)))
    images, ids = images.to(device), torch.arange(len(images))

    def job() -> int:
        views(images, samples=ids, seed=0, epoch=0)
        return len(images)

    return job


def kornia_pipeline(size: int, device: str) -> Callable[[Tensor], Tensor]:
    from kornia import augmentation as aug

    s = strength(size)
    blur = (
        [aug.RandomGaussianBlur(kernel(size), (0.1, 2.0), p=0.5)] if size > 64 else []
    )
    pipeline = nn.Sequential(
        aug.RandomResizedCrop((size, size)),
        aug.RandomHorizontalFlip(p=0.5),
        aug.ColorJitter(0.8 * s, 0.8 * s, 0.8 * s, 0.2 * s, p=0.8),
        aug.RandomGrayscale(p=0.2),
        *blur,
        aug.Normalize(torch.tensor(MEAN), torch.tensor(STD)),
    ).to(device)
    return lambda images: pipeline(images.float().div_(255))


def kornia(images: Tensor, device: str) -> Job:
    pipeline = kornia_pipeline(images.shape[-1], device)
    images = images.to(device)

    def job() -> int:
        pipeline(images)
        return len(images)

    return job


Transform = Callable[[Tensor], Tensor]


def by_torchvision(size: int) -> Transform:
    from torchvision.transforms import v2

    s = strength(size)
    jitter = v2.ColorJitter(0.8 * s, 0.8 * s, 0.8 * s, 0.2 * s)
    blur = [v2.RandomApply([v2.GaussianBlur(kernel(size))], p=0.5)]
    return v2.Compose(
        [
            v2.RandomResizedCrop(size, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.RandomApply([jitter], p=0.8),
            v2.RandomGrayscale(0.2),
            *(blur if size > 64 else []),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )


def by_transform(size: int) -> Transform:
    one = transform("simclr", size, n_views=1, normalize=Normalize(MEAN, STD))
    return lambda image: one(image)[0]


class PerImage(Dataset[Tensor]):
    """One image at a time, as a data set does it."""

    def __init__(self, images: Tensor, length: int, transform: Transform) -> None:
        self.images, self.length, self.transform = images, length, transform

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> Tensor:
        return self.transform(self.images[i % len(self.images)])


def in_workers(images: Tensor, device: str, make: Callable[[int], Transform]) -> Job:
    """Workers run ahead of the clock; many batches keep that to a small share."""
    n = min(len(images), 128)
    batches = 16 if images.shape[-1] <= 64 else 8
    loader = DataLoader(
        PerImage(images, n * batches, make(images.shape[-1])),
        batch_size=n,
        num_workers=WORKERS,
        persistent_workers=True,
        worker_init_fn=lambda _: torch.set_num_threads(1),
        multiprocessing_context="fork",
        prefetch_factor=2,
    )

    def job() -> int:
        return sum(len(batch.to(device)) for batch in loader)

    return job


def inline(images: Tensor, device: str, make: Callable[[int], Transform]) -> Job:
    """The same without workers: batches are collated in this process."""
    data = PerImage(images, len(images), make(images.shape[-1]))
    loader = DataLoader(data, batch_size=len(images))

    def job() -> int:
        return sum(len(batch) for batch in loader)

    return job


ONE_BY_ONE = {"transform": by_transform, "torchvision": by_torchvision}
WORKING = {name: partial(in_workers, make=make) for name, make in ONE_BY_ONE.items()}
PEERS = {"invariance": ours, **WORKING, "kornia": kornia}
INLINE = PEERS | {name: partial(inline, make=make) for name, make in ONE_BY_ONE.items()}


def strength(size: int) -> float:
    return 0.5 if size <= 64 else 1.0


def kernel(size: int) -> tuple[int, int]:
    k = max(3, size // 10 // 2 * 2 + 1)
    return k, k


def measure(
    jobs: dict[str, Job], repeats: int, clock: Callable[[], float]
) -> dict[str, float]:
    best = dict.fromkeys(jobs, 0.0)
    for repeat in range(repeats + 1):  # the first warms up
        for name, job in jobs.items():
            start = clock()
            done = job()
            rate = done / (clock() - start)
            best[name] = max(best[name], rate) if repeat else 0.0
    return best


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def table(rows: list[dict], names: list[str], kind: str) -> str:
    head = ["size", "batch", *names, *[f"ours / {n}" for n in names[1:]]]
    lines = [head, ["---:"] * len(head)]
    for row in rows:
        rates = row[kind]
        cells = [f"{rates[n]:,.0f}" if n in rates else "not installed" for n in names]
        ratios = [
            f"{rates[names[0]] / rates[n]:.1f} x" if n in rates else "-"
            for n in names[1:]
        ]
        lines.append([str(row["size"]), str(row["batch"]), *cells, *ratios])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def run_cpu(cases: list[tuple[int, int]], repeats: int) -> None:
    rows = []
    for size, batch in cases:
        images = torch.randint(256, (batch, 3, size, size), dtype=torch.uint8)
        here = [n for n in PEERS if n in ("invariance", "transform") or installed(n)]
        jobs = {name: PEERS[name](images, "cpu") for name in here}
        wall = measure(jobs, repeats, time.perf_counter)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        jobs = {name: INLINE[name](images, "cpu") for name in here}
        core = measure(jobs, repeats, time.process_time)
        torch.set_num_threads(threads)
        rows.append({"size": size, "batch": batch, "wall": wall, "core": core})
    text = f"By the wall clock, all cores:\n\n{table(rows, list(PEERS), 'wall')}"
    text += f"\n\nPer core-second, one thread:\n\n{table(rows, list(PEERS), 'core')}"
    write("cpu", f"SimCLR views, images per second (best of {repeats})", text, rows)


# ---------------------------------------------------------------- on a CUDA device


def run_cuda(
    cases: list[tuple[int, int, int]], repeats: int, to_compile: list[int]
) -> None:
    rows = []
    for size, source, batch in cases:
        shape = (max(4096 if size <= 64 else 512, batch), 3, source, source)
        images = torch.randint(256, shape, dtype=torch.uint8, device="cuda")
        row: dict = {"size": size, "source": source, "batch": batch, "microseconds": {}}
        for name, make in cuda_jobs(images, size, batch).items():
            if name.startswith("compiled") and batch not in to_compile:
                continue  # compiling takes about a minute
            try:
                row["microseconds"][name] = round(time_calls(*make(), repeats), 1)
            except Exception as error:
                print(f"{name} at {size} pixels: {type(error).__name__}: {error}")
        rows.append(row)
        print(row, flush=True)
    names = list(dict.fromkeys(name for row in rows for name in row["microseconds"]))
    lines = [["size", "from", "batch", *names], ["---:"] * (3 + len(names))]
    for row in rows:
        cells = [row["microseconds"].get(name) for name in names]
        lines.append(
            [
                *(str(row[key]) for key in ("size", "source", "batch")),
                *("-" if cell is None else f"{cell:,.0f}" for cell in cells),
            ]
        )
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    write("cuda", "Two SimCLR views of a batch, microseconds (median)", text, rows)


def cuda_jobs(images: Tensor, size: int, batch: int) -> dict[str, Callable]:
    """By name, what makes a call and says whether a graph captures it."""
    views = ViewSet(simclr(size, normalize=Normalize(MEAN, STD)))
    floats = images[:batch].float() / 255
    rows = [torch.randint(len(images), (batch,), device="cuda") for _ in range(4)]
    ids = torch.arange(batch, device="cuda")

    def kernels() -> Call:
        made = DeviceViews(views, images, dtype=torch.bfloat16, channels_last=True)
        keys = made.keys(0, 0)
        return lambda i: made(rows[i % len(rows)], keys)

    def operations() -> Call:  # floats, which the kernels do not read
        made = DeviceViews(views, floats, dtype=torch.bfloat16, channels_last=True)
        keys = made.keys(0, 0)
        return lambda i: made(ids, keys)

    def compiled() -> Call:
        key = DeviceViews(views, images).keys(0, 0)[0]

        def make(pixels: Tensor, samples: Tensor, key: Tensor) -> list[Tensor]:
            draws = [Draws.from_key(key, samples, view) for view in range(2)]
            return [views.make(i, pixels, d).bfloat16() for i, d in enumerate(draws)]

        run = torch.compile(make, dynamic=False)
        return lambda i: run(floats, ids, key)

    def whole_batch(make: Callable[[], Callable[[Tensor], Tensor]]) -> Call:
        pipeline = make()
        return lambda i: [pipeline(images[:batch]) for _ in range(2)]

    jobs: dict[str, Callable] = {}
    for call in (kernels, operations, compiled):
        jobs[f"{call.__name__}, captured"] = lambda call=call: (call(), True)
        jobs[call.__name__] = lambda call=call: (call(), False)
    if installed("kornia"):
        pipeline = partial(kornia_pipeline, size, "cuda")
        jobs["kornia"] = lambda: (whole_batch(pipeline), False)
    if installed("torchvision"):
        pipeline = partial(by_torchvision, size)
        jobs["torchvision"] = lambda: (whole_batch(pipeline), False)
    return jobs


Call = Callable[[int], object]  # makes the views of the i-th batch


def time_calls(call: Call, captured: bool, repeats: int) -> float:
    """Microseconds per call, the median over repeats."""
    for i in range(3):
        call(i)
    torch.cuda.synchronize()
    n = 10
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(n):
                call(i)
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        if captured:
            for _ in range(5):
                graph.replay()
        else:
            for i in range(n):
                call(i)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / n / (5 if captured else 1))
    return 1e6 * statistics.median(times[1:])


def write(device: str, title: str, text: str, rows: list[dict]) -> None:
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", "benchmarks/views.py", *sys.argv[1:]]),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "workers": WORKERS,
        "load_average": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "versions": {n: installed(n) for n in ("torch", "torchvision", "kornia")},
    }
    print(f"\n{title}, on {facts['device']}\n\n{text}\n")
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / f"views_{device}"
    stem.with_suffix(".json").write_text(
        json.dumps({**facts, "rows": rows}, indent=2) + "\n"
    )
    details = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    stem.with_suffix(".md").write_text(f"# {title}\n\n{text}\n\n{details}\n")
    print(f"Written to {stem.name}.md and {stem.name}.json in benchmarks/results.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    has = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    parser.add_argument("--devices", nargs="*", choices=has, default=has)
    parser.add_argument("--compiled", type=int, nargs="*", default=[])
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if "cpu" in arguments.devices:
        run_cpu([(32, 512), (96, 128), (224, 32)], arguments.repeats)
    if "cuda" in arguments.devices:
        small = [(32, 32, n) for n in (32, 128, 512, 2048)]
        cases = [*small, (224, 256, 64), (224, 256, 256)]
        run_cuda(cases, arguments.repeats, arguments.compiled)


if __name__ == "__main__":
    main()
