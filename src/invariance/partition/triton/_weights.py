r"""What pairs weigh in a gradient: numbers of their rows and of their columns.

The pair (i, j) weighs $G_{ij} = a\,(g_i e^{a s_{ij} - P_i} + g_j e^{a s_{ij} - P_j})$,
with the first part for row sums and the second for column sums. Each part has an
exponent of its own. Under the constant shift c of the forward pass both share one
exponential, $e^{a s - c}(w_i + w_j)$, unless a weight w leaves float32's range: that
raises the ``overflow_flag``, and then the exponents of their own are used.
"""

from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from ._device import (
    EXP,
    FLOAT16_MAX,
    FUNCTIONS,
    LOG2E,
    LOST_TERMS,
    MODERATE_BOUND,
    RIESZ,
    bound_logits,
    choose_shift,
    slope_of,
)
from ._launch import Launch, kept_by_shape
from ._problem import Problem, new_float32

WEIGH_BLOCK = 1024
RIESZ_SLOPE = 1024.0  # of D^-1 where distances are no longer resolved
# A row's sum may be so many e-folds off the shift: any gradient over it is a number.
FARTHEST_SUM = tl.constexpr(64.0)


class Side(NamedTuple):
    """Weights of rows, or of columns."""

    own_shift: Tensor  # added to the logits (base 2) of a row
    own_weight: Tensor  # goes with the shift of the row's own
    shared_weight: Tensor  # goes with the constant shift


class Kind(NamedTuple):
    """What launches depend on: everything about weights but their tensors."""

    scales: int = 1
    rows: bool = True  # whether rows have weights
    columns: bool = True
    function: tuple[int, float, float] = (EXP.value, 0.0, 0.0)  # parameter and offset
    steepness: float = 0.0  # of another function, or if scales are left out; else 0

    @property
    def can_share(self) -> bool:
        """Whether rows and columns may share an exponential."""
        return self.function[0] == EXP.value and self.rows and self.columns

    def numbers(self) -> dict[str, float]:
        """The next numbers of a kernel that weighs pairs."""
        _, parameter, offset = self.function
        steepness = self.steepness
        return {"parameter": parameter, "offset": offset, "steepness": steepness}

    def constants(self) -> dict[str, Any]:
        """What is known when a kernel is compiled."""
        sides = {"ROWS": self.rows, "COLUMNS": self.columns}
        return {"FUNCTION": self.function[0], "SCALES": self.scales, **sides}


class Weights(NamedTuple):
    """What a gradient is weighed with; a side without weights holds anything."""

    kind: Kind
    scales: Tensor
    rows: Side
    columns: Side
    overflow_flag: Tensor  # not 0 if the shared exponent would lose something
    largest: Tensor  # no row's gradient exceeds this

    def transpose(self) -> "Weights":
        """The weights of the transposed matrix."""
        kind = self.kind._replace(rows=self.kind.columns, columns=self.kind.rows)
        return self._replace(kind=kind, rows=self.columns, columns=self.rows)


# ---------------------------------------------------------------- in a tile of pairs


@triton.jit
@no_type_check
def load_numbers(base, at, USED: tl.constexpr):
    """Numbers of some rows, or anything where they are not used."""
    numbers = at
    if USED:
        numbers = tl.load(base + at)
    return numbers


@triton.jit
@no_type_check
def softmax_weight(
    scores, slope, shift, row_shift, row_weight, column_shift, column_weight,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """Softmax weights of a tile of pairs at one scale."""
    logit = scores * slope
    if SHARED:
        both = row_weight[:, None] + column_weight[None, :]
        weight = tl.exp2(logit - shift) * both
    elif ROWS:
        weight = tl.exp2(logit + row_shift[:, None]) * row_weight[:, None]
        if COLUMNS:
            weight += tl.exp2(logit + column_shift[None, :]) * column_weight[None, :]
    else:
        weight = tl.exp2(logit + column_shift[None, :]) * column_weight[None, :]
    return weight


@triton.jit
@no_type_check
def power_weight(
    scores, slope, shift, row_weight0, column_weight0, row_weight1, column_weight1,
    RATIO: tl.constexpr,
):  # fmt: skip
    """Softmax weights at two scales, from the second's exponential alone."""
    small = tl.exp2(scores * slope - shift)
    large = small
    if RATIO == 3:
        large = small * small
    # e^RATIO w0 + e w1 = e (e^(RATIO - 1) w0 + w1)
    weight = large * (row_weight0[:, None] + column_weight0[None, :])
    weight += row_weight1[:, None] + column_weight1[None, :]
    return small * weight


@triton.jit
@no_type_check
def slope_weight(
    scores, parameter, row_weight, column_weight,
    FUNCTION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Weights of a tile of pairs for another function of the scores."""
    weight = slope_of(scores, parameter, FUNCTION)
    if ROWS and COLUMNS:
        weight = weight * (row_weight[:, None] + column_weight[None, :])
    elif ROWS:
        weight = weight * row_weight[:, None]
    else:
        weight = weight * column_weight[None, :]
    if FUNCTION == RIESZ:  # a cusp is steeper than scores are resolved
        weight = tl.minimum(tl.maximum(weight, -FLOAT16_MAX), FLOAT16_MAX)
    return weight


# ---------------------------------------------------------------- of rows


@triton.jit(do_not_specialize=["n"])
@no_type_check
def weigh_rows(
    partition, gradient, bounds, scales, own_shift, own_weight, shared_weight,
    overflow_flag, n, exponent_budget,
    RAW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Weights of rows in the gradient of a softmax, of both kinds.

    RAW leaves the scale out of the weights.
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
    logit_bound = bound_logits(scale, bounds)
    above = p - choose_shift(logit_bound, exponent_budget)
    moderate = logit_bound <= MODERATE_BOUND
    lowest = tl.where(moderate, -FARTHEST_SUM, LOST_TERMS - exponent_budget)
    safe = empty | ((above >= lowest) & (above <= FARTHEST_SUM))
    shared = tl.where(safe, g * tl.exp2(-above * LOG2E), 0.0)
    shared = tl.where(p == p, shared, p)  # NaN stays NaN
    tl.store(shared_weight + k * n + at, shared, mask=inside)
    tl.store(own_weight + k * n + at, g, mask=inside)
    tl.store(own_shift + k * n + at, -p * LOG2E, mask=inside)
    tl.atomic_max(overflow_flag, tl.max((~safe).to(tl.int32), 0))


@kept_by_shape
def _weigh_launch(k: int, n: int, exponent_budget: float, raw: bool) -> Launch:
    return Launch(
        weigh_rows,
        (-(-n // WEIGH_BLOCK), k),
        {"n": n, "exponent_budget": exponent_budget},
        {"RAW": raw, "BLOCK": WEIGH_BLOCK},
    )


def softmax_weights(
    problem: Problem,
    scales: Tensor,
    rows: tuple[Tensor, Tensor],
    columns: tuple[Tensor, Tensor] | None,
    raw: bool,
) -> Weights:
    """From log-partitions and their gradients; ``raw`` leaves the scale out."""
    flag = torch.zeros(1, dtype=torch.int32, device=problem.form.device)

    def weigh(partition: Tensor, gradient: Tensor) -> Side:
        partition, gradient = partition.contiguous(), gradient.contiguous()
        k, n = gradient.shape
        side = Side(*new_float32(gradient.device, 3, k, n))
        _weigh_launch(k, n, problem.form.exponent_budget, raw)(
            partition=partition,
            gradient=gradient,
            bounds=problem.bounds,
            scales=scales,
            own_shift=side.own_shift,
            own_weight=side.own_weight,
            shared_weight=side.shared_weight,
            overflow_flag=flag,
        )
        return side

    k, by_row = len(scales), weigh(*rows)
    by_column, largest = by_row, _largest(rows[1])
    if columns is not None and columns is not rows:
        by_column = weigh(*columns)
        largest = torch.maximum(largest, _largest(columns[1]))
    kind = Kind(k, columns=columns is not None, steepness=float(k) if raw else 0.0)
    return Weights(kind, scales, by_row, by_column, flag, largest)


def slope_weights(
    problem: Problem,
    function: tuple[str, float, float],
    by_row: Tensor,
    by_column: Tensor | None,
) -> Weights:
    """For a sum of another function, whose slope has a bound."""
    name, parameter, offset = function
    slope = {
        "softplus": 1.0,
        "log": abs(parameter),
        "imq": parameter**-2 if parameter else 1.0,
        "riesz": RIESZ_SLOPE,
    }[name]
    sides = [by_row.contiguous()]
    other = None if by_column is by_row else by_column
    sides.append(sides[0] if other is None else other.contiguous())
    rows, columns = (Side(x, x, x) for x in sides)
    kind = Kind(
        columns=by_column is not None,
        function=(FUNCTIONS[name], parameter, offset),
        steepness=slope or 1.0,
    )
    none = problem.bounds
    largest = _largest(sides[0])
    if sides[1] is not sides[0]:
        largest = torch.maximum(largest, _largest(sides[1]))
    return Weights(kind, none[:1], rows, columns, none, largest)


def _largest(numbers: Tensor) -> Tensor:
    """The largest size of any number, on the device."""
    return torch.linalg.vector_norm(numbers, ord=torch.inf)
