"""Launches of the backward kernels."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from .._layout import padded
from ._configs import config_for
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
    inverse: Tensor  # undoes the scaling of the weights
    code: tuple[int, float, float] = (0, 0.0, 0.0)

    def turned(self) -> "Weights":
        """Of the transposed matrix."""
        sides = self.columns, self.rows
        return Weights(self.scales, *sides, self.guard, self.inverse, self.code)


def softmax_weights(
    problem: Problem,
    scales: Tensor,
    rows: tuple[Tensor, Tensor] | None,
    columns: tuple[Tensor, Tensor] | None,
    raw: bool,
) -> Weights:
    """From log-partitions and their gradients; ``raw`` leaves the scale out."""
    pairs = [p for p in (rows, columns) if p is not None]
    largest = largest_of([g for _, g in pairs])
    guard = torch.zeros(1, dtype=torch.int32, device=problem.device)
    inverse = torch.empty(1, device=problem.device)

    def side(pair: tuple[Tensor, Tensor] | None) -> Side | None:
        if pair is None:
            return None
        partition, grad = pair[0].contiguous(), pair[1].contiguous()
        out = torch.empty((3, *grad.shape), device=grad.device)
        tensors = (partition, grad, largest, problem.bounds, scales, *out)
        launch_weigh((*tensors, guard, inverse), problem.room, len(scales), raw=raw)
        return Side(*out)

    by_row = side(rows)
    by_column = by_row if columns is rows else side(columns)
    return Weights(scales, by_row, by_column, guard, inverse)


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
    out = torch.empty((1, len(grad)), device=grad.device)
    inverse = torch.empty(1, device=grad.device)
    guard = torch.zeros(1, dtype=torch.int32, device=grad.device)
    tensors = (out, grad, largest_of([grad]), problem.bounds, *(out,) * 4)
    launch_weigh((*tensors, guard, inverse), problem.room, 1, slope=slope)
    side = Side(out, out, out)
    code = NUMBERS[function], parameter, offset
    columns = side if symmetric else None
    return Weights(problem.bounds[:1], side, columns, guard, inverse, code)


def launch_weigh(
    tensors: tuple[Tensor, ...],
    room: float,
    k: int,
    *,
    raw: bool = True,
    guarded: bool = True,
    slope: float = 0.0,
) -> None:
    """Weights of k n numbers; of a function whose slope is given, or a softmax."""
    n = tensors[1].numel() // k
    sizes = {"SCALES": k, "RAW": raw, "SOFTMAX": slope == 0, "GUARDED": guarded}
    sizes["BLOCK"] = WEIGH_BLOCK
    numbers = (n, room, slope or 1.0)
    launch(weigh, (-(-n // WEIGH_BLOCK), k), tensors, numbers, sizes)


def row_gradient(problem: Problem, weights: Weights) -> Tensor:
    """Gradient of the rows x, in float32: (n, d)."""
    parts = row_gradient_parts(problem, weights)
    return parts[0] if len(parts) == 1 else parts.sum(0)


def row_gradient_parts(problem: Problem, weights: Weights) -> Tensor:
    """The same as terms of a sum: (parts, n, d)."""
    n, d = problem.n, problem.d
    config = config_for("gradient", problem.shape, problem.exact, problem.device)
    most = max(SPAN_BYTES // (4 * n * d), 1)
    tiles, each, parts = spans(problem, config, most)
    out = torch.empty((parts, n, d), device=problem.device)
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
    }
    ways = (True,) if problem.safe and both else (softmax and both, False)
    for shared in dict.fromkeys(ways):
        row_weight, column_weight = (
            side.shared if shared else side.apart for side in (rows, columns)
        )
        launch(
            gradient,
            (-(-n // config.rows), parts),
            (
                *(*problem.arrays(), weights.scales, *masks),
                *(rows.addend, row_weight, columns.addend, column_weight),
                *(weights.guard, weights.inverse, out),
            ),
            (
                *(n, problem.m, problem.period, problem.room, *weights.code[1:]),
                *(tiles, each, 0 if shared else 1),
            ),
            constants | {"SHARED": shared},
            config,
        )
    return out


def wide_gradients(
    problem: Problem, weights: Weights, want_x: bool, want_y: bool
) -> tuple[Tensor, Tensor]:
    """Gradients of x and y where rows are too wide for one program."""
    n, m, d = problem.n, problem.m, problem.d
    config = config_for("gradient", problem.shape, problem.exact, problem.device)
    x, y, stride = problem.x, problem.y, problem.shape.stride
    across = padded(m)
    step = max(WEIGHT_BYTES // (2 * across * len(x)) // config.rows, 1) * config.rows
    step = min(step, padded(n))
    nothing = problem.bounds.new_empty(0)
    dx = torch.empty((n, d), device=problem.device) if want_x else nothing
    dy = torch.zeros((across, stride), device=problem.device) if want_y else nothing
    g = torch.empty((len(x), step, across), dtype=x.dtype, device=x.device)
    masks = problem.masks(config.columns)
    nobody = Side(nothing, nothing, nothing)
    sides = [weights.rows or nobody, weights.columns or nobody]
    shared = (
        weights.code[0] == 0
        and weights.rows is not None
        and weights.columns is not None
    )
    back = [weights.inverse * _undo_rounding(b) for b in problem.bounds[:2]]
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
                *(weights.guard, g[0], g[-1]),
            ),
            (
                *(start, n, m, problem.period, across, problem.room),
                *weights.code[1:],
            ),
            constants,
            config,
        )
        here = g[:, : stop - start]
        if want_x:
            torch.mul(_product(here, y)[:, :d], back[1], out=dx[start:stop])
        if want_y:
            _add_product(dy, here.mT, x[:, start:stop])
    if want_y:
        dy = dy.mul_(back[0])[:m, :d].contiguous()
    return dx, dy


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Product of rounded matrices in float32, with the remainders' if there are any."""
    total = None
    for left, right in _factors(a, b):
        part = _float32_product(left, right)
        total = part if total is None else total.add_(part)
    assert total is not None
    return total


def _factors(a: Tensor, b: Tensor) -> list[tuple[Tensor, Tensor]]:
    if len(a) == 1:
        return [(a[0], b[0])]
    return [(a[1], b[0]), (a[0], b[1]), (a[0], b[0])]


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add it to a sum; where the matrix library can, without a copy of that size."""
    if not _adds_in_place(total.device):
        total.add_(_product(a, b))
        return
    for left, right in _factors(a, b):
        torch.addmm(total, left, right, out_dtype=torch.float32, out=total)


@cache
def _adds_in_place(device: torch.device) -> bool:
    """Whether PyTorch adds a product of float16 matrices to a float32 one."""
    if device.type == "cpu":
        return False
    total = torch.zeros((16, 16), device=device)
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
