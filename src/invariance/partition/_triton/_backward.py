"""Launches of the backward kernels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from .._layout import padded
from ._configs import Config, config_for
from ._functions import NUMBERS
from ._gradient import gradient
from ._launch import launch
from ._prepare import weigh
from ._problem import Problem, spans
from ._weights import write_weights

SPAN_BYTES = 32 * 2**20  # for partial gradients of few rows
WEIGHT_BYTES = 384 * 2**20  # for the weights of some wide rows
WEIGH_BLOCK = 1024
GROUP = 8
# Pairs up to which a wide gradient is computed chunk by chunk, in one launch: 2,048 of
# either view take the device 0.13 ms longer than with products, the host 0.7 ms less.
CHUNKED_UP_TO, WIDEST_CHUNK = 2**22, 128
EXACT_DEPTH = 1024  # a matrix unit truncates as it adds: longer sums lose digits
RIESZ_SLOPE = 1024.0  # of D^-1 where distances are no longer resolved


@dataclass(frozen=True)
class Side:
    """Weights of rows, or of columns: with exponents of their own, or a shared one."""

    addend: Tensor
    apart: Tensor
    shared: Tensor


@dataclass(frozen=True)
class Weights:
    """What a gradient is weighed with."""

    scales: Tensor
    rows: Side | None
    columns: Side | None
    guard: Tensor  # not 0 if the shared exponent would lose something
    largest: Tensor  # no row's gradient exceeds this
    steepness: float = 0.0  # and no weight this times that; 0 for the scales' sum
    code: tuple[int, float, float] = (0, 0.0, 0.0)

    def turned(self) -> "Weights":
        """Of the transposed matrix."""
        return replace(self, rows=self.columns, columns=self.rows)


def softmax_weights(
    problem: Problem,
    scales: Tensor,
    rows: tuple[Tensor, Tensor] | None,
    columns: tuple[Tensor, Tensor] | None,
    raw: bool,
) -> Weights:
    """From log-partitions and their gradients; ``raw`` leaves the scale out."""
    pairs = [p for p in (rows, columns) if p is not None]
    guard = torch.zeros(1, dtype=torch.int32, device=problem.device)

    def side(pair: tuple[Tensor, Tensor] | None) -> Side | None:
        if pair is None:
            return None
        partition, grad = pair[0].contiguous(), pair[1].contiguous()
        (k, n), sizes = grad.shape, {"RAW": raw, "BLOCK": WEIGH_BLOCK}
        out = torch.empty((3, k, n), dtype=torch.float32, device=grad.device)
        tensors = (partition, grad, problem.bounds, scales, *out, guard)
        grid = (-(-n // WEIGH_BLOCK), k)
        launch(weigh, grid, tensors, (n, problem.room), sizes)
        return Side(*out)

    by_row = side(rows)
    by_column = by_row if columns is rows else side(columns)
    largest = largest_of([g for _, g in pairs])
    steepness = float(len(scales)) if raw else 0.0
    return Weights(scales, by_row, by_column, guard, largest, steepness)


def slope_weights(
    problem: Problem,
    function: str,
    parameter: float,
    offset: float,
    grad: Tensor,
    symmetric: bool,
) -> Weights:
    """For a sum of another function, whose slope has a bound."""
    slope = {
        "softplus": 1.0,
        "log": abs(parameter),
        "imq": parameter**-2 if parameter else 1.0,
        "riesz": RIESZ_SLOPE,
    }[function]
    grad = grad.contiguous()
    side, largest = Side(grad, grad, grad), largest_of([grad])
    columns = side if symmetric else None
    return Weights(
        problem.bounds[:1],
        side,
        columns,
        guard=problem.bounds,
        largest=largest,
        steepness=slope or 1.0,
        code=(NUMBERS[function], parameter, offset),
    )


def row_gradient(problem: Problem, weights: Weights) -> Tensor:
    """Gradient of the rows x, in float32: (n, d)."""
    n, d = problem.n, problem.d
    parts = gradient_parts(problem)
    out = torch.empty((parts, n, d), dtype=torch.float32, device=problem.device)
    write_row_gradient(problem, weights, out, n)
    return out[0] if parts == 1 else out.sum(0)


def write_gradients(
    problem: Problem,
    weights: Weights,
    dx: Tensor | None,
    dy: Tensor | None,
    part_rows: int,
) -> None:
    """Gradients of rows and columns into tensors that are there, if they are.

    As ``gradient_parts`` terms of a sum, each ``part_rows`` behind the one before.
    """
    if dx is None and dy is None:
        return
    if _many_and_wide(problem):
        write_wide_gradients(problem, weights, dx, dy)
        return
    if dx is not None:
        write_row_gradient(problem, weights, dx, part_rows)
    if dy is not None:
        write_row_gradient(problem.turned(), weights.turned(), dy, part_rows)


def gradient_parts(problem: Problem) -> int:
    """How many terms ``write_gradients`` writes a gradient as."""
    return 1 if _many_and_wide(problem) else _spans(problem, _config(problem))[2]


def _many_and_wide(problem: Problem) -> bool:
    """Whether weights are better written out than scores computed for every chunk."""
    return problem.shape.wide and problem.n * problem.m > CHUNKED_UP_TO


def _config(problem: Problem) -> Config:
    kernel = "chunks" if problem.shape.wide else "gradient"
    return config_for(kernel, problem.shape, problem.exact, problem.device)


def _chunk(problem: Problem) -> int:
    """Columns of a wide gradient that a program owns; they divide the stride."""
    if not problem.shape.wide:
        return 0
    return math.gcd(problem.shape.stride, WIDEST_CHUNK)


def _spans(problem: Problem, config: Config) -> tuple[int, int, int]:
    return spans(problem, config, max(SPAN_BYTES // (4 * problem.n * problem.d), 1))


def write_row_gradient(
    problem: Problem, weights: Weights, out: Tensor, part_rows: int
) -> None:
    """The same as ``write_gradients``, of the rows alone."""
    n, config = problem.n, _config(problem)
    tiles, each, parts = _spans(problem, config)
    chunk = _chunk(problem)
    masks = problem.masks(config.columns)
    softmax = weights.code[0] == 0
    both = weights.rows is not None and weights.columns is not None
    nobody = Side(out, out, out)
    rows, columns = weights.rows or nobody, weights.columns or nobody
    guarded = softmax and both and not problem.safe
    constants = problem.constants(config) | {
        "FUNCTION": weights.code[0],
        "SCALES": weights.scales.shape[0],
        "ROWS": weights.rows is not None,
        "COLUMNS": weights.columns is not None,
        "GUARDED": guarded,
        "CHUNK": chunk,
    }
    chunks = problem.shape.stride // chunk if chunk else 1
    ways = (True,) if problem.safe and both else (softmax and both, False)
    for shared in dict.fromkeys(ways):
        row_weight, column_weight = (
            side.shared if shared else side.apart for side in (rows, columns)
        )
        launch(
            gradient,
            (-(-n // config.rows), parts, chunks),
            (
                *(*problem.arrays(), weights.scales, *masks),
                *(rows.addend, row_weight, columns.addend, column_weight),
                *(weights.guard, weights.largest, out),
            ),
            (
                *(n, problem.m, problem.period, problem.room, *weights.code[1:]),
                *(weights.steepness, tiles, each, 0 if shared else 1, part_rows),
            ),
            constants | {"SHARED": shared},
            config,
        )


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
    shared = (
        weights.code[0] == 0
        and weights.rows is not None
        and weights.columns is not None
    )
    constants = problem.constants(config) | {
        "FUNCTION": weights.code[0],
        "SCALES": weights.scales.shape[0],
        "ROWS": weights.rows is not None,
        "COLUMNS": weights.columns is not None,
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


def _undo_rounding(bound: Tensor) -> Tensor:
    """The power of two that rows of this bound were multiplied with, inverted."""
    exponent = (torch.frexp(bound).exponent - 10).clamp(-100, 100)
    return torch.ldexp(torch.ones_like(bound), exponent)


def restored(tiles: Tensor, bound: Tensor, n: int, d: int) -> Tensor:
    """Rounded rows as float32 again."""
    rows = tiles[0, :n, :d].float()
    if len(tiles) == 2:
        rows += tiles[1, :n, :d]
    return rows.mul_(_undo_rounding(bound))


def largest_of(tensors: list[Tensor]) -> Tensor:
    """The largest size of any number, on the device."""
    sizes = [torch.linalg.vector_norm(t, ord=torch.inf) for t in tensors]
    return sizes[0] if len(sizes) == 1 else torch.maximum(*sizes)
