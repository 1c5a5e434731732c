"""Where the constants of the fused kernels come from: configurations and crossovers.

    python benchmarks/kernels.py --out results

Needs a CUDA device. ``sweep`` times candidate tile sides, warps and stages of every
kernel (the best belong into ``partition/triton/_launch.py``); ``crossover`` times a
kept matrix beside the fused kernels (for ``partition/_plan.py``). Candidates are
compiled side by side in processes of their own first, since compiling is most of it.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from checks import require_cuda

ROWS = 65536
Sides = tuple[int, ...]  # rows, columns, warps, stages and, perhaps, registers
CANDIDATES: dict[tuple[str, int, bool], list[Sides]] = {
    ("sums", 128, False): [
        *[(128, 64, 4, 3), (128, 64, 4, 2), (128, 64, 4, 4), (64, 128, 4, 3)],
        *[(64, 128, 4, 2), (128, 64, 8, 3), (128, 128, 8, 3), (64, 64, 4, 3)],
        *[(128, 64, 4, 2, 128)],
    ],
    ("triangle", 128, False): [
        *[(128, 64, 4, 3), (128, 64, 4, 2), (64, 128, 4, 3), (64, 128, 4, 2)],
        *[(128, 64, 8, 3), (128, 128, 8, 3), (128, 128, 8, 2), (256, 64, 8, 3)],
        *[(128, 64, 4, 2, 168), (64, 64, 4, 3)],
    ],
    ("triangle", 256, False): [
        *[(256, 64, 8, 3), (128, 64, 8, 3), (128, 64, 4, 3), (128, 64, 4, 2)],
    ],
    ("sums", 256, False): [(256, 64, 8, 3), (128, 64, 4, 3), (128, 64, 8, 3)],
    ("columns", 512, False): [
        *[(128, 256, 8, 3), (128, 128, 4, 3), (128, 128, 8, 4), (128, 256, 8, 4)],
    ],
    ("triangle", 512, False): [(128, 256, 8, 3), (128, 128, 4, 3), (128, 128, 8, 4)],
    ("gradient", 128, False): [
        *[(64, 128, 4, 2), (64, 128, 4, 3), (64, 64, 4, 3), (64, 64, 4, 2)],
        *[(128, 64, 8, 3), (128, 128, 8, 2), (128, 64, 4, 2), (64, 64, 4, 4)],
        *[(64, 128, 4, 2, 168), (128, 128, 8, 3)],
    ],
    ("gradient", 256, False): [
        *[(64, 64, 4, 2), (64, 64, 4, 3), (128, 64, 8, 3), (128, 64, 8, 2)],
        *[(64, 128, 4, 2)],
    ],
    ("gradient", 512, False): [
        *[(128, 256, 8, 3), (128, 128, 4, 3), (128, 256, 8, 4), (128, 128, 4, 4)],
        *[(256, 128, 8, 3)],
    ],
    ("triangle", 128, True): [(128, 64, 8, 3), (128, 32, 8, 3), (128, 64, 8, 2)],
    ("gradient", 128, True): [(64, 64, 4, 2), (64, 64, 4, 3), (64, 32, 4, 3)],
}
WORK = {"sums": 2, "triangle": 1, "columns": 2, "gradient": 4}  # times rows^2 width
Job = tuple[str, int, bool, Sides]


def jobs() -> list[Job]:
    return [(*key, c) for key, configs in CANDIDATES.items() for c in configs]


def warm_up(call: Callable[[], object], seconds: float) -> None:
    """Repeat it: a device that was idle has to raise its clock first."""
    end = time.monotonic() + seconds
    call()
    torch.cuda.synchronize()
    while time.monotonic() < end:
        call()
        torch.cuda.synchronize()


def median_ms(call: Callable[[], object], seconds: float = 0.15) -> float:
    """Median by the device's clock after a warm-up."""
    warm_up(call, seconds)
    times: list[float] = []
    while sum(times) < 1e3 * seconds or len(times) < 3:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        marks[0].record()
        call()
        marks[1].record()
        torch.cuda.synchronize()
        times.append(marks[0].elapsed_time(marks[1]))
    return statistics.median(times)


def unit(n: int, d: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(n, d, device="cuda"))


def prepared(kernel: str, d: int, exact: bool, n: int = ROWS) -> Callable[[], object]:
    """One launch of a kernel on two views of n / 2 samples, as a loss makes it."""
    from invariance.partition.triton import _device, _forward, _problem, _weights
    from invariance.partition.triton._backward import compute_gradients

    tiles, _ = _problem.round_to_tiles(unit(n, d), exact)
    state = torch.ones(8, device="cuda")
    scales = torch.full((1,), 10.0, device="cuda")
    form = _problem.Form(
        *(n, n, d),
        exact=exact,
        device=tiles.device,
        symmetric=True,
        ids=_device.PERIODIC_IDS.value,
        period=n // 2,
        safe=True,
    )
    problem = _problem.Problem(form, tiles, tiles, state)
    if kernel != "gradient":
        _forward.TRIANGLE_FROM["cuda"] = {"sums": 2**40}.get(kernel, 0)
        return lambda: _forward.sums(problem, scales, kernel == "columns")
    shared = torch.full((1, n), 1e-3, device="cuda")
    side = _weights.Side(shared, shared, shared)
    weights = _weights.Weights(_weights.Kind(), scales, side, side, scales, scales)
    return lambda: compute_gradients(problem, weights, True, False)


def run_job(job: Job, seconds: float) -> dict:
    from invariance.partition.triton import _launch

    kernel, d, exact, config = job
    table = _launch.TABLE["triangle" if kernel == "columns" else kernel, exact]
    key = d if d <= 272 else 0  # a width of its own, or that of rows too wide to hold
    before = table.get(key)
    table[key] = _launch.Config(*config)
    _launch.forget_launches()
    try:
        ms = median_ms(prepared(kernel, d, exact), seconds)
    except Exception as error:  # a candidate may need more than the device has
        return {"job": job, "words": str(error).splitlines()[0][:90]}
    finally:
        if before is None:
            del table[key]
        else:
            table[key] = before
    wide = d > 272 and kernel == "gradient"  # half of the scores, then products
    work = (3 if wide else WORK[kernel]) * ROWS**2 * d
    return {"job": job, "ms": ms, "tflops": work / ms / 1e9} | registers(kernel, d)


def registers(kernel: str, d: int) -> dict:
    """Registers and spilled bytes of what was compiled last."""
    from invariance.partition.triton import _launch

    name = "sum_rows"
    if kernel == "gradient":
        name = "write_weights" if d > 272 else "row_gradient_kernel"
    try:
        last = [k for k in _launch._compiled.values() if k.name == name][-1]
        return {"registers": (last.n_regs, last.n_spills)}
    except Exception as error:
        return {"registers": str(error)[:40]}


def compile_only(job: Job) -> None:
    run_job(job, 0.0)


def sweep(workers: int) -> list[dict]:
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        pool.map(compile_only, jobs(), chunksize=1)
    found = []
    for job in jobs():
        found.append(run_job(job, 0.1))
        print(line(found[-1]), flush=True)
    return found


def line(row: dict) -> str:
    kernel, d, exact, config = row["job"]
    ending = row.get("words") or (
        f"{row['ms']:8.3f} ms {row['tflops']:6.0f} TFLOP/s  {row['registers']}"
    )
    return (
        f"{kernel:9} d={d:<4} {'exact' if exact else 'half':5} {config!s:24} {ending}"
    )


@contextmanager
def only(backend: str) -> Iterator[None]:
    """Have "auto" mean one backend whatever the size, and two views go through it."""
    from invariance.partition import _plan

    before = _plan.FUSED_FROM, _plan.SAFE_SCALE
    _plan.FUSED_FROM = {2**31: 0 if backend == "triton" else 2**62}
    if backend == "blockwise":
        _plan.SAFE_SCALE = 0.0  # no scale is safe: no loss is one operation
    try:
        yield
    finally:
        _plan.FUSED_FROM, _plan.SAFE_SCALE = before


def crossover() -> list[dict]:
    """Kept matrix beside fused kernels, forward and backward, also as CUDA graphs.

    ``nt_xent`` is one operation for two views, ``dhel`` two log-partitions with ids.
    """
    import invariance as inv

    rows = []
    print("ms of wall clock (as a CUDA graph), forward and backward")
    for d in (128, 512):
        for pairs in (128, 512, 1024, 2048, 4096):
            u, v = (
                torch.randn(pairs, d, device="cuda", dtype=torch.bfloat16)
                for _ in range(2)
            )
            leaves = (u.requires_grad_(), v.requires_grad_())
            row: dict = {"pairs": pairs, "d": d}
            for loss in (inv.nt_xent, inv.dhel):
                for backend in ("blockwise", "triton"):

                    def call(loss=loss, leaves=leaves) -> None:
                        torch.autograd.grad(loss(*leaves), leaves)

                    with only(backend):
                        name = f"{loss.__name__} {backend}"
                        row[name] = median_ms(call, 0.02)
                        row[f"{name}, graph"] = graph_ms(call)
            rows.append(row)
            text = [
                f"{name} {row[name]:.3f} ({row[f'{name}, graph']:.3f})"
                for name in row
                if f"{name}, graph" in row
            ]
            print(f"d={d} {pairs:5} pairs:", " | ".join(text), flush=True)
    return rows


def graph_ms(call: Callable[[], object]) -> float:
    """The same, captured in a CUDA graph and replayed."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return median_ms(graph.replay, 0.02)


def ceilings() -> dict:
    found = {}
    for dtype in (torch.float16, torch.bfloat16):
        a, b = (torch.randn(8192, 8192, device="cuda", dtype=dtype) for _ in range(2))
        ms = median_ms(lambda a=a, b=b: a @ b)
        found[str(dtype)] = 2 * 8192**3 / ms / 1e9
    print("matrix product, TFLOP/s:", {k: round(v) for k, v in found.items()})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["ceilings", "sweep", "crossover"]
    parser.add_argument("--parts", nargs="+", default=parts, choices=parts)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    require_cuda(parser)
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    run = {"ceilings": ceilings, "crossover": crossover}
    run["sweep"] = lambda: sweep(options.workers)
    results = {}
    for part in options.parts:
        results[part] = run[part]()
        text = json.dumps(results, indent=1)
        (options.out / "kernels.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
