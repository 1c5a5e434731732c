"""A loss of two views and its gradient, from their raw rows, in few launches.

Unit rows bound every logit by the scale. Where that is known and moderate, one constant
shift is safe for every sum, so nothing is guarded, repaired or asked of the device; and
which rows are of one sample follows from their place, so there are no ids. The loss is
a mean over anchors of a function of their sums, so the gradient needs nothing from
outside: that of unit rows follows at once, and a backward pass has only to multiply it
and to take it back through the rows' lengths.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .._layout import ZERO_LENGTH, layout, padded, power_of_two
from . import _settle
from ._backward import gradient_parts, write_gradients
from ._forward import sums
from ._launch import launch
from ._problem import Problem
from ._settle import ADD_BLOCK, add_up, settle
from ._views import FIRST_SCALE, LARGEST_SLOPE, enter, leave
from ._weighing import Side, Weights

KINDS = {
    "cross_entropy": _settle.CROSS_ENTROPY.value,
    "decoupled": _settle.DECOUPLED.value,
    "flat": _settle.FLAT.value,
    "flat_with_positive": _settle.FLAT_WITH_POSITIVE.value,
    "debiased": _settle.DEBIASED.value,
    "spread": _settle.SPREAD.value,
    "kernel": _settle.KERNEL.value,
}
SCALES_AT, LARGEST_AT = FIRST_SCALE.value, LARGEST_SLOPE.value  # in the state
NOBODY = 2**30  # rows so far apart that no two of one matrix are
ELEMENTS = 2048  # of one program, of either view
SETTLE_BLOCK, SETTLE_PARTS = 128, 32


@dataclass(frozen=True)
class PairLoss:
    """What is computed of two views."""

    kind: str  # of KINDS
    parameters: tuple[float, ...]  # at most three, see _settle
    scale: float  # of the positive's logit
    scales: tuple[float, ...]  # of the negatives' log-partitions, one or two
    log_count: float  # of an anchor's negatives
    negatives: str  # "all", "cross", "within", or "others": all rows but one's own
    exact: bool


def pair_loss(
    u: Tensor, v: Tensor, anchors: Tensor | None, how: PairLoss, want_u: bool,
    want_v: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The loss and, if a view's gradient is wanted, what ``row_gradients`` needs.

    ``anchors`` are what each of the 2 n anchors weighs in the mean, if not all alike.
    """
    inputs = (u, v) if anchors is None else (u, v, anchors)
    return _compute(inputs, how, want_u, want_v)


def row_gradients(
    u: Tensor, v: Tensor, kept: tuple[Tensor, ...], extra: Tensor | None, scale: float,
    outer: Tensor, out: tuple[Tensor, Tensor],
) -> None:  # fmt: skip
    """Gradients of the rows, times what comes from outside; not of unwanted views.

    ``extra`` is added to the gradient of unit rows.
    """
    vectors, terms = kept
    (n, d), width = u.shape, power_of_two(u.shape[1])
    height = max(ELEMENTS // width, 1)
    launch(
        leave,
        (-(-n // height),),
        (u, v, vectors, terms, terms if extra is None else extra, outer, *out),
        (n, terms.shape[0], scale),
        {"EXTRA": extra is not None, "D": d, "ROWS": height, "WIDTH": width},
    )


def _compute(
    inputs: tuple[Tensor, ...], how: PairLoss, want_u: bool, want_v: bool
) -> tuple[Tensor, ...]:
    """The loss, and perhaps vectors (3 + k, 2 n) and terms (parts, 2, n, d)."""
    u, v, *anchors = inputs
    (n, d), device, k = u.shape, u.device, len(how.scales)
    joint = how.negatives in ("all", "others")
    rows = 2 * n if joint else n
    parts, each, stride = 1 + how.exact, padded(rows), layout(d).stride
    shape = (parts, each, stride) if joint else (2, parts, each, stride)
    tiles = torch.empty(shape, dtype=torch.float16, device=device)
    state = torch.empty(8, dtype=torch.float32, device=device)
    vectors = torch.empty((3 + k, 2 * n), dtype=torch.float32, device=device)
    lengths, pull, positive, weights = vectors.split((1, 1, 1, k))
    _enter(u, v, (tiles, lengths, positive, state), how)

    problems = _problems(tiles, state, n, d, how)
    scales = state[SCALES_AT : SCALES_AT + k]
    first, second = sums(problems[0], scales, how.negatives == "cross")
    if how.negatives == "within":
        second, _ = sums(problems[1], scales, False)
    if second is None:
        second = first
    blocks = -(-rows // SETTLE_BLOCK)
    losses = torch.empty((2 * n // rows, blocks), dtype=torch.float32, device=device)
    anchor_weights = anchors[0] if anchors else state
    launch(
        settle,
        (blocks, 2 * n // rows),
        (first, second, positive, anchor_weights, state, pull, weights, losses),
        (
            *(rows, n, first.shape[0], second.shape[0], problems[0].room),
            *(0.5 / n, how.log_count, *(*how.parameters, 0.0, 0.0, 0.0)[:3]),
        ),
        {"KIND": KINDS[how.kind], "SCALES": k, "WEIGHED": bool(anchors)}
        | {"BLOCK": SETTLE_BLOCK, "PARTS": SETTLE_PARTS},
    )
    loss = torch.empty((), dtype=torch.float32, device=device)
    launch(add_up, (1,), (losses, loss), (losses.numel(),), {"BLOCK": ADD_BLOCK})
    if not (want_u or want_v):
        return (loss,)
    del first, second
    shape = (gradient_parts(problems[0]), 2, n, d)
    terms = torch.empty(shape, dtype=torch.float32, device=device)
    sides = weights.view(2 * n // rows, k, rows)
    largest = state[LARGEST_AT:]
    _write_gradients(terms, problems, scales, sides, largest, (want_u, want_v))
    return loss, vectors, terms


def _enter(u: Tensor, v: Tensor, out: tuple[Tensor, ...], how: PairLoss) -> None:
    """Rounded unit rows, lengths, positives' logits, and the numbers of the state."""
    (n, d), (*_, each, stride) = u.shape, out[0].shape
    parts, width = 1 + how.exact, power_of_two(stride)
    height = max(ELEMENTS // width, 1)
    # where u's rows end, v's rows end (both with their padding), and v's begin
    ends = (each, each, parts * each)
    if how.negatives in ("all", "others"):
        ends = (n, each - n, n)
    launch(
        enter,
        (-(-max(ends[:2]) // height),),
        (u, v, *out),
        (n, *ends, each, how.scale, how.scales[0], how.scales[-1], ZERO_LENGTH),
        {"D": d, "STRIDE": stride, "EXACT": how.exact, "ROWS": height, "WIDTH": width}
        | {"DISTANCE": how.kind == "kernel"},
    )


def _problems(
    tiles: Tensor, state: Tensor, n: int, d: int, how: PairLoss
) -> list[Problem]:
    """The matrix of scores, or the two of them."""
    if how.negatives in ("all", "others"):
        pairs, m = [(tiles, tiles)], 2 * n
    else:
        (x, y), m = tiles.unbind(), n
        pairs = [(x, y)] if how.negatives == "cross" else [(x, x), (y, y)]
    period = NOBODY if how.negatives == "others" else n
    ratio = _ratio(how.scales)
    return [
        Problem(x, y, state, m, m, d, period=period, safe=True, ratio=ratio)
        for x, y in pairs
    ]


def _write_gradients(
    terms: Tensor,
    problems: list[Problem],
    scales: Tensor,
    sides: Tensor,
    largest: Tensor,
    wanted: tuple[bool, bool],
) -> None:
    """Terms whose sum is the gradient of unit rows."""
    problem, (*_, n, d) = problems[0], terms.shape
    both = terms[0].view(2 * n, d)
    u, v = (x if want else None for x, want in zip(both.split(n), wanted, strict=True))
    weighed = [Side(w, w, w) for w in sides]
    jobs: list[tuple[Problem, int, int, Tensor | None, Tensor | None]]
    if len(problems) == 2:  # negatives within either view
        jobs = [(problems[0], 0, 0, u, None), (problems[1], 1, 1, v, None)]
    elif len(weighed) == 2:  # across
        jobs = [(problem, 0, 1, u, v)]
    else:  # of both views
        jobs = [(problem, 0, 0, both, None)]
    for some, by_row, by_column, dx, dy in jobs:
        weights = Weights(scales, weighed[by_row], weighed[by_column], largest, largest)
        write_gradients(some, weights, dx, dy, 2 * n)


def _ratio(scales: tuple[float, ...]) -> int:
    """How many times the second scale the first is, if kernels can use it."""
    if len(scales) < 2 or scales[1] == 0:
        return 0
    ratio = round(scales[0] / scales[1])
    near = abs(scales[0] / scales[1] - ratio) < 1e-9
    return ratio if near and ratio in (2, 3) else 0
