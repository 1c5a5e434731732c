"""The contrast of two views from their raw rows, in as few launches as it takes.

Unit rows bound every logit by the scale. Where that is known and moderate, one constant
shift is safe for every sum, so nothing is guarded, repaired or asked of the device; and
which rows are of one sample follows from their place, so there are no ids.
"""

import torch
from torch import Tensor

from .._layout import layout, padded, power_of_two
from ._backward import (
    Side,
    Weights,
    largest_of,
    launch_weigh,
    row_gradient_parts,
    wide_gradients,
)
from ._forward import write_log_partitions
from ._launch import launch
from ._problem import Problem
from ._views import enter, leave

ELEMENTS = 2048  # of one program, of either view
ZERO_LENGTH = 1e-12  # a row shorter than this has no direction and stays as it is
Kept = tuple[Tensor, Tensor, Tensor]  # tiles, lengths, state


def contrast_forward(
    u: Tensor, v: Tensor, scale: float, scales: tuple[float, ...], cross: bool,
    exact: bool,
) -> tuple[Tensor, Tensor, Kept]:  # fmt: skip
    """Positive logits (2, n), log-partitions (k, 2, n), and what backward needs."""
    (n, d), device, k = u.shape, u.device, len(scales)
    stride, width = layout(d).stride, power_of_two(layout(d).stride)
    rows = max(ELEMENTS // width, 1)
    parts, each = 1 + exact, padded(n if cross else 2 * n)
    shape = (2, parts, each, stride) if cross else (parts, each, stride)
    tiles = torch.empty(shape, dtype=torch.float16, device=device)
    lengths = torch.empty((2, n), device=device)
    positive = torch.empty((2, n), device=device)
    state = torch.empty(8, device=device)
    negative = torch.empty((k, 2, n), device=device)
    ends = (each, each, parts * each) if cross else (n, each - n, n)
    launch(
        enter,
        (-(-max(ends[:2]) // rows),),
        (u, v, tiles, lengths, positive, state),
        (n, *ends, each, scale, scales[0], scales[-1], ZERO_LENGTH),
        {"D": d, "STRIDE": stride, "EXACT": exact, "ROWS": rows, "WIDTH": width},
    )
    problem = _problem(tiles, state, n, d, cross, _ratio(scales))
    some = state[4 : 4 + k]
    if cross:
        first, second = negative[0]
        write_log_partitions(problem, some, first[None], second[None])
    else:
        write_log_partitions(problem, some, negative.view(k, 2 * n), None)
    return positive, negative, (tiles, lengths, state)


def contrast_backward(
    u: Tensor, v: Tensor, negative: Tensor, kept: Kept, d_positive: Tensor | None,
    d_negative: Tensor, scale: float, scales: tuple[float, ...], cross: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Gradients of the raw rows of both views."""
    tiles, lengths, state = kept
    (n, d), k = u.shape, len(scales)
    problem = _problem(tiles, state, n, d, cross, _ratio(scales))
    some, grad = state[4 : 4 + k], d_negative.contiguous()
    shared, inverse = torch.empty_like(negative), torch.empty(1, device=u.device)
    tensors = (negative, grad, largest_of([grad]), state, some, *(shared,) * 3)
    launch_weigh((*tensors, shared, inverse), problem.room, k, raw=False, guarded=False)
    if cross:
        first, second = shared[0]
        sides = [Side(w, w, w) for w in (first[None], second[None])]
    else:
        sides = [Side(shared, shared, shared)] * 2
    weights = Weights(some, sides[0], sides[1], inverse, inverse)
    if problem.shape.wide:
        u_part, v_part = (
            part[None] for part in wide_gradients(problem, weights, True, cross)
        )
    else:
        u_part = v_part = row_gradient_parts(problem, weights)
        if cross:
            v_part = row_gradient_parts(problem.turned(), weights.turned())
    if not cross:
        v_part = u_part[:, n:]
    du, dv = torch.empty_like(u), torch.empty_like(v)
    width = power_of_two(d)
    rows = max(ELEMENTS // width, 1)
    along = state if d_positive is None else d_positive.contiguous()
    launch(
        leave,
        (-(-n // rows),),
        (u, v, lengths, u_part, v_part, along, du, dv),
        (n, u_part.shape[0], n if cross else 2 * n, scale),
        {"D": d, "POSITIVE": d_positive is not None, "ROWS": rows, "WIDTH": width},
    )
    return du, dv


def _problem(
    tiles: Tensor, state: Tensor, n: int, d: int, cross: bool, ratio: int
) -> Problem:
    x, y = tiles.unbind() if cross else (tiles, tiles)
    m = n if cross else 2 * n
    return Problem(x, y, state, m, m, d, period=n, safe=True, ratio=ratio)


def _ratio(scales: tuple[float, ...]) -> int:
    """How many times the second scale the first is, if kernels can use it."""
    if len(scales) < 2 or scales[1] == 0:
        return 0
    ratio = round(scales[0] / scales[1])
    near = abs(scales[0] / scales[1] - ratio) < 1e-9
    return ratio if near and ratio in (2, 3) else 0
