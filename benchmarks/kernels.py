"""Where the constants of the fused kernels come from: configurations and crossovers.

    python benchmarks/kernels.py --out results

Needs a CUDA device. ``sweep`` times candidate tile sides, warps and stages of every
kernel (the best belong into ``partition/_triton/_configs.py``); ``crossover`` times a
kept matrix beside the fused kernels (for ``partition/_plan.py``). Candidates are
compiled side by side in processes of their own first, since compiling is most of it.
"""

import argparse
import json
import multiprocessing
import statistics
from collections.abc import Callable
from pathlib import Path

import torch

ROWS = 65536
CANDIDATES: dict[tuple[str, int, bool], list[tuple[int, int, int, int]]] = {
    ("sums", 128, False): [
        *[(128, 64, 8, 3), (128, 128, 8, 3), (128, 64, 4, 3), (256, 64, 8, 3)],
        *[(64, 128, 4, 3), (64, 64, 4, 3), (128, 64, 8, 4), (64, 256, 4, 2)],
        *[(128, 128, 4, 3), (128, 256, 8, 2)],
    ],
    ("sums", 256, False): [
        *[(256, 64, 8, 3), (128, 64, 8, 3), (128, 128, 8, 2), (64, 128, 4, 2)],
        *[(128, 64, 4, 3)],
    ],
    ("sums", 512, False): [
        *[(128, 128, 8, 4), (128, 256, 8, 3), (128, 128, 4, 3), (256, 128, 8, 3)],
    ],
    ("sums", 128, True): [
        *[(128, 64, 8, 2), (128, 64, 8, 3), (64, 64, 4, 3), (128, 32, 4, 3)],
    ],
    ("gradient", 128, False): [
        *[(64, 128, 4, 3), (64, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 3)],
        *[(64, 128, 4, 2), (64, 64, 4, 4), (128, 64, 8, 2), (64, 32, 4, 4)],
        *[(128, 128, 8, 2), (64, 64, 4, 5)],
    ],
    ("gradient", 256, False): [
        *[(64, 64, 4, 2), (64, 64, 4, 3), (64, 128, 8, 2), (128, 64, 8, 2)],
        *[(128, 64, 8, 3), (64, 32, 4, 3)],
    ],
    ("gradient", 512, False): [
        *[(128, 256, 8, 3), (128, 128, 8, 4), (256, 128, 8, 3), (128, 128, 4, 3)],
    ],
    ("gradient", 128, True): [
        *[(64, 64, 4, 2), (64, 64, 8, 2), (64, 32, 4, 2), (128, 64, 8, 2)],
    ],
}
Job = tuple[str, int, bool, tuple[int, int, int, int]]


def jobs() -> list[Job]:
    return [(*key, c) for key, configs in CANDIDATES.items() for c in configs]


def median_ms(call: Callable[[], object], seconds: float = 0.15) -> float:
    """Median by the device's clock after a warm-up."""
    call()
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
    """One launch of a kernel on a symmetric problem with two rows a sample."""
    from invariance.partition import _triton
    from invariance.partition._triton import _forward

    tiles, bound = _triton.round_to_tiles(unit(n, d), exact)
    ids = torch.arange(n // 2, device="cuda").repeat(2)
    bounds = torch.stack([bound, bound])
    problem = _triton.Problem(tiles, tiles, bounds, n, n, d, ids, ids)
    scales = torch.full((1,), 10.0, device="cuda")
    if kernel == "sums":
        return lambda: _forward._sums(problem, scales, False)
    p, g = (torch.full((1, n), value, device="cuda") for value in (11.0, 1.0 / n))
    weights = _triton.softmax_weights(problem, scales, (p, g), (p, g), False)
    if problem.shape.wide:
        return lambda: _triton.wide_gradients(problem, weights, True, False)
    return lambda: _triton.row_gradient(problem, weights)


def run_job(job: Job, seconds: float) -> dict:
    from invariance.partition._triton import _configs

    kernel, d, exact, config = job
    # a width of its own, or that of rows too wide to be held
    _configs.TABLE[kernel, exact][d if d <= 272 else 0] = _configs.Config(*config)
    try:
        ms = median_ms(prepared(kernel, d, exact), seconds)
    except Exception as error:  # a candidate may need more than the device has
        return {"job": job, "words": str(error).splitlines()[0][:90]}
    work = {"sums": 2, "gradient": 4}[kernel] * ROWS**2 * d
    return {"job": job, "ms": ms, "tflops": work / ms / 1e9} | registers(kernel, d)


def registers(kernel: str, d: int) -> dict:
    """Registers and spilled bytes of what was compiled last."""
    from invariance.partition._triton import _gradient, _sums, _weights

    wide = {"sums": _sums.sum_rows, "gradient": _weights.write_weights}
    held = {"sums": _sums.sum_rows, "gradient": _gradient.gradient}
    function = (wide if d > 272 else held)[kernel]
    try:
        compiled = list(function.device_caches[0][0].values())
        # of the guarded pair the one that runs, not the one that stands by
        return {"registers": [(k.n_regs, k.n_spills) for k in compiled][-2:]}
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
        f"{kernel:9} d={d:<4} {'exact' if exact else 'half':5} {config!s:20} {ending}"
    )


def crossover() -> list[dict]:
    """Kept matrix beside fused kernels, forward and backward, also as CUDA graphs."""
    from invariance.partition import log_partition

    rows = []
    for d in (128, 512):
        for n in (512, 1024, 2048, 4096, 8192):
            row: dict = {"n": n, "d": d}
            z = unit(n, d).requires_grad_()
            ids = torch.arange(n // 2, device="cuda").repeat(2)

            def step(backend: str, precision: str, z=z, ids=ids) -> None:
                out = log_partition(
                    z, z, scale=10.0, row_ids=ids, column_ids=ids,
                    backend=backend, precision=precision,
                )  # fmt: skip
                torch.autograd.grad(out.mean(), z)

            for backend, precision in (
                ("blockwise", "auto"),
                ("triton", "half"),
            ):
                name = f"{backend} {precision}"

                def call(b=backend, p=precision, step=step) -> None:
                    step(b, p)

                row[name] = median_ms(call, 0.03)
                row[f"{name}, graph"] = graph_ms(call)
            rows.append(row)
            print({k: round(v, 3) for k, v in row.items()}, flush=True)
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
    parser.add_argument(
        "--parts", nargs="+", default=["ceilings", "sweep", "crossover"]
    )
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
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
