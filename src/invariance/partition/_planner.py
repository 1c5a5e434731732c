"""In tiles of what size a score matrix is visited, and which are kept.

A tile of the score matrix is the only thing whose size is not linear in the batch,
so its size is what a memory budget buys: on a CPU a few megabytes, to stay in the
cache, on an accelerator enough to keep it busy.
"""

import math
from collections.abc import Iterator

import torch

CPU_TILE_BYTES = 2**20
DEVICE_TILE_BYTES = 256 * 2**20
CPU_KEPT_BYTES = 4 * 2**20
DEVICE_KEPT_BYTES = 64 * 2**20
LIVE_TILES = 3  # scores, exponentials and a mask or temporary exist at one time
ALIGN = 16  # matrix products like sides that are multiples of a vector register


def keeps_scores(n: int, m: int, itemsize: int, device: torch.device) -> bool:
    """Whether the score matrix is small enough to be kept for the backward pass."""
    most = CPU_KEPT_BYTES if device.type == "cpu" else DEVICE_KEPT_BYTES
    return n * m * itemsize <= most


def tile_sides(n: int, m: int, itemsize: int, device: torch.device) -> tuple[int, int]:
    """Rows and columns of a tile, such that all live tiles fit the byte budget.

    >>> tile_sides(100_000, 100_000, 4, torch.device("cpu"))
    (288, 288)
    >>> tile_sides(256, 1_281_167, 4, torch.device("cpu"))
    (256, 336)
    """
    budget = CPU_TILE_BYTES if device.type == "cpu" else DEVICE_TILE_BYTES
    elements = max(budget // (itemsize * LIVE_TILES), 1)
    rows = even_side(n, math.isqrt(elements))
    columns = even_side(m, elements // rows)
    return even_side(n, elements // columns), columns


def even_side(length: int, most: int) -> int:
    """Split ``length`` into equal parts of at most about ``most``; a part's length."""
    if length <= most:
        return max(length, 1)
    most = max(most // ALIGN * ALIGN, 1)
    part = math.ceil(length / math.ceil(length / most))
    return min(math.ceil(part / ALIGN) * ALIGN, most)


def spans(length: int, side: int) -> Iterator[slice]:
    """Cut ``range(length)`` into slices of ``side``, the last one shorter."""
    for start in range(0, length, side):
        yield slice(start, min(start + side, length))
