"""One measurement of one loss in a process of its own; ``loss.py`` starts it.

Takes a job as JSON in its only argument and prints the outcome as JSON on its last
line. A loss gets two leaves u and v of shape (pairs, width) and normalises them itself;
the clock covers forward and backward. The memory is the peak above what the process
held when inputs and libraries (tried on four pairs first) were in place, so gradients
and, for torch.compile, the compiler's own work are in it.
"""

import ctypes
import importlib.util
import json
import os
import platform
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

import invariance as inv

TAU = {"nt_xent": 0.5, "info_nce": 0.1}
PACKAGES = {  # the import name of each peer, and its name on the package index
    "lightly": "lightly",
    "pytorch_metric_learning": "pytorch-metric-learning",
    "open_clip": "open_clip_torch",
    "inf_cl": "inf_cl",
}
AT_LEAST_SECONDS = 0.5  # short ones are repeated for that long
NO_MEMORY = ("allocate memory", "not enough memory", "out of memory", "bad_alloc")
Loss = Callable[[Tensor, Tensor], Tensor]


def plain_nt_xent(u: Tensor, v: Tensor) -> Tensor:
    z = normalize(torch.cat([u, v]))
    logits = (z @ z.T / TAU["nt_xent"]).fill_diagonal_(-torch.inf)
    return cross_entropy(logits, torch.arange(len(z), device=z.device).roll(len(u)))


def plain_info_nce(u: Tensor, v: Tensor) -> Tensor:
    logits = normalize(u) @ normalize(v).T / TAU["info_nce"]
    target = torch.arange(len(u), device=u.device)
    return (cross_entropy(logits, target) + cross_entropy(logits.T, target)) / 2


PLAIN: dict[str, Loss] = {"nt_xent": plain_nt_xent, "info_nce": plain_info_nce}


def lightly(objective: str) -> Loss:
    from lightly.loss import NTXentLoss

    return NTXentLoss(temperature=TAU[objective])


def pytorch_metric_learning(objective: str) -> Loss:
    from pytorch_metric_learning.losses import NTXentLoss, SelfSupervisedLoss

    return SelfSupervisedLoss(NTXentLoss(temperature=TAU[objective]))


def open_clip(objective: str) -> Loss:
    from open_clip.loss import ClipLoss

    loss, scale = ClipLoss(), 1 / TAU[objective]
    return lambda u, v: loss(normalize(u), normalize(v), scale)


def inf_cl(objective: str) -> Loss:
    from inf_cl import cal_flash_loss

    def loss(u: Tensor, v: Tensor) -> Tensor:
        u, v, head = normalize(u), normalize(v), min(u.shape[1], 256)
        scaled = u / TAU[objective], v / TAU[objective]
        rows = cal_flash_loss(scaled[0], v, head_dim=head).mean()
        return (rows + cal_flash_loss(scaled[1], u, head_dim=head).mean()) / 2

    return loss


PEERS: dict[str, dict[str, Callable[[str], Loss]]] = {
    "nt_xent": {"lightly": lightly, "pytorch_metric_learning": pytorch_metric_learning},
    "info_nce": {"open_clip": open_clip, "inf_cl": inf_cl},
}


def ours(objective: str, width: int, device: str) -> Loss:
    """An entry of the catalogue, fed two views in the form it takes."""
    if objective in TAU:
        return inv.OBJECTIVES[objective](temperature=TAU[objective])
    settings = {"width": width} if objective == "swav" else {}
    module = inv.OBJECTIVES[objective](**settings).to(device)
    if objective == "multi_view":
        return lambda u, v: module(torch.stack([u, v]))
    if objective == "sup_con":
        ids = lambda u: torch.arange(len(u), device=u.device).repeat(2)  # noqa: E731
        return lambda u, v: module(torch.cat([u, v]), ids(u))
    return module


def build(job: dict) -> Loss:
    objective, who = job["objective"], job["who"]
    if who == "invariance":
        return ours(objective, job["width"], job["device"])
    if who == "plain PyTorch":
        return PLAIN[objective]
    if who == "torch.compile":
        return torch.compile(PLAIN[objective], dynamic=False)
    return PEERS[objective][who](objective)


def inputs(pairs: int, job: dict) -> tuple[Tensor, Tensor]:
    """Two views that agree about as well as half-trained ones; for all the same."""
    generator = torch.Generator().manual_seed(0)
    centre, *noise = (
        torch.randn(pairs, job["width"], generator=generator) for _ in range(3)
    )
    kind = {"device": job["device"], "dtype": getattr(torch, job["dtype"])}
    u, v = ((centre + x).to(**kind).requires_grad_() for x in noise)
    return u, v


def step(loss: Loss, u: Tensor, v: Tensor) -> Tensor:
    u.grad = v.grad = None
    value = loss(u, v)
    value.backward()
    return value.detach()


def resident(peak: bool) -> float:
    """Megabytes of memory this process has now, or had at most."""
    status = Path("/proc/self/status")
    if status.exists():
        field = "VmHWM" if peak else "VmRSS"
        return int(re.search(rf"{field}:\s+(\d+)", status.read_text())[1]) / 1024
    unit = 2**20 if platform.system() == "Darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def on_cpu(loss: Loss, u: Tensor, v: Tensor, repeats: int) -> dict:
    """Best time of some repeats, a warm-up before them; of one alone, that one."""
    clear, seconds = Path("/proc/self/clear_refs"), []
    if clear.exists():  # give back and forget what importing has left
        getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)
        clear.write_text("5")
    start_mb = resident(peak=False)
    enough = AT_LEAST_SECONDS if repeats > 1 else 0
    while len(seconds) < repeats + (repeats > 1) or sum(seconds) < enough:
        start = time.perf_counter()
        value = step(loss, u, v)
        seconds.append(time.perf_counter() - start)
    mb = resident(peak=True) - start_mb
    return {"ms": 1e3 * min(seconds), "mb": mb, "value": float(value)}


def on_cuda(loss: Loss, u: Tensor, v: Tensor, repeats: int) -> dict:
    """Median time by the device's own clock."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start_bytes = torch.cuda.memory_allocated()
    for _ in range(3 if repeats > 1 else 1):
        value = step(loss, u, v)
    times = []
    for _ in range(repeats):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        marks[0].record()
        value = step(loss, u, v)
        marks[1].record()
        torch.cuda.synchronize()
        times.append(marks[0].elapsed_time(marks[1]))
    mb = (torch.cuda.max_memory_allocated() - start_bytes) / 2**20
    return {"ms": statistics.median(times), "mb": mb, "value": float(value)}


def measure(job: dict) -> dict:
    who, device = job["who"], job["device"]
    if who in PACKAGES and importlib.util.find_spec(who) is None:
        return {"words": "not installed"}
    if device == "cuda" and not torch.cuda.is_available():
        return {"words": "no CUDA device"}
    if device == "cpu" and job["memory_gb"]:  # refused in words, not killed
        most = int(job["memory_gb"] * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        loss = build(job)
        step(loss, *inputs(16 if who == "inf_cl" else 4, job))
        u, v = inputs(job["pairs"], job)
        timed = on_cuda if device == "cuda" else on_cpu
        return timed(loss, u, v, job["repeats"])
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        short = isinstance(error, MemoryError) or any(w in text for w in NO_MEMORY)
        return {"words": "out of memory" if short else text.splitlines()[0][:80]}


def facts(device: str) -> dict:
    names = ("invariance", "torch", "triton", *PACKAGES.values())
    cuda = device == "cuda" and torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "versions": {name: installed(name) for name in names},
        "objectives": list(inv.OBJECTIVES),
        "peers": {name: list(peers) for name, peers in PEERS.items()},
    }


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].startswith("{"):
        sys.exit(__doc__)
    task = json.loads(sys.argv[1])
    print(json.dumps(measure(task) if "who" in task else facts(task["device"])))
