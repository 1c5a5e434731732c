"""One matrix of scores as the kernels take it, and the rows it is made of."""

import math
from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from .._layout import STEP, Layout, layout, padded, power_of_two, tile_shape
from ._device import COLUMN_BAND, EQUAL_IDS, NO_BAND, NO_IDS, ROW_BAND, row_factor
from ._launch import Config, Launch, count_processors, kept_by_shape

ROUNDED_ROWS, ROUNDED_WIDTH = 16, 256  # of one program that rounds
UNIT_ELEMENTS = 4096  # of one program that divides by lengths
SHRINK, GROW = tl.constexpr(2.0**-64), tl.constexpr(2.0**64)  # of rows too long
MASKS = ("row_ids", "column_ids", "low", "high")
RANGED_MASKS = ("row_ids", "column_ids", "least_ids", "most_ids", "low", "high")


def new_float32(device: torch.device, *shape: int) -> Tensor:
    """Memory for numbers."""
    return torch.empty(shape, dtype=torch.float32, device=device)


class Form(NamedTuple):
    """What launches depend on: everything about a problem but its tensors."""

    n: int
    m: int
    d: int
    exact: bool  # whether the rounding's remainder is kept
    device: torch.device
    symmetric: bool = False  # the matrix equals its transpose
    ids: int = NO_IDS.value
    low: int = NO_BAND.value
    high: int = NO_BAND.value
    period: int = 0  # PERIODIC_IDS: rows of one sample are 0 or so many apart
    safe: bool = False  # known beforehand: no sum leaves float32's range
    ratio: int = 0  # the first scale over the second, if a small whole number

    @property
    def layout(self) -> Layout:
        """How the rows are laid out."""
        return layout(self.d)

    @property
    def exponent_budget(self) -> float:
        """The exponent range that sums of this many terms leave."""
        return 80.0 - math.log(max(self.n, self.m, 1))

    def transpose(self) -> "Form":
        """The form of the transposed matrix: a row's band is a column's there."""
        other = {ROW_BAND.value: COLUMN_BAND.value, COLUMN_BAND.value: ROW_BAND.value}
        low, high = other.get(self.low, self.low), other.get(self.high, self.high)
        return self._replace(n=self.m, m=self.n, low=low, high=high)

    def numbers(self) -> dict[str, float | int]:
        """The first numbers of every kernel that visits pairs."""
        sides = {"n": self.n, "m": self.m, "period": self.period}
        return {**sides, "exponent_budget": self.exponent_budget}

    def constants(self, config: Config) -> dict[str, Any]:
        """What is known when a kernel is compiled: masks, widths, sides of a tile."""
        return {
            "IDS": self.ids,
            "LOW": self.low,
            "HIGH": self.high,
            "D": self.d,
            "WIDTH": self.layout.width,
            "REST": self.layout.rest,
            "STRIDE": self.layout.stride,
            "STEP": STEP,
            "EXACT": self.exact,
            "RATIO": self.ratio,
            "BM": config.rows,
            "BN": config.columns,
        }

    def spans(self, config: Config, most: int) -> tuple[int, int, int]:
        """Tiles of columns, how many a program walks, and programs per block of rows.

        Few rows are not enough programs to fill a device: their columns are shared out.
        """
        tiles = -(-self.m // config.columns)
        blocks = -(-self.n // config.rows)
        wanted = max(2 * count_processors(self.device) // blocks, 1)
        each = -(-tiles // max(min(wanted, tiles, most), 1))
        return tiles, each, -(-tiles // each)


class Problem(NamedTuple):
    """Rounded rows and columns, the longest row of either, and which pairs count."""

    form: Form
    x: Tensor  # (1 or 2, padded n, stride), float16
    y: Tensor
    bounds: Tensor  # the lengths of the longest row of x and of y
    row_ids: Tensor | None = None
    column_ids: Tensor | None = None
    low: Tensor | None = None
    high: Tensor | None = None

    def transpose(self) -> "Problem":
        """The transposed matrix."""
        return self._replace(
            form=self.form.transpose(),
            x=self.y,
            y=self.x,
            bounds=self.bounds if self.form.safe else self.bounds.flip(0),
            row_ids=self.column_ids,
            column_ids=self.row_ids,
        )

    def arrays(self) -> dict[str, Tensor]:
        """Leading arguments of every kernel: rows, columns, bounds."""
        x, y = self.x, self.y
        if not self.form.exact:  # the one part begins where the tensor does
            return {"x": x, "x_low": x, "y": y, "y_low": y, "bounds": self.bounds}
        x, x_low = x.unbind()
        y, y_low = (x, x_low) if self.y is self.x else y.unbind()
        return {"x": x, "x_low": x_low, "y": y, "y_low": y_low, "bounds": self.bounds}

    def masks(self, block: int = 0) -> dict[str, Tensor]:
        """Ids, their range in each block of columns if asked, and bands.

        Anything stands for what there is none of.
        """
        names = RANGED_MASKS if block else MASKS
        masks = dict.fromkeys(names, self.bounds)
        if self.row_ids is not None and self.column_ids is not None:
            masks["row_ids"], masks["column_ids"] = self.row_ids, self.column_ids
            if block:
                shape = (2, padded(self.form.m) // block)
                least, most = self.column_ids.new_empty(shape)
                find_ranges = _range_launch(self.form.m, block)
                find_ranges(ids=self.column_ids, least_ids=least, most_ids=most)
                masks["least_ids"], masks["most_ids"] = least, most
        if self.low is not None:
            masks["low"] = self.low
        if self.high is not None:
            masks["high"] = self.high
        return masks


def make_problem(
    inputs: Any,
    sides: tuple[int, int, int],
    tiles: tuple[Tensor, Tensor | None, Tensor],
    low: Tensor | None = None,
    high: Tensor | None = None,
) -> Problem:
    """Of an operation, n, m, d and ``round_pairs``: its logits may be of any size."""
    (x, y, bounds), ids = tiles, inputs.row_ids
    symmetric = y is None or not y.numel()  # empty in a graph
    form = Form(
        *sides,
        exact=inputs.exact,
        device=x.device,
        symmetric=symmetric,
        ids=(NO_IDS if ids is None else EQUAL_IDS).value,
        low=(NO_BAND if low is None else ROW_BAND).value,
        high=(NO_BAND if high is None else ROW_BAND).value,
    )
    columns = x if y is None or symmetric else y
    return Problem(form, x, columns, bounds, ids, inputs.column_ids, low, high)


# ---------------------------------------------------------------- ids


@triton.jit(do_not_specialize=["n"])
@no_type_check
def find_id_ranges(ids, least_ids, most_ids, n, BLOCK: tl.constexpr):
    """Smallest and largest id of every block: blocks that cannot meet need no mask."""
    block = tl.program_id(0)
    at = tl.minimum(block * BLOCK + tl.arange(0, BLOCK), n - 1)
    values = tl.load(ids + at)
    tl.store(least_ids + block, tl.min(values, 0))
    tl.store(most_ids + block, tl.max(values, 0))


@kept_by_shape
def _range_launch(m: int, block: int) -> Launch:
    grid = (padded(m) // block,)
    return Launch(find_id_ranges, grid, {"n": m}, {"BLOCK": block})


# ---------------------------------------------------------------- rounded rows


@triton.jit(do_not_specialize=["n", "padded"])
@no_type_check
def round_rows(
    source, bound, tiles, n, padded,
    D: tl.constexpr, STRIDE: tl.constexpr, EXACT: tl.constexpr, ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Rows as scaled float16, and what the rounding left over if EXACT."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = (rows < n)[:, None] & (columns < D)[None, :]
    at = rows.to(tl.int64)[:, None]
    value = tl.load(source + at * D + columns[None, :], mask=inside, other=0.0)
    value = value.to(tl.float32) * row_factor(tl.load(bound))
    high = value.to(tl.float16)
    stored = (columns < STRIDE)[None, :] & (rows >= 0)[:, None]
    tl.store(tiles + at * STRIDE + columns[None, :], high, mask=stored)
    if EXACT:
        low = (value - high.to(tl.float32)).to(tl.float16)
        at += padded
        tl.store(tiles + at * STRIDE + columns[None, :], low, mask=stored)


@kept_by_shape
def _round_launch(n: int, d: int, exact: bool) -> Launch:
    stride = layout(d).stride
    return Launch(
        round_rows,
        (padded(n) // ROUNDED_ROWS, -(-stride // ROUNDED_WIDTH)),
        {"n": n, "padded": padded(n)},
        {"D": d, "STRIDE": stride, "EXACT": exact}
        | {"ROWS": ROUNDED_ROWS, "WIDTH": ROUNDED_WIDTH},
    )


def round_to_tiles(x: Tensor, exact: bool) -> tuple[Tensor, Tensor]:
    """Float32 rows as the kernels take them, and the length of the longest."""
    n, d = x.shape
    bound = torch.linalg.vector_norm(x, dim=1).amax()
    tiles = torch.empty(tile_shape(n, d, exact), dtype=torch.float16, device=x.device)
    _round_launch(n, d, exact)(source=x, bound=bound, tiles=tiles)
    return tiles, bound


def round_pairs(
    x: Tensor, y: Tensor | None, exact: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Rounded rows of x, of y (None where that is x), and the two bounds."""
    x_tiles, x_bound = round_to_tiles(x, exact)
    if y is None:
        return x_tiles, None, torch.stack([x_bound, x_bound])
    y_tiles, y_bound = round_to_tiles(y, exact)
    return x_tiles, y_tiles, torch.stack([x_bound, y_bound])


def restore_rows(problem: Problem) -> Tensor:
    """The problem's rounded rows x as float32 again."""
    tiles, (n, _, d, *_) = problem.x, problem.form
    rows = tiles[0, :n, :d].float()
    if problem.form.exact:
        rows += tiles[1, :n, :d]
    # the power of two that rows of this bound were multiplied with, inverted
    bound = problem.bounds[0]
    exponent = (torch.frexp(bound).exponent - 10).clamp(-100, 100)
    return rows.mul_(torch.ldexp(torch.ones_like(bound), exponent))


# ---------------------------------------------------------------- unit rows


@triton.jit
@no_type_check
def load_unit_rows(base, at, inside, least):
    """Some rows divided by their length, and the lengths; a short row stays."""
    row = tl.load(base + at, mask=inside, other=0.0).to(tl.float32)
    length = tl.sqrt_rn(tl.sum(row * row, 1))
    # squares beyond float32 are added up once more at a scale that fits
    small = row * SHRINK
    again = tl.sqrt_rn(tl.sum(small * small, 1)) * GROW
    length = tl.where(length == float("inf"), again, length)
    length = tl.where(length > least, length, 1.0)
    return tl.div_rn(row, length[:, None]), length


@triton.jit
@no_type_check
def through_length(unit, gradient, length):
    """Gradient of rows from that of unit rows: without its part along the row."""
    # a row left as it was has no length to keep
    has_length = tl.sum(unit * unit, 1) > 0.5
    along = tl.where(has_length, tl.sum(unit * gradient, 1), 0.0)
    return (gradient - unit * along[:, None]) / length[:, None]


@triton.jit(do_not_specialize=["n"])
@no_type_check
def divide(
    x, out, lengths, n, least,
    D: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Rows of length one in float32; a row shorter than ``least`` stays as it is."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    inside = (rows < n)[:, None] & (columns < D)[None, :]
    at = rows.to(tl.int64)[:, None] * D + columns[None, :]
    unit, length = load_unit_rows(x, at, inside, least)
    tl.store(out + at, unit, mask=inside)
    tl.store(lengths + rows, length, mask=rows < n)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def divide_backward(
    x, lengths, gradient, out, n,
    D: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradient of the rows that ``divide`` was given."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    inside = (rows < n)[:, None] & (columns < D)[None, :]
    at = rows.to(tl.int64)[:, None] * D + columns[None, :]
    length = tl.load(lengths + rows, mask=rows < n, other=1.0)
    unit = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) / length[:, None]
    g = tl.load(gradient + at, mask=inside, other=0.0)
    g = through_length(unit, g, length)
    tl.store(out + at, g.to(out.dtype.element_ty), mask=inside)


@kept_by_shape
def _unit_launches(n: int, d: int, least: float) -> tuple[Launch, Launch]:
    width = power_of_two(d)
    rows = max(UNIT_ELEMENTS // width, 1)
    sizes = {"D": d, "ROWS": rows, "WIDTH": width}
    grid = (-(-n // rows),)
    return (
        Launch(divide, grid, {"n": n, "least": least}, sizes),
        Launch(divide_backward, grid, {"n": n}, sizes),
    )


def unit_rows(inputs: Any) -> tuple[Tensor, Tensor]:
    """The operation ``unit_rows``: unit rows in float32, and the lengths."""
    return divide_by_lengths(inputs.x.contiguous(), inputs.least)


def divide_by_lengths(x: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Unit rows in float32, and the lengths."""
    out, lengths = new_float32(x.device, *x.shape), new_float32(x.device, x.shape[0])
    forward, _ = _unit_launches(x.shape[0], x.shape[1], least)
    forward(x=x, out=out, lengths=lengths)
    return out, lengths


def unit_row_gradients(
    saved: Any, gradients: tuple[Tensor], shapes: Any, wanted: Any
) -> tuple[Tensor]:
    """Gradient of the rows, in their own type."""
    x, gradient = saved.x.contiguous(), gradients[0].contiguous()
    out = torch.empty_like(x)
    _, backward = _unit_launches(x.shape[0], x.shape[1], 0.0)
    backward(x=x, lengths=saved.lengths, gradient=gradient, out=out)
    return (out,)
