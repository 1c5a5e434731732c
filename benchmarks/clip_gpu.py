"""CLIP at large batches: images per second, memory, and what the loss takes of a step.

    python benchmarks/clip_gpu.py 1024 32768:1024 32768:1024:called
    python benchmarks/clip_gpu.py 64 64:16 --size 32 --encoder tiny --text text_tiny

A job is pairs in one contrast, pairs encoded at once (all of them without a second
number; GradCache otherwise), and whether steps are captured (the default) or called.
Random images and captions of random words: what they show changes no time. A step's
time is the median of the epochs after the first, which compiles and captures; the peak
counts all of the process's tensors, the resident pairs among them. The loss is timed
alone, forward and backward, on rows of the same number, width and precision.
"""

import argparse
import json
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

import invariance as inv
from checks import piece_job
from invariance.data import Image, Samples, Text

RESULTS = Path(__file__).parent / "results"
GIB = 2**30
WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]


def make_pairs(n: int, size: int, length: int) -> Samples:
    """Random images with random sentences."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    words = random.Random(0)
    sentences = [" ".join(words.choices(WORDS, k=length)) for _ in range(n)]
    text = Text.fit(sentences[:10_000], length=length + 2)
    captions = Samples(sentences, text)
    return Samples(images, Image((3, size, size)), other=captions, name="random pairs")


def synchronize() -> None:
    """Wait for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def time_of(work: Callable[[], object], repeats: int = 5) -> float:
    """The median seconds of a call, after two that warm up."""
    times = []
    for _ in range(repeats + 2):
        synchronize()
        began = time.perf_counter()
        work()
        synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times[2:])


def time_loss(n: int, width: int, method: str) -> float:
    """Seconds of the loss alone, forward and backward."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    half = torch.bfloat16 if device == "cuda" else torch.float32
    u, v = (
        torch.randn(n, width, device=device, dtype=half, requires_grad=True)
        for _ in range(2)
    )
    learned = {"temperature": "learned"} if method == "clip" else {"learnable": True}
    kind = inv.InfoNCE if method == "clip" else inv.SigLIP
    objective = kind(**learned).to(device)
    return time_of(lambda: objective(u, v).backward())


def measure(job: str, pairs: Samples, options: argparse.Namespace) -> dict:
    """One row: what a step takes, in seconds and in memory."""
    batch, micro, how = (*job.split(":"), "", "")[:3]
    n, ends = int(batch), []
    on_gpu = torch.cuda.is_available()

    def note(*_: object) -> dict[str, float]:
        synchronize()
        ends.append(time.perf_counter())
        return {}

    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as out:
        settings = inv.Train(
            method=options.method,
            encoder=options.encoder,
            other_encoder=options.text,
            width=options.width,
            batch_size=n,
            micro_batch=int(micro) if micro else None,
            epochs=options.epochs,
            hold_out="nothing",
            knn_every=0,
            checkpoint_seconds=1e9,
            evaluate=False,
            quiet=True,
            out=out,
            machine=inv.training.Machine(capture=how != "called"),
        )
        inv.train(settings, data=pairs, each_epoch=note)
    steps = max(len(pairs) // n, 1)
    spans = [(b - a) / steps for a, b in pairwise(ends)]
    seconds, loss = (
        statistics.median(spans),
        time_loss(n, options.width, options.method),
    )
    peak = torch.cuda.max_memory_allocated() / GIB if on_gpu else None
    return {
        "job": job,
        "method": options.method,
        "towers": f"{options.encoder} at {options.size} pixels, {options.text}",
        "images_per_second": round(n / seconds, 1),
        "step_seconds": round(seconds, 4),
        "loss_seconds": round(loss, 5),
        "loss_share": round(loss / seconds, 4),
        "peak_gib": None if peak is None else round(peak, 2),
        "device": torch.cuda.get_device_name() if on_gpu else platform.processor(),
    }


def main() -> None:
    """Measure each job, print its row, keep the rows where a GPU gave them."""
    parser = argparse.ArgumentParser(description=__doc__)
    jobs = ["1024", "32768:1024"]
    parser.add_argument("jobs", nargs="*", type=piece_job, default=jobs)
    parser.add_argument("--method", choices=["clip", "siglip"], default="clip")
    parser.add_argument("--encoder", default="vit_small_patch16_224")
    parser.add_argument("--text", default="text_base")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    most = max(int(job.split(":")[0]) for job in options.jobs)
    pairs = make_pairs(most, options.size, options.length)
    rows = []
    for job in options.jobs:
        rows.append(measure(job, pairs, options))
        print(json.dumps(rows[-1]), flush=True)
    if torch.cuda.is_available():
        path = RESULTS / "clip_gpu.json"
        path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
