"""What repeating recorded launches is worth: the loss alone, and inside a training step.

    python benchmarks/tape.py --out results

A step is ResNet-18 with the small stem, two views of 32 pixels, bf16, NT-Xent and SGD.
Recording is switched off and on in turns within one process; medians of the turns.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import nn

import invariance as inv
from invariance.encoders import build_encoder
from invariance.partition._triton import _classes, _pair_loss
from loss_job import facts

SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
RECORDED = {module: module._recorded for module in (_pair_loss, _classes)}


def record(on: bool) -> None:
    """Repeat recorded launches, or compute every call anew."""
    for module, recorded in RECORDED.items():
        module._recorded = recorded if on else module._compute


class Step:
    """One training step on fixed images."""

    def __init__(self, pairs: int) -> None:
        self.network = nn.Sequential(
            build_encoder("resnet18", channels=3, image_size=32),
            nn.Linear(512, 512),
            nn.ReLU(),
            nn.Linear(512, 128),
        ).to("cuda", memory_format=torch.channels_last)
        self.images = torch.rand(2 * pairs, 3, 32, 32, device="cuda")
        self.images = self.images.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(), lr=1e-3, momentum=0.9
        )

    def __call__(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            z = self.network(self.images)
        inv.nt_xent(*z.chunk(2)).backward()
        self.optimizer.step()


class Loss:
    """The loss and its gradient alone."""

    def __init__(self, pairs: int) -> None:
        z = torch.randn(2, pairs, 128, device="cuda", dtype=torch.bfloat16)
        self.u, self.v = (x.clone().requires_grad_() for x in z)

    def __call__(self) -> None:
        self.u.grad = self.v.grad = None
        inv.nt_xent(self.u, self.v).backward()


def capture(step: Step) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        step()
    return graph


def timed(run, seconds: float) -> float:
    """Median milliseconds of a call, the device waited for after each."""
    torch.cuda.synchronize()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def compare(run_off, run_on, turns: int = 6, seconds: float = 0.3) -> dict:
    """Milliseconds without and with recordings, in turns."""
    times = {False: [], True: []}
    for on, run in ((False, run_off), (True, run_on)):
        record(on)
        for _ in range(4):  # compile, see a second time, record
            run()
    for _ in range(turns):
        for on, run in ((False, run_off), (True, run_on)):
            record(on)
            times[on].append(timed(run, seconds))
    off, on = (statistics.median(times[key]) for key in (False, True))
    spread = [round(min(times[k]), 3) for k in times] + [
        round(max(times[k]), 3) for k in times
    ]
    return {"off_ms": off, "on_ms": on, "saved": 1 - on / off, "range": spread}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", default="benchmarks/results")
    out = Path(options.parse_args().out)
    torch.backends.cudnn.benchmark = True
    rows = []
    for pairs in SIZES:
        loss = Loss(pairs)
        row = {"pairs": pairs, "loss alone": compare(loss, loss)}
        step = Step(pairs)
        row["eager step"] = compare(step, step)
        record(False)
        off = capture(step)
        record(True)
        on = capture(step)
        row["captured step"] = compare(off.replay, on.replay)
        rows.append(row)
        text = [
            f"{name}: {r['off_ms']:.3f} -> {r['on_ms']:.3f} ms ({r['saved']:+.1%})"
            for name, r in row.items()
            if name != "pairs"
        ]
        print(pairs, *text, sep="   ", flush=True)
        facts_and_rows = {"command": sys.argv, **facts("cuda"), "rows": rows}
        (out / "tape.json").write_text(json.dumps(facts_and_rows, indent=1))
        del step, off, on
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
