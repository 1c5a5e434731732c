"""Sums over the rows of a class, in a fixed order, however long classes are.

With rows sorted by label a class is a stretch of them, cut into blocks. Within a block
it is added up where it is needed; one that goes on is left by every block as a sum of
its edge, and its first block adds these up. So no two programs add to one number.
"""

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl
from torch import Tensor

from ...checked_rows import SHORTEST
from .._layout import SMALLEST, power_of_two
from ._launch import Launch, kept_by_shape
from ._pair_loss import make_add_up
from ._problem import divide_by_lengths, new_float32

BLOCK, WIDEST_PART, AT_ONCE = 64, 64, 32


@triton.jit
@no_type_check
def count_below(ordered, label, n, bits, EQUAL: tl.constexpr):
    """How many of n ordered labels are less than a label; or, EQUAL, no greater."""
    count = (label * 0).to(tl.int32)
    for i in range(0, bits):
        probe = count + (1 << (bits - 1 - i))
        valid = probe <= n
        value = tl.load(ordered + probe - 1, mask=valid, other=0)
        below = value < label
        if EQUAL:
            below = value <= label
        count = tl.where(valid & below, probe, count)
    return count


@triton.jit
@no_type_check
def locate_rows(order, at, columns, n, D: tl.constexpr):
    """Which rows are at some places of the order, where they are, and if they are."""
    row = tl.load(order + at, mask=at < n, other=0)
    inside = (at < n)[:, None] & (columns < D)[None, :]
    return row, row[:, None] * D + columns[None, :], inside


@triton.jit(do_not_specialize=["n"])
@no_type_check
def sum_edges(
    rows, ordered, order, first, last, n,
    D: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Sums of a block's rows that are of its first row's class, and of its last's."""
    block = tl.program_id(0)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    at = block * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(ordered + at, mask=at < n, other=0)
    _, places, inside = locate_rows(order, at, columns, n, D)
    x = tl.load(rows + places, mask=inside, other=0.0)
    head = tl.load(ordered + block * BLOCK)
    tail = tl.load(ordered + tl.minimum((block + 1) * BLOCK, n) - 1)
    to = block.to(tl.int64) * D + columns
    sums = tl.sum(tl.where((label == head)[:, None], x, 0.0), 0)
    tl.store(first + to, sums, mask=columns < D)
    sums = tl.sum(tl.where((label == tail)[:, None], x, 0.0), 0)
    tl.store(last + to, sums, mask=columns < D)


@triton.jit(do_not_specialize=["n", "bits"])
@no_type_check
def sum_long_classes(
    ordered, first, last, total, n, bits,
    D: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """The sum of the class that begins in a block and goes on, if one does."""
    block = tl.program_id(0)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    end = tl.minimum((block + 1) * BLOCK, n)
    tail = tl.load(ordered + end - 1)
    before = tl.load(ordered + tl.maximum(block * BLOCK - 1, 0))
    begins = (block == 0) | (before != tail)
    beyond = count_below(ordered, tail, n, bits, True)
    if begins & (beyond > end):
        here = block.to(tl.int64) * D + columns
        sums = tl.load(last + here, mask=columns < D, other=0.0)
        more = tl.zeros([AT_ONCE, WIDTH], tl.float32)
        final = (beyond - 1) // BLOCK
        for start in range(block + 1, final + 1, AT_ONCE):
            some = start + tl.arange(0, AT_ONCE)
            inside = (some <= final)[:, None] & (columns < D)[None, :]
            at = some.to(tl.int64)[:, None] * D + columns[None, :]
            more += tl.load(first + at, mask=inside, other=0.0)
        tl.store(total + here, sums + tl.sum(more, 0), mask=columns < D)


@triton.jit(do_not_specialize=["n", "bits"])
@no_type_check
def pull_together(
    rows, ordered, order, total, gradient, anchors, values, n, bits, factor,
    D: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Of a block of rows: their share of the value, and the gradient."""
    block, part = tl.program_id(0), tl.program_id(1)
    columns = part * WIDTH + tl.arange(0, WIDTH)
    at = block * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(ordered + at, mask=at < n, other=0)
    begin = count_below(ordered, label, n, bits, False)
    end = count_below(ordered, label, n, bits, True)
    row, places, inside = locate_rows(order, at, columns, n, D)
    x = tl.load(rows + places, mask=inside, other=0.0)
    # places past the last hold zeros, whatever class they seem to be of; products in
    # three parts are a matrix unit's way to float32's accuracy
    alike = (label[:, None] == label[None, :]).to(tl.float32)
    sums = tl.dot(alike, x, input_precision="tf32x3")
    goes_on = (begin // BLOCK != (end - 1) // BLOCK)[:, None]
    from_first = (begin // BLOCK).to(tl.int64)[:, None] * D + columns[None, :]
    carried = tl.load(total + from_first, mask=inside & goes_on, other=0.0)
    others = end - begin - 1
    weight = factor * tl.where(others > 0, 1.0 / tl.maximum(others, 1), 0.0)
    pull = (tl.where(goes_on, carried, sums) - x) * weight[:, None]
    tl.store(gradient + places, 2.0 * pull, mask=inside)
    if part == 0:
        tl.store(anchors + row, tl.where(others > 0, 1.0, 0.0), mask=at < n)
    value = tl.sum(tl.sum(tl.where(inside, x * pull, 0.0), 1), 0)
    tl.store(values + block * tl.num_programs(1) + part, value)


class ClassPlan(NamedTuple):
    """The launches, and over how many blocks of rows and parts of a row."""

    grid: tuple[int, int]
    sum_edges: Launch
    sum_long_classes: Launch
    pull_together: Launch
    add_up: Launch


@kept_by_shape
def _plan_classes(n: int, d: int, factor: float) -> ClassPlan:
    width = max(min(power_of_two(d), WIDEST_PART), SMALLEST)
    grid = (-(-n // BLOCK), -(-d // width))
    sizes = {"D": d, "BLOCK": BLOCK, "WIDTH": width, "AT_ONCE": AT_ONCE}
    counts = {"n": n, "bits": n.bit_length()}
    return ClassPlan(
        grid,
        Launch(sum_edges, grid, {"n": n}, sizes),
        Launch(sum_long_classes, grid, counts, sizes),
        Launch(pull_together, grid, {**counts, "factor": factor}, sizes),
        make_add_up(grid[0] * grid[1]),
    )


def class_pull(inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The operation: a gradient of unit rows, who has others of its class, the value.

    The value is a factor times the sum over rows of their mean product with the others
    of their class.
    """
    z = inputs.z.contiguous()
    ordered, order = inputs.labels.long().sort(stable=True)
    (n, d), device = z.shape, z.device
    plan = _plan_classes(n, d, inputs.factor)
    rows, _ = divide_by_lengths(z, SHORTEST)
    first, last, total = (new_float32(device, plan.grid[0], d) for _ in range(3))
    plan.sum_edges(rows=rows, ordered=ordered, order=order, first=first, last=last)
    plan.sum_long_classes(ordered=ordered, first=first, last=last, total=total)
    gradient, anchors = new_float32(device, n, d), new_float32(device, n)
    values, value = new_float32(device, *plan.grid), new_float32(device)
    plan.pull_together(
        rows=rows,
        ordered=ordered,
        order=order,
        total=total,
        gradient=gradient,
        anchors=anchors,
        values=values,
    )
    plan.add_up(parts=values, out=value)
    return gradient, anchors, value
