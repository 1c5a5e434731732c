"""Images per second through SimCLR's views: ours, torchvision in workers, kornia.

    python benchmarks/views.py                # writes benchmarks/results/views_<device>
    python benchmarks/views.py --repeats 9

All do one SimCLR view of uint8 images held in memory: random resized crop, flip, color
jitter, grayscale, blur above 64 pixels, normalize. The peers run in turn within each
repeat, and the best repeat counts, so that other work on the machine hurts them alike.
torchvision, and our views as a transform, work on one image at a time in DataLoader
workers, which are started before the clock. kornia draws one order of the color changes
for a whole batch.

Two rates are taken: by the wall clock with all cores, and by the processor time of one
thread (images per core-second, without workers), which says what the work costs and
does not move when other programs use the machine.
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
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from invariance.views import Normalize, ViewSet, simclr, transform

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


def kornia(images: Tensor, device: str) -> Job:
    from kornia import augmentation as aug

    size, s = images.shape[-1], strength(images.shape[-1])
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
    images = images.to(device)

    def job() -> int:
        pipeline(images.float().div_(255))
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
    jobs: dict[str, Job], repeats: int, device: str, clock: Callable[[], float]
) -> dict[str, float]:
    best = dict.fromkeys(jobs, 0.0)
    for repeat in range(repeats + 1):  # the first warms up
        for name, job in jobs.items():
            start = clock()
            done = job()
            if device == "cuda":
                torch.cuda.synchronize()
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


def run(device: str, cases: list[tuple[int, int]], repeats: int) -> None:
    names = [n for n in PEERS if not (n in ONE_BY_ONE and device == "cuda")]
    rows = []
    for size, batch in cases:
        images = torch.randint(256, (batch, 3, size, size), dtype=torch.uint8)
        here = [n for n in names if n in ("invariance", "transform") or installed(n)]
        jobs = {name: PEERS[name](images, device) for name in here}
        row = {"size": size, "batch": batch}
        row["wall"] = measure(jobs, repeats, device, time.perf_counter)
        if device == "cpu":
            threads = torch.get_num_threads()
            torch.set_num_threads(1)
            jobs = {name: INLINE[name](images, device) for name in here}
            row["core"] = measure(jobs, repeats, device, time.process_time)
            torch.set_num_threads(threads)
        rows.append(row)
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", "benchmarks/views.py", *sys.argv[1:]]),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "workers": WORKERS,
        "repeats": repeats,
        "load_average": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "versions": {n: installed(n) for n in ("torch", "torchvision", "kornia")},
    }
    text = f"By the wall clock, all cores:\n\n{table(rows, names, 'wall')}"
    if device == "cpu":
        text += f"\n\nPer core-second, one thread:\n\n{table(rows, names, 'core')}"
    print(f"\nSimCLR views on {facts['device']}, images per second\n\n{text}\n")
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / f"views_{device}"
    stem.with_suffix(".json").write_text(
        json.dumps({**facts, "rows": rows}, indent=2) + "\n"
    )
    details = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    title = f"# SimCLR views, images per second (best of {repeats})"
    stem.with_suffix(".md").write_text(f"{title}\n\n{text}\n\n{details}\n")
    print(f"Written to {stem.name}.md and {stem.name}.json in benchmarks/results.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="the best one counts")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    run("cpu", [(32, 512), (96, 128), (224, 32)], arguments.repeats)
    if torch.cuda.is_available():
        run("cuda", [(32, 2048), (96, 512), (224, 256)], arguments.repeats)


if __name__ == "__main__":
    main()
