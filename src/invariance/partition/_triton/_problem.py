"""One matrix of scores as the kernels take it, and what their launches share."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .._layout import STEP, Layout, layout, padded, tile_shape
from ._configs import Config, processors
from ._launch import launch
from ._prepare import id_ranges, round_rows

ROWS_AT_ONCE, WIDTH_AT_ONCE = 16, 256  # of the rounding kernel


@dataclass(frozen=True)
class Problem:
    """Rounded rows and columns, their bounds, and which pairs count."""

    x: Tensor  # (1 or 2, padded n, stride), float16
    y: Tensor
    bounds: Tensor  # the longest row of x and of y
    n: int
    m: int
    d: int
    row_ids: Tensor | None = None
    column_ids: Tensor | None = None
    low: Tensor | None = None
    high: Tensor | None = None
    band: int = 1  # low and high are the rows' (1) or, seen from y, the columns' (2)
    period: int = 0  # rows of one sample are so many apart, or one and the same
    safe: bool = False  # known beforehand: no sum leaves float32's range
    ratio: int = 0  # of two scales, if a small whole number

    @property
    def exact(self) -> bool:
        """Whether the rounding's remainder is kept."""
        return self.x.shape[0] == 2

    @property
    def shape(self) -> Layout:
        """How the rows are laid out."""
        return layout(self.d)

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.x.device

    @property
    def room(self) -> float:
        """The exponent range that sums of this many terms leave."""
        return 80.0 - math.log(max(self.n, self.m, 1))

    @property
    def symmetric(self) -> bool:
        """Whether the matrix equals its transpose."""
        free = self.low is None and self.high is None
        return self.x is self.y and self.row_ids is self.column_ids and free

    def turned(self) -> "Problem":
        """The transposed matrix."""
        return replace(
            self,
            x=self.y,
            y=self.x,
            bounds=self.bounds if self.safe else self.bounds.flip(0),
            n=self.m,
            m=self.n,
            row_ids=self.column_ids,
            column_ids=self.row_ids,
            band=3 - self.band,
        )

    def arrays(self) -> tuple[Tensor, ...]:
        """Leading arguments of every kernel: rows, columns, bounds."""
        x, y = self.x, self.y
        if x.shape[0] == 1:  # the first part begins where the tensor does
            return x, x, y, y, self.bounds
        return x[0], x[1], y[0], y[1], self.bounds

    def masks(self, block: int) -> tuple[Tensor, ...]:
        """Ids, their ranges by block of columns (if not 0), and bands."""
        nothing = self.bounds
        ids = [nothing] * 4
        if self.row_ids is not None and self.column_ids is not None:
            ids[:2] = self.row_ids, self.column_ids
            if block:
                blocks = padded(self.m) // block
                ids[2:] = first, last = self.column_ids.new_empty(2, blocks)
                tensors = (self.column_ids, first, last)
                launch(id_ranges, (blocks,), tensors, (self.m,), {"BLOCK": block})
        bands = [nothing if b is None else b for b in (self.low, self.high)]
        return *ids, *bands

    def constants(self, config: Config) -> dict[str, Any]:
        """What is known when a kernel is compiled: masks, widths, sides of a tile."""
        shape = self.shape
        return {
            "IDS": 2 if self.period else int(self.row_ids is not None),
            "LOW": self.band if self.low is not None else 0,
            "HIGH": self.band if self.high is not None else 0,
            "D": self.d,
            "WIDTH": shape.width,
            "REST": shape.rest,
            "STRIDE": shape.stride,
            "STEP": STEP,
            "EXACT": self.exact,
            "RATIO": self.ratio,
            "BM": config.rows,
            "BN": config.columns,
        }


def round_to_tiles(x: Tensor, exact: bool) -> tuple[Tensor, Tensor]:
    """Float32 rows as the kernels take them, and the length of the longest."""
    (n, d), shape = x.shape, layout(x.shape[1])
    bound = torch.linalg.vector_norm(x, dim=1).amax()
    tiles = torch.empty(tile_shape(n, d, exact), dtype=torch.float16, device=x.device)
    grid = (padded(n) // ROWS_AT_ONCE, -(-shape.stride // WIDTH_AT_ONCE))
    sizes = {"D": d, "STRIDE": shape.stride, "EXACT": exact}
    sizes |= {"ROWS": ROWS_AT_ONCE, "WIDTH": WIDTH_AT_ONCE}
    launch(round_rows, grid, (x, bound, tiles), (n, padded(n)), sizes)
    return tiles, bound


def spans(problem: Problem, config: Config, most: int) -> tuple[int, int, int]:
    """Tiles of columns, how many each program walks, and programs a block of rows.

    Few rows are not enough programs to fill a device: their columns are shared out.
    """
    tiles = -(-problem.m // config.columns)
    blocks = -(-problem.n // config.rows)
    wanted = max(2 * processors(problem.device) // blocks, 1)
    each = -(-tiles // max(min(wanted, tiles, most), 1))
    return tiles, each, -(-tiles // each)
