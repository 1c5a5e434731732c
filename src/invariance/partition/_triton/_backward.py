"""Launches of the backward kernels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .._layout import STEP, padded
from ._configs import config_for
from ._functions import NUMBERS
from ._gradient import gradient
from ._prepare import weigh
from ._problem import Problem, spans
from ._weights import write_weights

SPAN_BYTES = 32 * 2**20  # for partial gradients of few rows
WEIGHT_BYTES = 256 * 2**20  # for the weights of some wide rows
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
    largest = _largest([g for _, g in pairs])
    guard = torch.zeros(1, dtype=torch.int32, device=problem.device)
    inverse = largest.new_empty(1)

    def side(pair: tuple[Tensor, Tensor] | None) -> Side | None:
        if pair is None:
            return None
        partition, grad = pair[0].contiguous(), pair[1].contiguous()
        out = torch.empty((3, *grad.shape), device=grad.device)
        k, n = grad.shape
        weigh[(-(-n // WEIGH_BLOCK), k)](
            partition, grad, largest, problem.bounds, scales, *out, guard, inverse,
            n, problem.room, 1.0, SCALES=k, RAW=raw, SOFTMAX=True, BLOCK=WEIGH_BLOCK,
        )  # fmt: skip
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
    largest = _largest([grad])
    out = torch.empty((1, len(grad)), device=grad.device)
    inverse = largest.new_empty(1)
    guard = torch.zeros(1, dtype=torch.int32, device=grad.device)
    weigh[(-(-len(grad) // WEIGH_BLOCK), 1)](
        out, grad.contiguous(), largest, problem.bounds, out, out, out, out, guard,
        inverse, len(grad), problem.room, slope,
        SCALES=1, RAW=True, SOFTMAX=False, BLOCK=WEIGH_BLOCK,
    )  # fmt: skip
    side = Side(out, out, out)
    code = NUMBERS[function], parameter, offset
    columns = side if symmetric else None
    return Weights(problem.bounds[:1], side, columns, guard, inverse, code)


def row_gradient(problem: Problem, weights: Weights) -> Tensor:
    """Gradient of the rows x, in float32: (n, d)."""
    n, d = problem.n, problem.d
    config = config_for("gradient", problem.shape, problem.exact, problem.device)
    most = max(SPAN_BYTES // (4 * n * d), 1)
    tiles, each, parts = spans(problem, config, most)
    out = torch.empty((parts, n, d), device=problem.device)
    arrays, names = problem.masks(config.columns)
    softmax = weights.code[0] == 0
    both = weights.rows is not None and weights.columns is not None
    nobody = Side(out, out, out)
    rows, columns = weights.rows or nobody, weights.columns or nobody
    for shared in (True, False) if softmax and both else (False,):
        row_weight, column_weight = (
            side.shared if shared else side.apart for side in (rows, columns)
        )
        gradient[(-(-n // config.rows), parts)](
            *problem.arrays(), weights.scales, *arrays,
            rows.addend, row_weight, columns.addend, column_weight,
            weights.guard, weights.inverse, out,
            n, problem.m, d, problem.room, *weights.code[1:], tiles, each,
            0 if shared else 1,
            FUNCTION=weights.code[0], SCALES=len(weights.scales),
            ROWS=weights.rows is not None, COLUMNS=weights.columns is not None,
            SHARED=shared, GUARDED=softmax and both,
            BM=config.rows, BN=config.columns,
            **names, **problem.widths(), **config.launch,
        )  # fmt: skip
    return out[0] if parts == 1 else out.sum(0)


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
    arrays, names = problem.masks(config.columns)
    softmax = weights.code[0] == 0
    nobody = Side(nothing, nothing, nothing)
    sides = [weights.rows or nobody, weights.columns or nobody]
    both = weights.rows is not None and weights.columns is not None
    back = [weights.inverse * _undo_rounding(b) for b in problem.bounds]
    names |= {"STRIDE": stride, "EXACT": problem.exact, "STEP": STEP}
    for start in range(0, n, step):
        stop = min(start + step, n)
        height = -(-(stop - start) // config.rows)
        write_weights[(height * (across // config.columns),)](
            *problem.arrays(), weights.scales, *arrays,
            *(t for s in sides for t in (s.addend, s.apart, s.shared)),
            weights.guard, g[0], g[-1], start, n, m, across, problem.room,
            *weights.code[1:],
            FUNCTION=weights.code[0], SCALES=len(weights.scales),
            ROWS=weights.rows is not None, COLUMNS=weights.columns is not None,
            SHARED=softmax and both, BM=config.rows, BN=config.columns, GROUP=GROUP,
            **names, **config.launch,
        )  # fmt: skip
        here = g[:, : stop - start]
        if want_x:
            torch.mul(_product(here, y)[:, :d], back[1], out=dx[start:stop])
        if want_y:
            _add_product(dy, here.mT, x[:, start:stop])
    if want_y:
        dy = dy[:m, :d] * back[0]
    return dx, dy


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Product of rounded matrices in float32, with the remainders' if there are any."""
    parts = (
        [(a[0], b[0])] if len(a) == 1 else [(a[1], b[0]), (a[0], b[1]), (a[0], b[0])]
    )
    total = None
    for left, right in parts:
        part = _float32_product(left, right)
        total = part if total is None else total.add_(part)
    assert total is not None
    return total


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    total.add_(_product(a, b))


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


def _largest(tensors: list[Tensor]) -> Tensor:
    """The largest size of any number, on the device."""
    sizes = [torch.linalg.vector_norm(t, ord=torch.inf) for t in tensors]
    return sizes[0] if len(sizes) == 1 else torch.maximum(*sizes)
