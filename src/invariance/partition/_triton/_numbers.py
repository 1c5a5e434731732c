r"""Powers of two and exponent shifts: the scalars every kernel agrees on.

Rows are stored as float16 times a power of two that puts the longest row's length in
[2^9, 2^10): no overflow whatever the input, and no underflow of what matters. With
$B = \max|x|\max|y|$ no logit exceeds |a| B, so terms are summed as $e^{a s - c}$
with one constant c for all rows: |a| B itself while e^-2|a|B is an ordinary number,
and otherwise as low as the sum's range allows (``room`` is 80 - log(terms)).
"""

from typing import no_type_check

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
MODERATE = tl.constexpr(43.5)  # e^(-2 * 43.5) is the smallest normal float32
LEAST = tl.constexpr(7.2)  # with ``room``: below e^(7.2 - room) a sum has lost terms


@triton.jit
@no_type_check
def power_of_two(exponent):
    """2 to an integer, exactly."""
    bounded = tl.minimum(tl.maximum(exponent, -100), 100)
    return ((bounded + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
@no_type_check
def exponent_to(bound, TOP: tl.constexpr):
    """The e with bound * 2^e in [2^TOP, 2^(TOP + 1))."""
    bits = bound.to(tl.int32, bitcast=True)
    return TOP + 127 - ((bits >> 23) & 255)


@triton.jit
@no_type_check
def row_factor(bound):
    """What rows no longer than ``bound`` are multiplied with before rounding."""
    return power_of_two(exponent_to(bound, 9))


@triton.jit
@no_type_check
def score_factor(bounds):
    """What turns a product of rounded rows into a score."""
    x, y = exponent_to(tl.load(bounds), 9), exponent_to(tl.load(bounds + 1), 9)
    return power_of_two(-x) * power_of_two(-y)


@triton.jit
@no_type_check
def reach_of(scale, bounds):
    """No logit exceeds this."""
    return tl.abs(scale) * tl.load(bounds) * tl.load(bounds + 1)


@triton.jit
@no_type_check
def shift_of(reach, room):
    """The constant taken off every logit before its exponential."""
    return tl.where(reach <= MODERATE, reach, reach - room)


@triton.jit
@no_type_check
def lift_of(largest, scales, steepness, SCALES: tl.constexpr):
    """The exponent e with which weights of pairs times 2^e fill a float16's range.

    No weight exceeds twice the largest gradient of a row times the steepness, which for
    a softmax (told by a steepness of 0) is the sum of its scales.
    """
    total = tl.abs(tl.load(scales))
    for k in tl.static_range(1, SCALES):
        total += tl.abs(tl.load(scales + k))
    most = tl.where(steepness > 0, steepness, total)
    exponent = exponent_to(2.0 * tl.load(largest) * most, 13)
    return tl.minimum(tl.maximum(exponent, -100), 100)
