"""Where to compute: one choice of device for every command, and what it can bear."""

import contextlib
import ctypes
import itertools
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from .errors import SettingError
from .plain_numbers import check_least

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
WORKERS_PER_CORE = 8  # more would only take memory from each other
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})  # as Linux calls them


def choose_device(
    name: "str | torch.device" = "auto", *, auto: tuple[str, ...] = ("cuda", "mps")
) -> "torch.device":
    """The device of that name, if this machine has it.

    Args:
        name: "auto", "cpu", "cuda", "cuda:1", "mps" or any other that torch knows.
        auto: the kinds that "auto" tries, best first, before it takes the CPU.

    >>> choose_device("cpu")
    device(type='cpu')
    >>> choose_device("abacus")
    Traceback (most recent call last):
    invariance.errors.SettingError: The device 'abacus' cannot be used here (torch \
knows no such device): use 'auto' or 'cpu'.
    """
    import torch

    has: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if name == "auto":
        return torch.device(next((kind for kind in auto if has[kind]()), "cpu"))
    try:
        device = torch.device(name)
    except RuntimeError:
        raise cannot_use(name, "torch knows no such device") from None
    if device.type in has and not has[device.type]():
        what = {"cuda": "CUDA GPU", "mps": "Apple GPU"}[device.type]
        raise cannot_use(name, f"there is no {what}")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as cause:
        raise cannot_use(name, str(cause).splitlines()[0].rstrip(".")) from None
    return device


def name_gpu(device: "torch.device") -> str:
    """What a CUDA device is called, such as "NVIDIA H200"; empty for all others."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""


def run_beside(work: Callable[[], T]) -> Callable[[], T]:
    """Begin some work in a thread; calling what comes back waits for its result.

    It is for work that leaves the interpreter to others most of the time. If nobody
    waits for it, it ends with the process.

    >>> run_beside(lambda: 6 * 7)()
    42
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # raised where it is waited for
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result.result


def computes_bf16(device: "torch.device | str") -> bool:
    """Whether a device multiplies bf16 in hardware; others emulate it, slowly.

    Of CPUs only Linux tells, and only x86 is known here. Of GPUs it is the current one.
    """
    import torch

    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    flags = read_cpu().get("flags", "").split() if kind == "cpu" else []
    return not BF16_FLAGS.isdisjoint(flags)


def read_cpu() -> dict[str, str]:
    """What Linux says of the first core, by its names for it; nothing elsewhere."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()
    first = itertools.takewhile(str.strip, lines)  # a blank line ends each core
    fields = (line.partition(":") for line in first)
    return {name.strip(): value.strip() for name, _, value in fields}


def leaves_cores_idle(device: "torch.device | str") -> bool:
    """Whether work on this device leaves nearly all cores to others."""
    import torch

    return torch.device(device).type == "cuda"


def wake_gpu(name: str = "auto") -> Callable[[], None]:
    """Begin to get CUDA's GPU ready, where that device is meant and there is one.

    Whoever uses it first then waits less, or not at all. No random number is drawn and
    no matrices are multiplied, so that what follows can still be set.
    """
    import torch

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # said by whoever needs it
            if name in ("auto", "cuda") and torch.cuda.is_available():
                image = torch.zeros(1, 3, 8, 8, device="cuda", dtype=torch.bfloat16)
                torch.conv2d(image, image)  # loads the library of convolutions

    return run_beside(wake)


def cannot_use(name: object, why: str) -> SettingError:
    """The one sentence about a device that is not there."""
    return SettingError(
        f"The device {str(name)!r} cannot be used here ({why}): use 'auto' or 'cpu'."
    )


def usable_cores() -> int:
    """Cores this process may use, which in a container are fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_workers(asked: int | None) -> None:
    """Refuse more processes that decode images than this machine can bear."""
    most = WORKERS_PER_CORE * usable_cores()
    check_least("workers", asked, 0)
    if asked is not None and asked > most:
        raise SettingError(
            f"workers is at most {most} on this machine, {WORKERS_PER_CORE} for each "
            f"core: got {asked}."
        )


def free_bytes(device: "torch.device | str") -> int:
    """Memory that may still be taken there, a container's limit included."""
    if device == "cpu":  # so that one can ask without torch
        return _free_host_bytes()
    import torch

    place = torch.device(device)
    if place.type == "cuda":
        idle = torch.cuda.memory_reserved(place) - torch.cuda.memory_allocated(place)
        return torch.cuda.mem_get_info(place)[0] + idle
    return _free_host_bytes()


def reset_peak(device: "torch.device | str") -> None:
    """Forget the most memory that was in use, so that ``peak_bytes`` starts anew."""
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):  # Linux alone can
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes(device: "torch.device | str") -> int:
    """The most memory in use at once: tensors on a GPU, this whole process on a CPU."""
    import torch

    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        line = next(line for line in lines if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource  # Windows has none

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _free_host_bytes() -> int:
    free = 8 << 30  # where nothing tells
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = (
            next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable"))
            * 1024
        )
        group = Path("/sys/fs/cgroup")
        most = int((group / "memory.max").read_text())
        free = min(free, most - int((group / "memory.current").read_text()))
    except (OSError, ValueError, StopIteration):
        if hasattr(os, "sysconf") and not Path("/proc/meminfo").exists():
            free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return max(free, 0)


def keep_freed_memory() -> None:
    """Have this process keep the memory of large tensors that it is done with.

    The C library of Linux gives freed blocks of 32 MiB and more back to the system,
    which fills new ones with zeros at every step. Keeping them takes some memory: 2.14
    instead of 1.86 GB in one training. What the user's own variables say of it holds;
    other systems do as they do.
    """
    tuned = any(name.startswith("MALLOC_") for name in os.environ)
    tuned = tuned or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "")
    if tuned or sys.platform != "linux":  # Windows has no CDLL(None)
        return
    with contextlib.suppress(OSError, AttributeError):
        set_limit = ctypes.CDLL(None).mallopt
        # Older libraries refuse a first limit above 32 MiB. Limits that are set no
        # longer adapt: with the second alone, blocks from 128 KiB on would go back.
        if any(set_limit(M_MMAP_THRESHOLD, size) for size in (1 << 30, 32 << 20)):
            set_limit(M_TRIM_THRESHOLD, 1 << 30)


def require_memory(
    what: str, n_bytes: float | int, device: "torch.device | str", advice: str
) -> None:
    """Refuse what alone takes more than there is room for.

    >>> require_memory("A bank of a million million rows", 2**50, "cpu", "use fewer")
    ... # doctest: +ELLIPSIS
    Traceback (most recent call last):
    invariance.errors.SettingError: A bank of a million million rows takes \
1048576.0 GiB, but only ... are free on cpu: use fewer.
    """
    free = free_bytes(device)
    if n_bytes > free:
        raise SettingError(
            f"{what} takes {format_bytes(int(n_bytes))}, but only "
            f"{format_bytes(free)} are free on {device}: {advice}."
        )


def format_bytes(n_bytes: int) -> str:
    """Bytes in the unit that people would use.

    >>> format_bytes(18432000), format_bytes(3 << 30)
    ('17.6 MiB', '3.0 GiB')
    """
    if n_bytes >= 1 << 30:
        return f"{n_bytes / (1 << 30):.1f} GiB"
    return f"{n_bytes / (1 << 20):.1f} MiB"


def started_outside() -> tuple[str, int, int] | None:
    """Who has started the processes, how many per machine, and on how many machines."""
    known = os.environ
    if "TORCHELASTIC_RUN_ID" in known:
        nodes = int(known.get("GROUP_WORLD_SIZE", 1))
        return "torchrun", int(known["WORLD_SIZE"]) // nodes, nodes
    if "SLURM_STEP_ID" in known:  # within srun; a batch script alone is one process
        nodes = int(known.get("SLURM_NNODES", 1))
        tasks = int(known.get("SLURM_NTASKS", 1))
        if tasks > 1:
            return "srun", tasks // nodes, nodes
    return None


def local_rank() -> int:
    """Which process of this machine this is, as far as its environment tells."""
    outside = started_outside()
    srun = outside is not None and outside[0] == "srun"
    return int(os.environ.get("SLURM_LOCALID" if srun else "LOCAL_RANK", 0))


def is_first_process() -> bool:
    """Whether this is the process that writes, as far as its environment tells."""
    outside = started_outside()
    names = {None: "NODE_RANK", "torchrun": "RANK", "srun": "SLURM_PROCID"}
    other = names[outside[0] if outside else None]
    return local_rank() == 0 and os.environ.get(other, "0") == "0"
