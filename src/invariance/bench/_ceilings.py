"""The most a machine can do: arithmetic, copying, starting operations.

Measured with what PyTorch has for each, on random numbers: products of large square
matrices (bf16 on a GPU, float32 on a CPU), a copy between two large tensors (bytes read
and bytes written both count), and many additions of one number, which take no time
themselves. On a GPU the last is read twice: started one by one by Python, and chained
in a CUDA graph, which is started as one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from torch import Tensor

from ..devices import free_bytes, usable_cores

STARTS = 1000  # operations that are started in a row


@dataclass(frozen=True)
class Ceilings:
    """What bounds everything else on this machine."""

    flops: float
    """Floating-point operations per second, in matrix products."""
    bytes: float
    """Bytes read and written per second, in a copy."""
    start: float
    """Seconds to start one operation from Python."""
    chained: float
    """Seconds per operation in a CUDA graph; without a GPU, as ``start``."""
    cores: int


def measure_ceilings(device: torch.device, *, quick: bool = False) -> Ceilings:
    """The ceilings of a device; quick ones are less exact."""
    side, n_bytes, precision = 1024, 1 << 28, torch.float32
    if device.type == "cuda":
        side, n_bytes, precision = 8192, 1 << 32, torch.bfloat16
        n_bytes = min(n_bytes, free_bytes(device) // 32 * 4)  # it is there three times
    if quick:
        side, n_bytes = side // 2, n_bytes // 16
    repeats = 3 if quick else 9
    a, b = (torch.randn(side, side, device=device, dtype=precision) for _ in range(2))
    least = partial(measure_seconds, device=device, repeats=repeats, take=min)
    product = least(lambda: a @ b)
    x = torch.rand(n_bytes // 4, device=device)
    y = torch.empty_like(x)
    copy = least(lambda: y.copy_(x))
    one = torch.zeros(1, device=device)
    start = least(lambda: add_often(one)) / STARTS
    chained = start
    if device.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            add_often(one)
        chained = least(graph.replay) / STARTS
    return Ceilings(
        flops=2 * side**3 / product,
        bytes=2 * n_bytes / copy,
        start=start,
        chained=chained,
        cores=usable_cores(),
    )


def add_often(number: Tensor) -> None:
    """Many operations that do next to nothing."""
    for _ in range(STARTS):
        number.add_(1)


def measure_seconds(
    call: Callable[[], object],
    device: torch.device,
    repeats: int,
    take: Callable[[list[float]], float] = median,
) -> float:
    """The median time of a call, the device's work included; two calls warm up.

    A ceiling takes the least instead: nothing else had the machine then.

    >>> measure_seconds(lambda: time.sleep(0.01), torch.device("cpu"), 3) > 0.009
    True
    """
    times = []
    for _ in range(repeats + 2):
        wait_for(device)
        began = time.perf_counter()
        call()
        wait_for(device)
        times.append(time.perf_counter() - began)
    return take(times[2:])


def wait_for(device: torch.device) -> None:
    """Until the device has done what it was asked."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()
