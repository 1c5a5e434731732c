"""What is done once to rows and ids before the kernels that visit every pair."""

from typing import no_type_check

import triton
import triton.language as tl

from ._numbers import LEAST, LOG2E, MODERATE, reach_of, row_factor, shift_of

# A row's sum may be so many e-folds off the shift: any gradient over it is a number.
LOWEST = tl.constexpr(64.0)


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
    there = (columns < STRIDE)[None, :] & (rows >= 0)[:, None]
    tl.store(tiles + at * STRIDE + columns[None, :], high, mask=there)
    if EXACT:
        low = (value - high.to(tl.float32)).to(tl.float16)
        at += padded
        tl.store(tiles + at * STRIDE + columns[None, :], low, mask=there)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def id_ranges(ids, first, last, n, BLOCK: tl.constexpr):
    """Smallest and largest id of every block: blocks that cannot meet need no mask."""
    block = tl.program_id(0)
    at = tl.minimum(block * BLOCK + tl.arange(0, BLOCK), n - 1)
    values = tl.load(ids + at)
    tl.store(first + block, tl.min(values, 0))
    tl.store(last + block, tl.max(values, 0))


@triton.jit(do_not_specialize=["n"])
@no_type_check
def weigh(
    partition, gradient, bounds, scales, addend, apart, shared, guard, n, room,
    RAW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Weights of rows in the gradient of a softmax, of both kinds.

    ``apart`` goes with an exponent of the row's own (``addend``), ``shared`` with the
    constant shift; ``guard`` is raised if a row is out of the shared range. RAW leaves
    the scale out of the weights.
    """
    k = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    scale = tl.load(scales + k)
    g = tl.load(gradient + k * n + at, mask=inside, other=0.0)
    p = tl.load(partition + k * n + at, mask=inside, other=float("-inf"))
    empty = p == float("-inf")
    p = tl.where(empty, 0.0, p)
    if not RAW:
        g *= scale
    g = tl.where(empty, 0.0, g)
    reach = reach_of(scale, bounds)
    above = p - shift_of(reach, room)
    lowest = tl.where(reach <= MODERATE, -LOWEST, LEAST - room)
    safe = empty | ((above >= lowest) & (above <= LOWEST))
    together = tl.where(safe, g * tl.exp2(-above * LOG2E), 0.0)
    together = tl.where(p == p, together, p)  # NaN stays NaN
    tl.store(shared + k * n + at, together, mask=inside)
    tl.store(apart + k * n + at, g, mask=inside)
    tl.store(addend + k * n + at, -p * LOG2E, mask=inside)
    tl.atomic_max(guard, tl.max((~safe).to(tl.int32), 0))
