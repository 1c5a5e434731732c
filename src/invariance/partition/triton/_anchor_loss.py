r"""From sums to a loss: what each anchor loses, and how steeply.

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

from ._device import LN2, LOG2E

# KIND: the loss of an anchor.
CROSS_ENTROPY, DECOUPLED, FLAT, FLAT_WITH_POSITIVE, DEBIASED, SPREAD, KERNEL = (
    tl.constexpr(code) for code in range(7)
)
KINDS = {
    "cross_entropy": CROSS_ENTROPY.value,
    "decoupled": DECOUPLED.value,
    "flat": FLAT.value,
    "flat_with_positive": FLAT_WITH_POSITIVE.value,
    "debiased": DEBIASED.value,
    "spread": SPREAD.value,
    "kernel": KERNEL.value,
}


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
def anchor_loss(p, first, second, a, b, c, KIND: tl.constexpr, SCALES: tl.constexpr):
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
        remains = ~(share >= 1.0)
        kept = tl.where(remains, 1.0 - share, 1.0)
        corrected = gap + log1p(tl.where(remains, -share, 0.0)) + b
        floor = c - p
        above = remains & ~(corrected < floor)
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
