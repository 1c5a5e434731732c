"""What `--dry-run` predicts, beside what the run then takes: memory and time of epochs.

    python benchmarks/predictions.py                                # two CPU cores
    python benchmarks/predictions.py --device cuda 512 32 4096      # one GPU

On a CPU each prediction and each run has a process of its own (and its companions), so
that memory is that of the whole first process. On a GPU memory is that of tensors,
above what was there before. The time is the median of the epochs after the first, from
the end of one to the end of the next. On a CPU the exchange between two processes is
timed too, since the prediction states it: what a process receives per second when large
tensors are added up, and how long a call takes that carries one number.
"""

import argparse
import gc
import itertools
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from checks import require_cuda

RESULTS = Path(__file__).parent / "results"
MB = 2**20
CPU = {"images": 2048, "pixels": 32, "encoder": "tiny", "epochs": 3}
CUDA = {"images": 50_000, "pixels": 32, "encoder": "resnet18", "epochs": 3}


def do_job(job: dict[str, Any]) -> dict[str, float] | None:
    """Predict or run; only the process that writes has an answer."""
    import torch

    import invariance as inv
    from invariance.devices import peak_bytes, reset_peak

    shape = (job["images"], job["pixels"], job["pixels"], 3)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    ends: list[float] = []

    def note(*_: object) -> dict[str, float]:
        if job["device"] == "cuda":
            torch.cuda.synchronize()
        ends.append(time.perf_counter())
        return {}

    with tempfile.TemporaryDirectory() as out:
        settings = inv.Train(
            method=job["method"],
            encoder=job["encoder"],
            batch_size=job["batch"],
            epochs=job["epochs"],
            knn_every=0,
            evaluate=False,
            quiet=True,
            out=out,
            optim=inv.Optim(name="sgd"),
            dry_run=job["what"] == "predict",
            machine=inv.Machine(device=job["device"], devices=job["processes"]),
        )
        before = 0
        if job["device"] == "cuda":
            gc.collect()  # what the last job has left
            before = torch.cuda.memory_allocated()
            reset_peak("cuda")
        result = inv.train(settings, data=images, each_epoch=note)
    if job["what"] == "predict":
        return {
            "peak_mb": (result.peak_bytes - before) / MB,
            "epoch_s": result.seconds_per_epoch,
            "exchange_ms": 1e3 * result.exchange_seconds,
            "computing_ms": 1e3 * result.computing_seconds,
        }
    if not ends:
        return None
    epochs = [b - a for a, b in itertools.pairwise(ends)]
    peak = (peak_bytes(job["device"]) - before) / MB
    return {"peak_mb": peak, "epoch_s": statistics.median(epochs)}


def start_job(job: dict[str, Any]) -> dict[str, float]:
    """Do a job in a process of its own."""
    words = [sys.executable, __file__, "--job", json.dumps(job)]
    threads = {"OMP_NUM_THREADS": "1"}  # as each of two processes on two cores has
    done = subprocess.run(
        words, env=os.environ | threads, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{job} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(
    device: str, processes: int, batch: int, method: str, **changes: Any
) -> dict[str, Any]:
    """One row: predicted, measured, and their ratio."""
    base = (CUDA if device == "cuda" else CPU) | changes
    job = base | {"device": device, "processes": processes, "batch": batch}
    job |= {"method": method}
    answer = do_job if device == "cuda" else start_job
    said, seen = (answer(job | {"what": what}) for what in ("predict", "run"))
    return {
        "method": method,
        "encoder": f"{job['encoder']}, {job['pixels']} pixels",
        "processes": processes,
        "batch": batch,
        "peak MB, predicted": f"{said['peak_mb']:,.0f}",
        "measured": f"{seen['peak_mb']:,.0f}",
        "ratio": f"{said['peak_mb'] / seen['peak_mb']:.2f}",
        "epoch s, predicted": f"{said['epoch_s']:.2f}",
        "measured ": f"{seen['epoch_s']:.2f}",
        "ratio ": f"{said['epoch_s'] / seen['epoch_s']:.2f}",
        "ms per step, computing": f"{said['computing_ms']:.1f}",
        "exchange": f"{said['exchange_ms']:.2f}",
    }


def time_exchange(rank: int, port: int, answers: Any) -> None:
    """One of two processes that add up tensors of two sizes."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for n_bytes in (4, 16 * MB):
        numbers, seconds = torch.ones(n_bytes // 4), []
        for _ in range(10):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(numbers)
            seconds.append(time.perf_counter() - start)
        answers.put((rank, n_bytes, statistics.median(seconds[2:])))
    dist.barrier()
    dist.destroy_process_group()


def measure_link() -> dict[str, float]:
    """Gloo between two processes here."""
    context = multiprocessing.get_context("spawn")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    answers = context.Queue()
    both = [
        context.Process(target=time_exchange, args=(rank, port, answers))
        for rank in (0, 1)
    ]
    for process in both:
        process.start()
    found = [answers.get(timeout=120) for _ in range(4)]
    for process in both:
        process.join()
    seconds = {size: s for rank, size, s in found if rank == 0}
    return {"GB/s": 16 * MB / seconds[16 * MB] / 1e9, "ms per call": 1e3 * seconds[4]}


def page(rows: list[dict[str, Any]], link: dict[str, float] | None) -> str:
    """The table, and what it was measured on."""
    import torch

    head = list(rows[0])
    lines = [
        "# What a dry run predicts, beside the run",
        "",
        "A process's memory and its computing are measured by the dry run, on one "
        "process; the exchange of several is computed. Of `benchmarks/predictions.py`.",
        "",
        f"| {' | '.join(h.strip() for h in head)} |",
        f"|{' --- |' * len(head)}",
        *(f"| {' | '.join(str(row[k]) for k in head)} |" for row in rows),
        "",
    ]
    if link:
        lines += [
            f"Gloo between two processes here: {link['GB/s']:.2f} GB/s received while "
            f"16 MB are added up, {link['ms per call']:.2f} ms for one number.",
            "",
        ]
    on_gpu = torch.cuda.is_available()
    name = torch.cuda.get_device_name() if on_gpu else "CPU, one thread per process"
    facts = {"date": time.strftime("%Y-%m-%d"), "device": name}
    facts |= {"torch": torch.__version__}
    facts |= {"load": f"{os.getloadavg()[1]:.0f} on {os.cpu_count()} cores"}
    return "\n".join([*lines, *(f"- {k}: {v}" for k, v in facts.items())]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("batches", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--methods", nargs="+", default=["simclr"])
    parser.add_argument("--encoder")
    parser.add_argument("--images", type=int)
    parser.add_argument("--pixels", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seconds", type=float, default=600, help="start none later")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        answer = do_job(given.job)
        if answer is not None:
            print(json.dumps(answer))
        return
    on_gpu, begin, rows = given.device == "cuda", time.perf_counter(), []
    if on_gpu:
        require_cuda(parser)
    link = None if on_gpu else measure_link()
    out = given.out or RESULTS / f"predictions_{given.device}.md"
    counts = (1,) if on_gpu else (1, 2)
    names = ("encoder", "images", "pixels", "epochs")
    changes = {name: value for name in names if (value := getattr(given, name))}
    for method, batch, processes in itertools.product(
        given.methods, given.batches, counts
    ):
        if time.perf_counter() - begin > given.seconds:
            print(f"no time for {method} with batches of {batch}")
            continue
        rows.append(compare(given.device, processes, batch, method, **changes))
        print(json.dumps(rows[-1]), flush=True)
        out.write_text(page(rows, link))


if __name__ == "__main__":
    main()
