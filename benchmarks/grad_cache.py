"""Batches beyond memory: time and peak memory of a step that is encoded in pieces.

    python benchmarks/grad_cache.py                              # the table below
    python benchmarks/grad_cache.py 4096 4096:512 131072:2048 131072:2048:called

A job is batch, samples encoded at once, and whether steps are captured (the default) or
called. Random images of 32 pixels, two views each, ResNet-18 with the small stem, bf16,
nothing compiled, as `invariance train` runs. A step's time is the median of the epochs
after the first ones, which warm up and capture; the peak counts all of the process's
tensors, the resident images among them.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
import torch

import invariance as inv
from checks import piece_job

RESULTS = Path(__file__).parent / "results"
JOBS = ("512", "4096", "4096:512", "2048", "131072:2048:called", "131072:2048")
GIB = 2**30


def measure(job: str, images: np.ndarray, epochs: int, encoder: str) -> dict:
    """One row: seconds of a step, and the most memory that was used."""
    batch, micro, how = (*job.split(":"), "", "")[:3]
    n = int(batch)
    images = images[: max(n, min(len(images), 8 * n, 32_768))]
    ends: list[float] = []
    peaks: list[float] = []
    on_gpu = torch.cuda.is_available()

    def note(*_: object) -> dict[str, float]:
        if on_gpu:
            torch.cuda.synchronize()
            peaks.append(torch.cuda.max_memory_allocated() / GIB)
        ends.append(time.perf_counter())
        return {}

    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as out:
        settings = inv.Train(
            encoder=encoder,
            batch_size=n,
            micro_batch=int(micro) if micro else None,
            epochs=epochs - (how == "called"),
            knn_every=0,
            checkpoint_seconds=1e9,
            evaluate=False,
            quiet=True,
            out=out,
            optim=inv.Optim(name="sgd"),
            machine=inv.Machine(capture=how != "called", compile=False),
        )
        run = inv.train(settings, data=images, each_epoch=note)
        assert isinstance(run, inv.Run)
        losses = [reading["loss"] for reading in run.metrics]
        said = (run.folder / "train.log").read_text()
        replayed = "replayed from" in said and "capturing failed" not in said
    steps = len(images) // n
    seconds = [b - a for a, b in itertools.pairwise(ends)]
    late = seconds[-1:] if steps == 1 else seconds[len(seconds) // 2 :]
    return {
        "batch": n,
        "at once": int(micro or n),
        "steps": "captured" if replayed else "called",
        "ms per step": round(1000 * statistics.median(late) / steps, 1),
        "views/s": round(2 * n * steps / statistics.median(late)),
        "peak GiB": round(peaks[-1], 2) if on_gpu else "?",
        "last loss": round(losses[-1], 4),
    }


def main() -> None:
    """Measure the jobs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="*", type=piece_job, default=JOBS)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--encoder", default="resnet18")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    out = RESULTS / f"grad_cache_{device}.md"
    parser.add_argument("--out", type=Path, default=out)
    options = parser.parse_args()
    most = max(int(job.split(":")[0]) for job in options.jobs)
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (most, 32, 32, 3), dtype=np.uint8)
    rows: list[dict] = []
    for job in options.jobs:
        rows.append(measure(job, images, options.epochs, options.encoder))
        print(job, rows[-1], flush=True)
        write(rows, options.out, most, options.encoder)


def write(rows: list[dict], path: Path, most: int, encoder: str) -> None:
    """The table so far: a job that fails loses only itself."""
    lines = ["| " + " | ".join(rows[0]) + " |", "| " + " | ".join(["---"] * 7) + " |"]
    lines += ["| " + " | ".join(str(x) for x in row.values()) + " |" for row in rows]
    on_gpu = torch.cuda.is_available()
    facts = {
        "date": date.today(),
        "device": torch.cuda.get_device_name() if on_gpu else "CPU",
        "torch": torch.__version__,
        "images": f"up to {most:,} random ones of 32 pixels, two views each",
        "encoder": f"{encoder}, bf16",
    }
    lines += ["", *(f"- {name}: {fact}" for name, fact in facts.items())]
    path.write_text("\n".join(["# A contrast in pieces", "", *lines]) + "\n")


if __name__ == "__main__":
    main()
