r"""A loss of two views and its gradient, from their raw rows, in few launches.

Unit rows bound every logit by the scale. Where that is known and moderate, one constant
shift is safe for every sum, so nothing is guarded, repaired or asked of the device; and
which rows are of one sample follows from their place, so there are no ids. The loss is
a mean over anchors of a function of their sums (``_anchor_loss``), so the gradient
needs nothing from outside: that of unit rows follows at once, and a backward pass has
only to multiply it and to take it back through the rows' lengths.

A learned scale a is read from the device. Rows enter the loss as $a\,z_i\cdot z_j$
alone, so its derivative is $\sum_i z_i\cdot\partial L/\partial z_i\,/\,2a$ over all
rows of both views (Euler): n products of rows that are at hand.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...checked_rows import SHORTEST
from .._layout import layout, padded, power_of_two
from ._anchor_loss import KINDS, anchor_loss
from ._backward import count_gradient_parts, write_gradients
from ._device import LN2, PERIODIC_IDS, bound_logits, choose_shift, row_factor
from ._forward import plan_sums, sums
from ._launch import Launch, kept_by_shape
from ._problem import Form, Problem, load_unit_rows, new_float32, through_length
from ._weights import Kind, Side, Weights

# Places in ``state``; before them the bounds of both sides, which are 1.
FIRST_SCALE, SECOND_SCALE, LARGEST_SLOPE = (tl.constexpr(place) for place in (4, 5, 6))
STATE_SIZE = tl.constexpr(8)
# Lines of 2 n numbers in ``vectors``: lengths, derivatives by the positives, the
# positives' logits (n alone), and what anchors weigh at each scale.
PULLS, POSITIVES, WEIGHTS = (tl.constexpr(line) for line in (1, 2, 3))
NO_PARTNER = 2**30  # a period that no two rows of one matrix are apart
ROW_ELEMENTS = 2048  # of one program, of either view
SETTLE_BLOCK, SETTLE_PARTS = 128, 32
ADD_BLOCK = 1024  # numbers that ``add_up`` takes at a time


# ---------------------------------------------------------------- rows in


@triton.jit
@no_type_check
def store_rounded(tiles, at, stored, unit, remainder_at, EXACT: tl.constexpr):
    """Rows of length one as the kernels take them."""
    value = unit * row_factor(tl.full([], 1.0, tl.float32))
    high = value.to(tl.float16)
    tl.store(tiles + at, high, mask=stored)
    if EXACT:
        low = (value - high.to(tl.float32)).to(tl.float16)
        tl.store(tiles + remainder_at + at, low, mask=stored)


@triton.jit(do_not_specialize=["n", "u_end", "v_end", "v_start", "padded"])
@no_type_check
def enter(
    u, v, learned, tiles, vectors, state,
    n, u_end, v_end, v_start, padded, scale, scale0, scale1, least,
    LEARNED: tl.constexpr, D: tl.constexpr, STRIDE: tl.constexpr, EXACT: tl.constexpr,
    DISTANCE: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Rounded unit rows of both views (zeros up to ``end``), lengths, and positives.

    LEARNED: all scales are factors on a number of the device. DISTANCE:
    $1 - |a - b|^2 / 2$ for a product, which differs if a row has no length.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    long_rows = rows.to(tl.int64)
    inside = (rows < n)[:, None] & (columns < D)[None, :]
    at = long_rows[:, None] * D + columns[None, :]
    a, a_length = load_unit_rows(u, at, inside, least)
    b, b_length = load_unit_rows(v, at, inside, least)
    within = (columns < STRIDE)[None, :]
    remainder_at = (tl.zeros([], tl.int64) + padded) * STRIDE
    to = long_rows[:, None] * STRIDE + columns[None, :]
    stored = (rows < u_end)[:, None] & within
    store_rounded(tiles, to, stored, a, remainder_at, EXACT)
    to = (long_rows + v_start)[:, None] * STRIDE + columns[None, :]
    stored = (rows < v_end)[:, None] & within
    store_rounded(tiles, to, stored, b, remainder_at, EXACT)
    if LEARNED:
        factor = tl.load(learned)
        scale, scale0, scale1 = scale * factor, scale0 * factor, scale1 * factor
    product = tl.sum(a * b, 1)
    if DISTANCE:
        product = 1.0 - 0.5 * tl.sum((a - b) * (a - b), 1)
    tl.store(vectors + rows, a_length, mask=rows < n)
    tl.store(vectors + n + rows, b_length, mask=rows < n)
    tl.store(vectors + POSITIVES * 2 * n + rows, product * scale, mask=rows < n)
    if tl.program_id(0) == 0:
        places = tl.arange(0, STATE_SIZE)
        scales = tl.where(places == SECOND_SCALE, scale1, scale0)
        # behind the scales the largest gradient of a row, none so far
        numbers = tl.where(places < FIRST_SCALE, 1.0,
                           tl.where(places <= SECOND_SCALE, scales, 0.0))  # fmt: skip
        tl.store(state + places, numbers)


# ---------------------------------------------------------------- sums to losses


@triton.jit
@no_type_check
def add_parts(
    sums, at, rows, parts, k, SCALES: tl.constexpr, BLOCK: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Partial sums added up, in a fixed order."""
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, parts, PARTS):
        part = start + tl.arange(0, PARTS)
        line = (part.to(tl.int64) * SCALES + k)[:, None] * rows
        inside = (part < parts)[:, None] & (at < rows)[None, :]
        total += tl.sum(tl.load(sums + line + at[None, :], mask=inside, other=0.0), 0)
    return tl.where(at < rows, total, 1.0)


@triton.jit(do_not_specialize=["rows", "pairs", "first_parts", "second_parts"])
@no_type_check
def settle(
    first_sums, second_sums, anchors, state, vectors, losses,
    rows, pairs, first_parts, second_parts, exponent_budget, share, count, a, b, c,
    KIND: tl.constexpr, SCALES: tl.constexpr, WEIGHED: tl.constexpr,
    BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Losses of some anchors added up, and what their gradient weighs.

    ``share`` is an anchor's part in the mean, times its own of ``anchors`` if WEIGHED.
    The largest derivative goes into ``state``: a maximum, which does not depend on the
    order.
    """
    block, side = tl.program_id(0), tl.program_id(1)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < rows
    if side == 0:
        sum0 = add_parts(first_sums, at, rows, first_parts, 0, SCALES, BLOCK, PARTS)
    else:
        sum0 = add_parts(second_sums, at, rows, second_parts, 0, SCALES, BLOCK, PARTS)
    scale0 = tl.load(state + FIRST_SCALE)
    shift0 = choose_shift(bound_logits(scale0, state), exponent_budget)
    log0 = tl.log2(sum0) * LN2 + shift0
    log1 = log0
    if SCALES == 2:  # both views are one matrix then
        sum1 = add_parts(first_sums, at, rows, first_parts, 1, SCALES, BLOCK, PARTS)
        scale1 = tl.load(state + SECOND_SCALE)
        shift1 = choose_shift(bound_logits(scale1, state), exponent_budget)
        log1 = tl.log2(sum1) * LN2 + shift1
        log0 += count
    positive = vectors + POSITIVES * 2 * pairs + at % pairs
    p = tl.load(positive, mask=inside, other=0.0)
    loss, slope, pull = anchor_loss(p, log0, log1, a, b, c, KIND, SCALES)
    part = tl.zeros([BLOCK], tl.float32) + share
    if WEIGHED:
        part *= tl.load(anchors + side * rows + at, mask=inside, other=0.0)
    loss = tl.where(inside, loss * part, 0.0)
    slope = tl.where(inside, slope * part, 0.0)
    tl.store(losses + side * tl.num_programs(0) + block, tl.sum(loss, 0))
    pulls = vectors + PULLS * 2 * pairs + side * rows + at
    tl.store(pulls, -pull * part, mask=inside)
    weights = vectors + WEIGHTS * 2 * pairs + side * SCALES * rows + at
    tl.store(weights, slope * scale0 / sum0, mask=inside)
    if SCALES == 2:
        tl.store(weights + rows, -slope * scale1 / sum1, mask=inside)
    tl.atomic_max(state + LARGEST_SLOPE, tl.max(tl.abs(slope), 0))


@triton.jit(do_not_specialize=["n"])
@no_type_check
def add_up(parts, out, n, BLOCK: tl.constexpr):
    """The sum of n numbers, in a fixed order, by one program."""
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(parts + at, mask=at < n, other=0.0)
    tl.store(out, tl.sum(total, 0))


@kept_by_shape
def make_add_up(n: int) -> Launch:
    """The launch that adds up n numbers."""
    return Launch(add_up, (1,), {"n": n}, {"BLOCK": ADD_BLOCK})


# ---------------------------------------------------------------- gradients out


@triton.jit(do_not_specialize=["n", "parts"])
@no_type_check
def leave(
    u, v, learned, vectors, terms, extra, outer, du, dv, along, n, parts, scale,
    LEARNED: tl.constexpr, EXTRA: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    r"""Gradients of both views' rows from the terms of their unit rows' gradients.

    $du = (g - \hat u\,(\hat u\cdot g)) / |u|$. ``extra`` is one more term if EXTRA;
    ``outer`` is what comes from outside, multiplied before anything is rounded.
    LEARNED: ``along`` gets the sum of $z\cdot g$ over some rows, without ``extra``.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    valid = rows < n
    inside = valid[:, None] & (columns < D)[None, :]
    at = rows.to(tl.int64)[:, None] * D + columns[None, :]
    v_at = (tl.zeros([], tl.int64) + n) * D
    a_length = tl.load(vectors + rows, mask=valid, other=1.0)
    b_length = tl.load(vectors + n + rows, mask=valid, other=1.0)
    a = tl.load(u + at, mask=inside, other=0.0).to(tl.float32) / a_length[:, None]
    b = tl.load(v + at, mask=inside, other=0.0).to(tl.float32) / b_length[:, None]
    a_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    b_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    for part in range(0, parts):
        skip = 2 * v_at * part
        a_sum += tl.load(terms + skip + at, mask=inside, other=0.0)
        b_sum += tl.load(terms + skip + v_at + at, mask=inside, other=0.0)
    pulls = vectors + PULLS * 2 * n + rows
    pull = tl.load(pulls, mask=valid, other=0.0)
    pull += tl.load(pulls + n, mask=valid, other=0.0)
    if LEARNED:
        scale = tl.load(learned)
        # the pull along the positive is in both views' gradients
        slopes = tl.sum(
            a * a_sum + b * b_sum + 2.0 * (pull * scale)[:, None] * a * b, 1
        )
        tl.store(along + tl.program_id(0), tl.sum(slopes, 0))
    if EXTRA:
        a_sum += tl.load(extra + at, mask=inside, other=0.0)
        b_sum += tl.load(extra + v_at + at, mask=inside, other=0.0)
    times = tl.load(outer)
    a_sum += (pull * scale)[:, None] * b
    b_sum += (pull * scale)[:, None] * a
    a_sum = through_length(a, a_sum, a_length) * times
    b_sum = through_length(b, b_sum, b_length) * times
    tl.store(du + at, a_sum.to(du.dtype.element_ty), mask=inside)
    tl.store(dv + at, b_sum.to(dv.dtype.element_ty), mask=inside)


# ---------------------------------------------------------------- all of it


class PairLoss(NamedTuple):
    """What is computed of two views."""

    kind: str  # of KINDS
    parameters: tuple[float, ...]  # at most three, see ``anchor_loss``
    scale: float  # of the positive's logit; times the learned scale if there is one
    scales: tuple[float, ...]  # of the negatives' log-partitions, one or two
    log_count: float  # of an anchor's negatives
    negatives: str  # "all", "cross", "within", or "others": all rows but one's own
    exact: bool


class LossPlan(NamedTuple):
    """The launches of a loss, and the shapes of what is between them."""

    form: Form  # of the matrix of scores, or of either of two
    kind: Kind  # of the weights of pairs
    tile_shape: tuple[int, ...]
    loss_shape: tuple[int, int]  # of the partial losses
    enter: Launch
    settle: Launch
    add_up: Launch


@kept_by_shape
def _plan_loss(
    n: int, d: int, device: torch.device, how: PairLoss, weighed: bool, learned: bool
) -> LossPlan:
    joint = how.negatives in ("all", "others")
    rows, sides = (2 * n, 1) if joint else (n, 2)
    parts, each, stride = 1 + how.exact, padded(rows), layout(d).stride
    form = Form(
        *(rows, rows, d),
        exact=how.exact,
        device=device,
        symmetric=how.negatives != "cross",
        ids=PERIODIC_IDS.value,
        period=NO_PARTNER if how.negatives == "others" else n,
        safe=True,
        ratio=_whole_ratio(how.scales),
    )
    width = power_of_two(stride)
    height = max(ROW_ELEMENTS // width, 1)
    # where u's rows end, v's rows end (both with their padding), and v's begin
    u_end, v_end, v_start = (n, each - n, n) if joint else (each, each, parts * each)
    k, cross = len(how.scales), how.negatives == "cross"
    sum_plan = plan_sums(form, k, cross)
    first = second = sum_plan.row_parts
    second = sum_plan.column_parts if cross else second
    a, b, c = (*how.parameters, 0.0, 0.0, 0.0)[:3]
    blocks = -(-rows // SETTLE_BLOCK)
    return LossPlan(
        form,
        Kind(k),
        (parts, each, stride) if joint else (2, parts, each, stride),
        (sides, blocks),
        Launch(
            enter,
            (-(-max(u_end, v_end) // height),),
            {"n": n, "u_end": u_end, "v_end": v_end, "v_start": v_start}
            | {"padded": each, "scale": how.scale, "scale0": how.scales[0]}
            | {"scale1": how.scales[-1], "least": SHORTEST},
            {"LEARNED": learned, "D": d, "STRIDE": stride, "EXACT": how.exact}
            | {"DISTANCE": how.kind == "kernel", "ROWS": height, "WIDTH": width},
        ),
        Launch(
            settle,
            (blocks, sides),
            {"rows": rows, "pairs": n, "first_parts": first, "second_parts": second}
            | {"exponent_budget": form.exponent_budget, "share": 0.5 / n}
            | {"count": how.log_count, "a": a, "b": b, "c": c},
            {"KIND": KINDS[how.kind], "SCALES": k, "WEIGHED": weighed}
            | {"BLOCK": SETTLE_BLOCK, "PARTS": SETTLE_PARTS},
        ),
        make_add_up(sides * blocks),
    )


def _whole_ratio(scales: tuple[float, ...]) -> int:
    """How many times the second scale the first is, if kernels can use it."""
    if len(scales) < 2 or scales[1] == 0:
        return 0
    ratio = round(scales[0] / scales[1])
    near = abs(scales[0] / scales[1] - ratio) < 1e-9
    return ratio if near and ratio in (2, 3) else 0


def pair_loss(inputs: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The operation: the loss and, if a gradient is wanted, what that needs.

    Vectors (3 + k, 2 n), and terms (parts, 2, n, d) whose sum is the gradient of unit
    rows.
    """
    how = PairLoss(
        inputs.kind,
        tuple(inputs.parameters),
        inputs.scale,
        tuple(inputs.scales),
        inputs.log_count,
        inputs.negatives,
        inputs.exact,
    )
    u, v, anchors = inputs.u.contiguous(), inputs.v.contiguous(), inputs.anchors
    learned, (want_u, want_v, want_scale) = inputs.learned, inputs.wanted
    (n, d), device, k = u.shape, u.device, len(how.scales)
    weighed = anchors is not None
    plan = _plan_loss(n, d, device, how, weighed, learned is not None)
    tiles = torch.empty(plan.tile_shape, dtype=torch.float16, device=device)
    state = new_float32(device, STATE_SIZE.value)
    vectors = new_float32(device, WEIGHTS.value + k, 2 * n)
    scale = state if learned is None else learned
    plan.enter(u=u, v=v, learned=scale, tiles=tiles, vectors=vectors, state=state)
    if how.negatives in ("all", "others"):
        problems = [Problem(plan.form, tiles, tiles, state)]
    else:
        x, y = tiles.unbind()
        across = how.negatives == "cross"
        pairs = [(x, y)] if across else [(x, x), (y, y)]
        problems = [Problem(plan.form, a, b, state) for a, b in pairs]
    scales = state[FIRST_SCALE.value : FIRST_SCALE.value + k]
    first, second = sums(problems[0], scales, how.negatives == "cross")
    if how.negatives == "within":
        second, _ = sums(problems[1], scales, False)
    losses, loss = new_float32(device, *plan.loss_shape), new_float32(device)
    plan.settle(
        first_sums=first,
        second_sums=first if second is None else second,
        anchors=state if anchors is None else anchors.contiguous(),
        state=state,
        vectors=vectors,
        losses=losses,
    )
    plan.add_up(parts=losses, out=loss)
    if not (want_u or want_v or want_scale):
        return loss, None, None
    del first, second
    terms = new_float32(device, count_gradient_parts(plan.form), 2, n, d)
    # the derivative by a learned scale takes the gradients of both views
    wanted = (want_u or want_scale, want_v or want_scale)
    _write_terms(terms, plan.kind, problems, scales, vectors, state, wanted)
    return loss, vectors, terms


def _write_terms(
    terms: Tensor,
    kind: Kind,
    problems: list[Problem],
    scales: Tensor,
    vectors: Tensor,
    state: Tensor,
    wanted: tuple[bool, bool],
) -> None:
    """Terms whose sum is the gradient of unit rows."""
    (_, _, n, d), rows = terms.shape, problems[0].form.n
    both, largest = terms[0].view(2 * n, d), state[LARGEST_SLOPE.value :]
    weights = vectors[WEIGHTS.value :].view(2 * n // rows, len(scales), rows)
    sides = [Side(side, side, side) for side in weights]
    jobs: list[tuple[Problem, Side, Side, Tensor | None, Tensor | None]]
    if rows == 2 * n:  # negatives of both views: one matrix, and all of its gradient
        jobs = [(problems[0], sides[0], sides[0], both, None)]
    else:
        du, dv = (
            x if want else None for x, want in zip(both.split(n), wanted, strict=True)
        )
        if len(problems) == 1:  # across
            jobs = [(problems[0], sides[0], sides[1], du, dv)]
        else:  # within either view
            jobs = [
                (problem, side, side, dx, None)
                for problem, side, dx in zip(problems, sides, (du, dv), strict=True)
            ]
    for problem, by_row, by_column, dx, dy in jobs:
        weighed = Weights(kind, scales, by_row, by_column, largest, largest)
        write_gradients(problem, weighed, dx, dy, 2 * n)


@kept_by_shape
def _leave_launch(
    n: int, d: int, parts: int, scale: float, extra: bool, learned: bool
) -> Launch:
    width = power_of_two(d)
    height = max(ROW_ELEMENTS // width, 1)
    return Launch(
        leave,
        (-(-n // height),),
        {"n": n, "parts": parts, "scale": scale},
        {"LEARNED": learned, "EXTRA": extra, "D": d, "ROWS": height, "WIDTH": width},
    )


def pair_loss_gradients(
    saved: Any,
    gradients: tuple[Tensor],
    shapes: Any,
    wanted: Sequence[bool],
    dtype: torch.dtype | None = None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of the rows, in their own type or another, and of a learned scale."""
    u, v, extra, learned = saved.u, saved.v, saved.extra, saved.learned
    vectors, terms, (outer,), (n, d) = saved.vectors, saved.terms, gradients, u.shape
    launch = _leave_launch(
        n, d, terms.shape[0], saved.scale, extra is not None, learned is not None
    )
    du, dv = (
        torch.empty(u.shape, dtype=dtype or u.dtype, device=u.device) for _ in "uv"
    )
    along = vectors if learned is None else new_float32(u.device, launch.grid[0])
    launch(
        u=u.contiguous(),
        v=v.contiguous(),
        learned=vectors if learned is None else learned,
        vectors=vectors,
        terms=terms,
        extra=terms if extra is None else extra.contiguous(),
        outer=outer.contiguous(),
        du=du,
        dv=dv,
        along=along,
    )
    want_u, want_v, want_scale = wanted
    d_scale = None
    if want_scale:
        # one program in a fixed order, so that runs repeat bit for bit
        total = new_float32(u.device)
        make_add_up(along.numel())(parts=along, out=total)
        d_scale = total * outer / (2 * learned)
    return du if want_u else None, dv if want_v else None, d_scale
