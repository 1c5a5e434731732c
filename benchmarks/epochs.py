"""How long an epoch takes on a GPU: methods and batches, as `invariance train` runs.

    python benchmarks/epochs.py                          # the targets' table
    python benchmarks/epochs.py simclr:512:compiled byol:32:eager --minutes 2

50,000 random images of 32 pixels, ResNet-18 with the small stem, bf16, SGD, everything
else as by default. A row is the median of the epochs after the first, from the end of
one to the end of the next, logging included; what comes after training is left out.
``compiled`` has the encoder compiled, ``eager`` has not, ``auto`` is the default.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import invariance as inv
from checks import require_cuda

RESULTS = Path(__file__).parent / "results"
IMAGES, PIXELS = 50_000, 32
BATCHES = {512: "compiled", 256: "compiled", 128: "compiled", 64: "eager", 32: "eager"}
METHODS = ("dcl", "flatclr", "dhel", "kcl", "moco", "byol")
JOBS = [f"simclr:{batch}:{how}" for batch, how in BATCHES.items()]
JOBS += [f"{m}:{batch}:{BATCHES[batch]}" for batch in (512, 32) for m in METHODS]
COMPILE = {"compiled": True, "eager": False, "auto": "auto"}


def measure(method: str, batch: int, how: str, images: np.ndarray) -> dict:
    """The seconds of each epoch but the first."""
    ends: list[float] = []

    def note(*_: object) -> dict[str, float]:
        torch.cuda.synchronize()
        ends.append(time.perf_counter())
        return {}

    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        settings = inv.Train(
            method=method,
            encoder="resnet18",
            batch_size=batch,
            epochs=5 if batch >= 128 else 3,
            knn_every=0,
            evaluate=False,
            quiet=True,
            out=out,
            optim=inv.Optim(name="sgd"),
            machine=inv.Machine(compile=COMPILE[how]),
        )
        inv.train(settings, data=images, each_epoch=note)
    seconds = [b - a for a, b in itertools.pairwise(ends)]
    return {
        "method": method,
        "batch": batch,
        "encoder": how,
        "epoch_s": round(statistics.median(seconds), 3),
        "least_s": round(min(seconds), 3),
        "most_s": round(max(seconds), 3),
        "first_s": round(ends[0] - begin, 1),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }


def read_job(text: str) -> tuple[str, int, str]:
    """METHOD:BATCH:HOW."""
    method, batch, how = (*text.split(":"), "", "")[:3]
    if method not in inv.METHODS or not batch.isdecimal() or how not in COMPILE:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not METHOD:BATCH:HOW, with HOW one of {', '.join(COMPILE)}."
        )
    return method, int(batch), how


def page(rows: list[dict]) -> str:
    """A table, and what it was measured on."""
    head = list(rows[0])
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(str(row[k]) for k in head)} |" for row in rows]
    facts = {
        "date": time.strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "images": f"{IMAGES:,} of {PIXELS} pixels, ResNet-18, bf16",
    }
    return "\n".join([*lines, "", *(f"- {k}: {v}" for k, v in facts.items())]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add, jobs = parser.add_argument, [read_job(job) for job in JOBS]
    add("jobs", nargs="*", type=read_job, default=jobs, metavar="METHOD:BATCH:HOW")
    parser.add_argument("--minutes", type=float, default=30.0, help="start none later")
    parser.add_argument("--out", type=Path, default=RESULTS / "epochs_cuda.md")
    given = parser.parse_args()
    require_cuda(parser)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    shape = (IMAGES, PIXELS, PIXELS, 3)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    begin, rows = time.perf_counter(), []
    for job in given.jobs:
        if time.perf_counter() - begin > 60 * given.minutes:
            print("no time for", *job)
            continue
        rows.append(measure(*job, images))
        print(json.dumps(rows[-1]), flush=True)
        given.out.write_text(f"# Seconds per epoch\n\n{page(rows)}")


if __name__ == "__main__":
    main()
