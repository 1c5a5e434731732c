"""Gradients of many wide rows: weights are written out, and multiplied by products.

The products are the matrix library's, which beats a fused kernel there; only some rows'
weights exist at a time.
"""

from collections.abc import Iterator
from functools import cache

import torch
from torch import Tensor

from .._layout import padded
from ._configs import config_for
from ._launch import launch
from ._problem import Problem
from ._weighing import Side, Weights
from ._weights import write_weights

WEIGHT_BYTES = 384 * 2**20  # for the weights of some wide rows
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
    n, m, d = problem.n, problem.m, problem.d
    config = config_for("gradient", problem.shape, problem.exact, problem.device)
    x, y, stride = problem.x, problem.y, problem.shape.stride
    across = padded(m)
    step = max(WEIGHT_BYTES // (2 * across * len(x)) // config.rows, 1) * config.rows
    step = min(step, padded(n))
    back = torch.empty(2, dtype=torch.float32, device=x.device)
    total = None
    if dy is not None:
        total = torch.zeros(
            (across, stride), dtype=torch.float32, device=problem.device
        )
    g = torch.empty((len(x), step, across), dtype=x.dtype, device=x.device)
    masks = problem.masks(config.columns)
    nobody = Side(back, back, back)
    sides = [weights.rows or nobody, weights.columns or nobody]
    shared = weights.code[0] == 0 and weights.both
    constants = problem.constants(config) | weights.constants()
    constants |= {
        "SHARED": shared,
        "GUARDED": shared and not problem.safe,
        "GROUP": GROUP,
    }
    for start in range(0, n, step):
        stop = min(start + step, n)
        height = -(-(stop - start) // config.rows)
        launch(
            write_weights,
            (height * (across // config.columns),),
            (
                *(*problem.arrays(), weights.scales, *masks),
                *(t for s in sides for t in (s.addend, s.apart, s.shared)),
                *(weights.guard, weights.largest, back, g[0], g[-1]),
            ),
            (
                *(start, n, m, problem.period, across, problem.room),
                *(*weights.code[1:], weights.steepness),
            ),
            constants,
            config,
        )
        here = g[:, : stop - start]
        if dx is not None:
            torch.mul(_product(here, y)[:, :d], back[0], out=dx[start:stop])
        if total is not None:
            _add_product(total, here.mT, x[:, start:stop])
    if dy is not None and total is not None:
        torch.mul(total[:m, :d], back[1], out=dy)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Product of rounded matrices in float32, with the remainders' if there are any."""
    if len(a) == 1:
        return _float32_product(a[0], b[0])
    total = torch.zeros((a.shape[1], b.shape[2]), dtype=torch.float32, device=a.device)
    _add_product(total, a, b)
    return total


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add it to a sum; where the matrix library can, without a copy of that size."""
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
