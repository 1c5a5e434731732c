"""The figures this package promises for its losses on a GPU, measured one by one.

    python benchmarks/targets.py --out results
    python benchmarks/targets.py --parts large --out results    # the others stay

Time and memory of forward and backward for 16-bit rows, gradient errors against
float64, repeatability, and small batches beside torch.compile and as a CUDA graph.
"""

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch

import invariance as inv
from checks import require_cuda
from kernels import graph_ms, median_ms, warm_up
from loss_job import facts, plain_nt_xent, step

FAMILY = {
    "nt_xent": inv.nt_xent,
    "dcl": inv.dcl,
    "dhel": inv.dhel,
    "flat_nce": inv.flat_nce,
    "debiased": inv.debiased,
    "debiased, hard": lambda u, v: inv.debiased(u, v, hardness=1.0),
    "sup_con": lambda u, v: inv.sup_con(
        torch.cat([u, v]), torch.arange(len(u), device=u.device).repeat(2) // 4
    ),
    "info_nce": inv.info_nce,
    "sig_lip": inv.sig_lip,
    "kcl": inv.kcl,
    "kcl log": lambda u, v: inv.kcl(u, v, kernel="log"),
    "align_uniform": inv.align_uniform,
}


class Nothing(torch.autograd.Function):
    """What PyTorch itself takes for a loss that computes nothing."""

    @staticmethod
    def forward(ctx, u, v):
        ctx.save_for_backward(u, v)
        return u.new_empty((), dtype=torch.float32)

    @staticmethod
    def backward(ctx, outer):
        return tuple(torch.empty_like(x) for x in ctx.saved_tensors)


def views(pairs: int, d: int, dtype: torch.dtype, noise: float = 1.0) -> list:
    centre = torch.randn(pairs, d, device="cuda")
    return [
        (centre + noise * torch.randn_like(centre)).to(dtype).requires_grad_()
        for _ in range(2)
    ]


def timed(loss: Callable, pairs: int, d: int, repeats: int = 5) -> dict:
    """Median milliseconds, and peak memory above the inputs."""
    u, v = views(pairs, d, torch.bfloat16)
    warm_up(lambda: step(loss, u, v), 0.15)
    u.grad = v.grad = None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    times = []
    for _ in range(repeats):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        marks[0].record()
        step(loss, u, v)
        marks[1].record()
        torch.cuda.synchronize()
        times.append(marks[0].elapsed_time(marks[1]))
    gb = (torch.cuda.max_memory_allocated() - before) / 1e9
    return {"ms": statistics.median(times), "gb": gb}


def show(name: str, **figures: float) -> dict:
    print(f"{name:44}", *(f"{k} {v:.4g}" for k, v in figures.items()), flush=True)
    return {"what": name, **figures}


def large() -> list[dict]:
    rows = [
        show("nt_xent 65,536 d=128 (26 ms, 0.3 GB)", **timed(inv.nt_xent, 65536, 128)),
        show("nt_xent 8,192 d=128 (0.5 ms)", **timed(inv.nt_xent, 8192, 128, 20)),
        show("nt_xent 65,536 d=256", **timed(inv.nt_xent, 65536, 256)),
        show("info_nce 65,536 d=128", **timed(inv.info_nce, 65536, 128)),
        show("info_nce 65,536 d=512 (40 ms, 1 GB)", **timed(inv.info_nce, 65536, 512)),
        show("nt_xent 65,536 d=512", **timed(inv.nt_xent, 65536, 512, 3)),
        show("nt_xent 2^20 (6500 ms, 6 GB)", **timed(inv.nt_xent, 2**20, 128, 1)),
    ]
    rows += [
        show(f"family, 65,536 pairs: {name}", **timed(loss, 65536, 128, 3))
        for name, loss in FAMILY.items()
    ]
    torch.set_float32_matmul_precision("highest")
    u, v = views(65536, 128, torch.float32)
    ms = median_ms(lambda: step(inv.nt_xent, u, v))
    return [*rows, show("nt_xent 65,536 d=128, float32 exact", ms=ms)]


def small() -> list[dict]:
    """Batches too small to fill a device, where starting kernels is the time."""
    rows = []
    compiled = torch.compile(plain_nt_xent, dynamic=False)
    ours_compiled = torch.compile(inv.nt_xent, dynamic=False)
    for pairs in (512, 8192):
        u, v = views(pairs, 128, torch.bfloat16)
        for name, loss in (
            ("a function that does nothing", Nothing.apply),
            ("plain PyTorch", plain_nt_xent),
            ("torch.compile", compiled),
            ("ours", inv.nt_xent),
            ("ours, compiled", ours_compiled),
            ("info_nce", inv.info_nce),
            ("dhel", inv.dhel),
        ):
            call = lambda loss=loss, u=u, v=v: step(loss, u, v)  # noqa: E731
            figures = {"ms": median_ms(call), "host_ms": host_ms(call)}
            figures["queued_ms"] = queued_ms(call)
            if not name.startswith(("plain", "a function")):
                figures["graph_ms"] = graph_ms(
                    lambda loss=loss, u=u, v=v: torch.autograd.grad(loss(u, v), (u, v))
                )
            rows.append(show(f"{pairs} pairs, {name}", **figures))
    return [*rows, *launches()]


def launches() -> list[dict]:
    """What starting kernels costs: by our way, by Triton's, and forward alone."""
    from invariance.partition.triton import _launch

    u, v = views(512, 128, torch.bfloat16)
    rows = []
    for name, direct in (("ours", True), ("Triton's", False)):
        _launch.DIRECT = direct
        _launch._compiled.clear()
        _launch.forget_launches()
        for what, call in (
            ("forward and backward", lambda: step(inv.nt_xent, u, v)),
            ("forward", lambda: inv.nt_xent(u, v)),
        ):
            call()
            figures = {"host_ms": host_ms(call)}
            rows.append(show(f"512 pairs, launches {name}, {what}", **figures))
    _launch.DIRECT = True
    return rows


def queued_ms(call: Callable[[], object]) -> float:
    """One of many calls in a row, by the device's clock: as in a training loop."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    marks[0].record()
    for _ in range(20):
        call()
    marks[1].record()
    torch.cuda.synchronize()
    return marks[0].elapsed_time(marks[1]) / 20


def host_ms(call: Callable[[], object]) -> float:
    """What one call costs the host alone, the device being asynchronous."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        call()
    spent = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e3 * spent / 20


def profile() -> list[dict]:
    """Where the time of 8,192 pairs goes, by kernel."""
    u, v = views(8192, 128, torch.bfloat16)
    step(inv.nt_xent, u, v)
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as found:
        step(inv.nt_xent, u, v)
        torch.cuda.synchronize()
    rows = []
    for event in sorted(found.key_averages(), key=lambda e: -e.device_time_total)[:14]:
        name = f"profile: {event.key[:32]} x{event.count}"
        rows.append(show(name, us=event.device_time_total))
    return rows


def errors() -> list[dict]:
    """Relative gradient errors of float32 leaves against float64."""
    rows = []
    cases = {
        "nt_xent": inv.nt_xent,
        "info_nce": inv.info_nce,
        "dcl": inv.dcl,
        "dhel": inv.dhel,
    }
    for d in (128, 512):
        for noise in (1.0, 0.2):
            u, v = views(4096, d, torch.float32, noise)
            for name, loss in cases.items() if d == 128 else [("nt_xent", inv.nt_xent)]:
                for tau in (0.1, 0.02):
                    exact = gradient(loss, u.double(), v.double(), tau)
                    figures = {}
                    for setting, kind in (("high", "half"), ("highest", "exact")):
                        torch.set_float32_matmul_precision(setting)
                        got = gradient(loss, u, v, tau).double()
                        figures[kind] = float((got - exact).norm() / exact.norm())
                    what = f"gradient error, {name} d={d} noise {noise} tau {tau}"
                    rows.append(show(what, **figures))
    torch.set_float32_matmul_precision("highest")
    return rows


def gradient(loss: Callable, u, v, tau: float) -> torch.Tensor:
    u, v = (x.detach().requires_grad_() for x in (u, v))
    return torch.cat(torch.autograd.grad(loss(u, v, temperature=tau), (u, v)))


def repeats() -> list[dict]:
    """How many of 100 repetitions differ in a single bit."""
    rows = []
    for name, pairs, d in (("nt_xent", 8192, 128), ("info_nce", 4096, 512)):
        u, v = views(pairs, d, torch.float16)
        loss = FAMILY[name]

        def once(loss=loss, u=u, v=v) -> torch.Tensor:
            value = loss(u, v)
            flat = [value.reshape(1), *torch.autograd.grad(value, (u, v))]
            return torch.cat([x.flatten().float() for x in flat])

        first = once()
        different = sum(not torch.equal(once(), first) for _ in range(100))
        rows.append(show(f"{name} d={d}: differing of 100", runs=different))
    return rows


PARTS = {
    "large": large,
    "small": small,
    "profile": profile,
    "errors": errors,
    "repeats": repeats,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    require_cuda(parser)
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    about = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", "benchmarks/targets.py", *sys.argv[1:]]),
        **{k: v for k, v in facts("cuda").items() if k not in ("objectives", "peers")},
    }
    path = options.out / "kernel_targets.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for part in options.parts:
        try:
            rows = PARTS[part]()
        except Exception as error:  # the other parts still tell something
            rows = [{"failed": f"{type(error).__name__}: {error}"[:2000]}]
            print(part, rows, flush=True)
        results[part] = about | {"rows": rows}
        path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
