"""What pairs weigh in a gradient: numbers of their rows and of their columns."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ._functions import NUMBERS
from ._launch import launch
from ._prepare import weigh
from ._problem import Problem

WEIGH_BLOCK = 1024
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

    @property
    def both(self) -> bool:
        """Whether rows and columns have weights."""
        return self.rows is not None and self.columns is not None

    def constants(self) -> dict[str, Any]:
        """What is known when a kernel is compiled."""
        return {
            "FUNCTION": self.code[0],
            "SCALES": self.scales.shape[0],
            "ROWS": self.rows is not None,
            "COLUMNS": self.columns is not None,
        }

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


def largest_of(tensors: list[Tensor]) -> Tensor:
    """The largest size of any number, on the device."""
    sizes = [torch.linalg.vector_norm(t, ord=torch.inf) for t in tensors]
    return sizes[0] if len(sizes) == 1 else torch.maximum(*sizes)
