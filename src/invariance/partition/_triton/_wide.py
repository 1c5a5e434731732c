"""Gradients of many wide rows: weights are written out, and multiplied by products.

The products are the matrix library's, which beats a fused kernel there. Weights exist
for a patch of the matrix at a time: as large as a fixed budget of memory allows, and
neither flat nor thin, since every patch reads its rows and columns and adds to their
sums anew.
"""

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from .._layout import padded
from ._configs import Config, config_for
from ._launch import launch
from ._problem import Problem
from ._weighing import Side, Weights
from ._weights import write_weights

WEIGHT_BYTES = 384 * 2**20  # for the weights of a patch
PATCH_ROWS = 8192  # at least, if there are as many
GROUP = 8
EXACT_DEPTH = 1024  # a matrix unit truncates as it adds: longer sums lose digits


def wide_gradients(
    problem: Problem, weights: Weights, want_x: bool, want_y: bool
) -> tuple[Tensor, Tensor]:
    """Gradients of x and y where rows are too wide for one program."""

    def room(wanted: bool, rows: int) -> Tensor:
        shape = (rows, problem.d) if wanted else (0,)
        return torch.empty(shape, dtype=torch.float32, device=problem.device)

    dx, dy = room(want_x, problem.n), room(want_y, problem.m)
    out = dx if want_x else None, dy if want_y else None
    write_wide_gradients(problem, weights, *out)
    return dx, dy


def write_wide_gradients(
    problem: Problem, weights: Weights, dx: Tensor | None, dy: Tensor | None
) -> None:
    """The same into tensors that are there, if they are."""
    n, d, x, y = problem.n, problem.d, problem.x, problem.y
    config = config_for("gradient", problem.shape, problem.exact, problem.device)
    height, width = _patch(problem, config.rows)
    across = padded(problem.m)

    def zeros(wanted: Tensor | None, rows: int) -> Tensor | None:
        if wanted is None:
            return None
        shape = rows, problem.shape.stride
        return torch.zeros(shape, dtype=torch.float32, device=problem.device)

    row_sums, column_sums = zeros(dx, height), zeros(dy, across)
    back = torch.empty(2, dtype=torch.float32, device=problem.device)
    memory = torch.empty((len(x), height * width), dtype=x.dtype, device=x.device)
    masks = problem.masks(config.columns)
    for top in range(0, n, height):
        rows = slice(top, min(top + height, n))
        here = None if row_sums is None else row_sums[: rows.stop - top].zero_()
        for left in range(0, across, width):
            columns = slice(left, min(left + width, across))
            g = memory[:, : height * (columns.stop - left)].view(len(x), height, -1)
            _write_weights(problem, weights, masks, (top, left), g, back, config)
            g = g[:, : rows.stop - top]
            if here is not None:
                _add_product(here, g, y[:, columns])
            if column_sums is not None:
                _add_product(column_sums[columns], g.mT, x[:, rows])
        if dx is not None and here is not None:
            torch.mul(here[:, :d], back[0], out=dx[rows])
    if dy is not None and column_sums is not None:
        torch.mul(column_sums[: problem.m, :d], back[1], out=dy)


def _patch(problem: Problem, row_tile: int) -> tuple[int, int]:
    """Rows and columns whose weights are written out at a time."""
    most = WEIGHT_BYTES // (2 * len(problem.x))
    n, m = padded(problem.n), padded(problem.m)
    height = min(max(most // m, PATCH_ROWS), n) // row_tile * row_tile
    patches = -(-m // max(most // height, 1))
    return height, padded(-(-m // patches))


def _write_weights(
    problem: Problem,
    weights: Weights,
    masks: tuple[Tensor, ...],
    begin: tuple[int, int],
    out: Tensor,
    back: Tensor,
    config: Config,
) -> None:
    """Weights of the patch that begins there, and what products are multiplied with."""
    nobody = Side(back, back, back)
    sides = [weights.rows or nobody, weights.columns or nobody]
    shared = weights.code[0] == 0 and weights.both
    height, across = min(out.shape[1], problem.n - begin[0]), out.shape[2]
    launch(
        write_weights,
        (-(-height // config.rows) * (across // config.columns),),
        (
            *(*problem.arrays(), weights.scales, *masks),
            *(t for s in sides for t in (s.addend, s.apart, s.shared)),
            *(weights.guard, weights.largest, back, out[0], out[-1]),
        ),
        (
            *(*begin, problem.n, problem.m, problem.period, across, problem.room),
            *(*weights.code[1:], weights.steepness),
        ),
        problem.constants(config)
        | weights.constants()
        | {"SHARED": shared, "GUARDED": shared and not problem.safe, "GROUP": GROUP},
        config,
    )


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add the product of rounded matrices, with the remainders' if there are any.

    Where the matrix library can, without a copy of the sum's size.
    """
    in_place = _adds_in_place(total.device)
    for left, right in _factors(a, b):
        if in_place:
            torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
        else:
            total.add_(_float32_product(left, right))


def _factors(a: Tensor, b: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """What is multiplied and added up, one by one."""
    if len(a) == 1:
        yield a[0], b[0]
        return
    for start in range(0, a.shape[2], EXACT_DEPTH):
        part = slice(start, start + EXACT_DEPTH)
        for i, j in ((1, 0), (0, 1), (0, 0)):
            yield a[i][:, part], b[j][part]


@cache
def _adds_in_place(device: torch.device) -> bool:
    """Whether PyTorch adds a product of float16 matrices to a float32 one."""
    if device.type == "cpu":
        return False
    total = torch.zeros((16, 16), dtype=torch.float32, device=device)
    part = torch.zeros((16, 16), dtype=torch.float16, device=device)
    try:
        torch.addmm(total, part.T, part, out_dtype=torch.float32, out=total)
    except (RuntimeError, TypeError):
        return False
    return True


def _float32_product(a: Tensor, b: Tensor) -> Tensor:
    if a.device.type == "cpu":
        return a.float() @ b.float()
    return torch.mm(a, b, out_dtype=torch.float32)
