"""Tile sides, warps and pipeline stages of each kernel: measured, not tuned at run.

A run-time search would cost the first call, and its choice, hence the order of sums,
could differ between runs. The table is for Hopper (H100, H200); other devices use it
too, with fewer stages where they have less shared memory.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from .._layout import Layout


@dataclass(frozen=True)
class Config:
    """Rows and columns of a tile, and how a program runs it."""

    rows: int
    columns: int
    warps: int
    stages: int
    registers: int = 0  # at most so many a thread; 0 leaves it to the compiler

    @property
    def launch(self) -> dict[str, Any]:
        """Keyword arguments of a kernel launch."""
        limit = {"maxnreg": self.registers} if self.registers else {}
        return {"num_warps": self.warps, "num_stages": self.stages} | limit


# (kernel, exact, widest row) in order: the first that fits is taken. "triangle" sums
# over rows and columns of half a symmetric matrix, or of a whole one for both; "chunks"
# is the gradient of few wide rows.
TABLE: dict[tuple[str, bool], dict[int, Config]] = {
    ("sums", False): {
        144: Config(128, 64, 4, 3),
        256: Config(256, 64, 8, 3),
        272: Config(128, 64, 8, 3),
        0: Config(128, 256, 8, 3),
    },
    ("sums", True): {
        144: Config(128, 64, 8, 3),
        272: Config(128, 32, 8, 2),
        0: Config(128, 128, 8, 2),
    },
    ("triangle", False): {
        128: Config(128, 64, 4, 2, 168),
        144: Config(128, 64, 4, 3),
        256: Config(256, 64, 8, 3),
        272: Config(128, 64, 8, 3),
        0: Config(128, 256, 8, 3),
    },
    ("triangle", True): {
        144: Config(128, 64, 8, 3),
        272: Config(128, 32, 8, 2),
        0: Config(128, 128, 8, 2),
    },
    ("gradient", False): {
        128: Config(64, 128, 4, 2),
        144: Config(64, 64, 4, 3),
        256: Config(128, 64, 8, 3),
        272: Config(64, 64, 4, 2),
        0: Config(128, 256, 8, 3),
    },
    ("chunks", False): {0: Config(64, 64, 4, 3)},
    ("chunks", True): {0: Config(64, 64, 4, 2)},
    ("gradient", True): {
        144: Config(64, 64, 4, 2),
        272: Config(64, 32, 8, 2),
        0: Config(128, 128, 8, 2),
    },
}
REPAIR = Config(64, 32, 4, 1)  # rarely does anything; small enough for any width
INTERPRETED = Config(32, 32, 1, 1)
SMALL_DEVICE = 160 * 1024  # bytes of shared memory below which stages are saved


def config_for(kernel: str, shape: Layout, exact: bool, device: torch.device) -> Config:
    """The configuration of a kernel for rows of a layout."""
    if device.type == "cpu":
        return INTERPRETED
    return _config(kernel, 0 if shape.wide else shape.stride, exact, device)


@cache
def _config(kernel: str, stride: int, exact: bool, device: torch.device) -> Config:
    """The same, for a CUDA device: the table does not change."""
    table = TABLE[kernel, exact]
    fitting = [w for w in table if w >= stride > 0]
    config = table[min(fitting)] if fitting else table[0]
    if _shared_memory(device.index or 0) < SMALL_DEVICE:
        config = replace(config, rows=64, columns=min(config.columns, 64), stages=2)
        narrow = exact or not 0 < stride <= 144
        config = replace(config, columns=32) if narrow else config
    return config


def configs_changed() -> None:
    """Forget what was looked up, after the table was changed by hand."""
    _config.cache_clear()


def _shared_memory(index: int) -> int:
    properties = torch.cuda.get_device_properties(index)
    return getattr(properties, "shared_memory_per_block_optin", 227 * 1024)


@cache
def processors(device: torch.device) -> int:
    """How many programs run side by side, about."""
    if device.type == "cpu":
        return 2
    return torch.cuda.get_device_properties(device).multi_processor_count
