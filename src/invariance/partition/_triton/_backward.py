"""Launches of the backward kernels."""

import math

import torch
from torch import Tensor

from ._configs import Config, config_for
from ._gradient import gradient
from ._launch import launch
from ._problem import Problem, spans
from ._weighing import Side, Weights
from ._wide import write_wide_gradients

SPAN_BYTES = 32 * 2**20  # for partial gradients of few rows
# Pairs up to which a wide gradient is computed chunk by chunk, in one launch: 2,048 of
# either view take the device 0.13 ms longer than with products, the host 0.7 ms less.
CHUNKED_UP_TO, WIDEST_CHUNK = 2**22, 128


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
    both = weights.both
    nobody = Side(out, out, out)
    rows, columns = weights.rows or nobody, weights.columns or nobody
    guarded = softmax and both and not problem.safe
    constants = problem.constants(config) | weights.constants()
    constants |= {"GUARDED": guarded, "CHUNK": chunk}
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
