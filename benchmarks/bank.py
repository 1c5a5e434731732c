"""One loss step against a memory bank of ImageNet's size: time and memory.

    python benchmarks/bank.py                   # CPU
    python benchmarks/bank.py --device cuda

Forward and backward of InfoNCE for a batch of 256 against the 4,096 nearest of
1,281,167 rows (the ball), against a ring, and against all rows. Memory is what a step
needs on top of the bank.
"""

import argparse
import json
import platform
import resource
import statistics
import time
from pathlib import Path

import torch

import invariance as inv
from checks import require_cuda

ROWS, WIDTH, BATCH, K = 1_281_167, 128, 256, 4096


def peak_bytes(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(source: torch.nn.Module, device: str, repetitions: int) -> dict:
    generator = torch.Generator().manual_seed(1)
    u = torch.randn(BATCH, WIDTH, generator=generator).to(device).requires_grad_()
    ids = torch.randperm(ROWS, generator=generator)[:BATCH].to(device)
    objective = inv.InfoNCE(temperature=0.07)
    times = []
    for _ in range(repetitions):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        loss = objective.against(u, None, source, ids)
        loss.backward()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return {
        "seconds": statistics.median(times[1:] or times),
        "first": times[0],
        "loss": float(loss.detach()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = parser.parse_args()
    device = given.device
    if device == "cuda":
        require_cuda(parser)
    bank = inv.Bank(ROWS, WIDTH).to(device)
    where = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    facts = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "device": where,
        "threads": torch.get_num_threads(),
        "bank_mb": bank.z.numel() * 4 / 2**20,
    }
    sources = {
        "ball": inv.Ball(bank, k=K),
        "annulus": inv.Annulus(bank, inner=K // 4, outer=K),
        "bank": bank,
    }
    rows = []
    before = peak_bytes(device)
    for name, source in sources.items():
        row = {"source": name, **measure(source, device, given.repetitions)}
        row["peak_mb_above_bank"] = (peak_bytes(device) - before) / 2**20
        rows.append(row)
        print(json.dumps(row), flush=True)
    lines = [
        f"# A step against a bank of {ROWS:,} x {WIDTH} ({device})",
        "",
        f"{facts['date']}, {where}, torch {facts['torch']}, {facts['threads']} CPU "
        f"threads; InfoNCE, batch {BATCH}, forward and backward, float32; median of "
        f"{given.repetitions - 1} after the first. `python benchmarks/bank.py --device "
        f"{device}`. The bank itself is {facts['bank_mb']:.0f} MB; the peak is the "
        "process's so far, sources measured in this order.",
        "",
        "| negatives | seconds | peak above the bank |",
        "|---|---|---|",
    ]
    names = {
        "ball": f"ball, k = {K}",
        "annulus": f"ring, {K // 4} to {K}",
        "bank": "all",
    }
    for row in rows:
        seconds, peak = row["seconds"], row["peak_mb_above_bank"]
        lines.append(f"| {names[row['source']]} | {seconds:.3f} | {peak:.0f} MB |")
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"bank_{device}.md").write_text("\n".join(lines) + "\n")
    (given.out / f"bank_{device}.json").write_text(
        json.dumps({"facts": facts, "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
