"""Where the pictures live: on the training device if they fit well, else on the disk.

Resident when n * c * h * w bytes are at most a quarter of the device's free memory, and
on a GPU also half of the host's (they are decoded there first); never above 16 GiB.
"""

import os
from pathlib import Path

import torch

from ..errors import SettingError, unknown

GIB = 1 << 30
MOST_RESIDENT = 16 * GIB
STORAGES = ("auto", "resident", "streamed")


def choose_storage(
    storage: str, n_bytes: int, device: torch.device
) -> tuple[bool, str]:
    """Whether to keep the pictures resident, and a sentence that says why."""
    if storage not in STORAGES:
        raise SettingError(unknown("storage", storage, STORAGES))
    size = in_words(n_bytes)
    if storage != "auto":
        where = f"resident on {device}" if storage == "resident" else "streamed"
        return storage == "resident", f"{size} of images are {where}, as asked."
    most = budget(device)
    if n_bytes <= most:
        return (
            True,
            f"{size} of images are resident on {device} ({in_words(most)} allowed).",
        )
    return (
        False,
        f"{size} of images are streamed: more than the {in_words(most)} allowed.",
    )


def budget(device: torch.device) -> int:
    """The most bytes of pictures to keep on a device."""
    host = free_host_bytes()
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return min(free // 4, host // 2, MOST_RESIDENT)
    return min(host // 4, MOST_RESIDENT)


def free_host_bytes() -> int:
    """Memory this process may still take, a container's limit included."""
    free = 8 * GIB
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


def in_words(n_bytes: int) -> str:
    """Bytes as people say them.

    >>> in_words(18432000), in_words(3 * GIB)
    ('17.6 MiB', '3.0 GiB')
    """
    if n_bytes >= GIB:
        return f"{n_bytes / GIB:.1f} GiB"
    return f"{n_bytes / (1 << 20):.1f} MiB"
