r"""From sums to a loss: what each anchor loses, and what its gradient weighs.

An anchor has the logit p of its positive and one or two log-partitions L of its
negatives. What it loses is a function of these alone, and so are its derivatives:

| kind | loss of an anchor |
| --- | --- |
| cross entropy | $\log(1 + e^{L - p})$ |
| decoupled | $L - p$ |
| spread | L |
| kernel | $a e^{L - b} - 2 e^{p - b}$ |
| flat | 1, with the derivatives of $(L - \gamma p) / \gamma$ |
| flat, with positive | 1, with those of $\log(1 + e^{L - \gamma p}) / \gamma$ |
| debiased | $\log(1 + e^{m})$, m the larger of $h + \log(1 - q e^{-h}) + b$ and f - p |

with $h = L - p$, or $L_1 - L_2 + \log N - p$ of two log-partitions.
"""

from typing import no_type_check

import triton
import triton.language as tl

from ._numbers import LN2, LOG2E, reach_of, shift_of
from ._views import FIRST_SCALE, LARGEST_SLOPE, SECOND_SCALE

CROSS_ENTROPY = tl.constexpr(0)
DECOUPLED = tl.constexpr(1)
FLAT = tl.constexpr(2)
FLAT_WITH_POSITIVE = tl.constexpr(3)
DEBIASED = tl.constexpr(4)
SPREAD = tl.constexpr(5)
KERNEL = tl.constexpr(6)
ADD_BLOCK = 1024  # numbers that ``add_up`` takes at a time


@triton.jit
@no_type_check
def log1p(x):
    """Log of 1 + x, also where 1 + x is 1."""
    y = 1.0 + x
    near = y == 1.0
    return tl.where(near, x, tl.log2(y) * LN2 * (x / tl.where(near, 1.0, y - 1.0)))


@triton.jit
@no_type_check
def softplus(x):
    """Log of 1 + e^x."""
    return tl.maximum(x, 0.0) + log1p(tl.exp2(-tl.abs(x) * LOG2E))


@triton.jit
@no_type_check
def sigmoid(x):
    """The derivative of softplus."""
    e = tl.exp2(-tl.abs(x) * LOG2E)
    return tl.where(x >= 0, 1.0, e) / (1.0 + e)


@triton.jit
@no_type_check
def loss_of(p, first, second, a, b, c, KIND: tl.constexpr, SCALES: tl.constexpr):
    """Of anchors: the loss, its derivative by the (first) partition, and minus by p.

    The parameters a, b, c are gamma; or, debiased, the logarithm of q, b, and f, the
    last with log N added where there are two partitions (``first`` has it then); or, of
    a kernel, a and b.
    """
    total = first
    if SCALES == 2:
        total = first - second
    gap = total - p
    if KIND == CROSS_ENTROPY:
        loss, slope = softplus(gap), sigmoid(gap)
        pull = slope
    elif KIND == DECOUPLED:
        loss, slope = gap, gap * 0.0 + 1.0
        pull = slope
    elif KIND == SPREAD:
        loss, slope = total, gap * 0.0 + 1.0
        pull = slope * 0.0
    elif KIND == KERNEL:
        slope = a * tl.exp2((total - b) * LOG2E)
        pull = 2.0 * tl.exp2((p - b) * LOG2E)
        loss = slope - pull
    elif KIND == DEBIASED:
        share = tl.exp2((a - gap) * LOG2E)  # of the sum that is false negatives
        room = ~(share >= 1.0)
        kept = tl.where(room, 1.0 - share, 1.0)
        corrected = gap + log1p(tl.where(room, -share, 0.0)) + b
        floor = c - p
        above = room & ~(corrected < floor)
        most = tl.where(above, corrected, floor)
        loss, steep = softplus(most), sigmoid(most)
        pull = tl.where(above, steep / kept, steep)
        slope = tl.where(above, pull, 0.0)
    else:
        gap = total - a * p
        loss = gap * 0.0 + 1.0
        pull = loss
        if KIND == FLAT_WITH_POSITIVE:
            pull = sigmoid(gap)
        slope = pull / a
    return loss, slope, pull


@triton.jit
@no_type_check
def added(
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
    first_sums, second_sums, positive, anchors, state, pull, weights, losses,
    rows, pairs, first_parts, second_parts, room, share, count, a, b, c,
    KIND: tl.constexpr, SCALES: tl.constexpr, WEIGHED: tl.constexpr,
    BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Losses of some anchors added up, and what their gradient weighs.

    ``share`` is an anchor's part in the mean, times its own of ``anchors`` if WEIGHED;
    ``pull`` is the derivative by the positive, ``weights`` are for the pairs'
    exponentials. The largest derivative goes into ``state``: a maximum, which does not
    depend on the order.
    """
    block, side = tl.program_id(0), tl.program_id(1)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < rows
    if side == 0:
        sum0 = added(first_sums, at, rows, first_parts, 0, SCALES, BLOCK, PARTS)
    else:
        sum0 = added(second_sums, at, rows, second_parts, 0, SCALES, BLOCK, PARTS)
    scale0 = tl.load(state + FIRST_SCALE)
    log0 = tl.log2(sum0) * LN2 + shift_of(reach_of(scale0, state), room)
    log1 = log0
    if SCALES == 2:  # both views are one matrix then
        sum1 = added(first_sums, at, rows, first_parts, 1, SCALES, BLOCK, PARTS)
        scale1 = tl.load(state + SECOND_SCALE)
        log1 = tl.log2(sum1) * LN2 + shift_of(reach_of(scale1, state), room)
        log0 += count
    p = tl.load(positive + at % pairs, mask=inside, other=0.0)
    loss, slope, pulled = loss_of(p, log0, log1, a, b, c, KIND, SCALES)
    part = tl.zeros([BLOCK], tl.float32) + share
    if WEIGHED:
        part *= tl.load(anchors + side * rows + at, mask=inside, other=0.0)
    loss = tl.where(inside, loss * part, 0.0)
    slope = tl.where(inside, slope * part, 0.0)
    tl.store(losses + side * tl.num_programs(0) + block, tl.sum(loss, 0))
    tl.store(pull + side * rows + at, -pulled * part, mask=inside)
    to = weights + side * SCALES * rows + at
    tl.store(to, slope * scale0 / sum0, mask=inside)
    if SCALES == 2:
        tl.store(to + rows, -slope * scale1 / sum1, mask=inside)
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
