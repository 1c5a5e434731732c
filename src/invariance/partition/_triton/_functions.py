"""The elementwise functions of a score and their slopes, as the kernels see them.

The same as ``_elementwise``'s, by number: 0 is the exponential of a softmax, which
kernels write out themselves; 1 softplus, 2 log, 3 imq, 4 riesz.
"""

from typing import no_type_check

import triton
import triton.language as tl

from ._numbers import LN2, LOG2E

NUMBERS = {"exp": 0, "softplus": 1, "log": 2, "imq": 3, "riesz": 4}
SAME_POINT = tl.constexpr(1e-12)


@triton.jit
@no_type_check
def log_of_one_plus(x):
    """log(1 + x) for x >= 0, also where 1 + x is rounded to 1."""
    series = x * (1.0 - x * (0.5 - x * (0.33333333 - 0.25 * x)))
    return tl.where(x < 0.015625, series, tl.log2(1.0 + x) * LN2)


@triton.jit
@no_type_check
def value_of(s, parameter, FUNCTION: tl.constexpr):
    """The function of a score."""
    square = tl.maximum(-2.0 * s, SAME_POINT)
    if FUNCTION == 1:
        value = tl.maximum(s, 0.0) + log_of_one_plus(tl.exp2(-tl.abs(s) * LOG2E))
    if FUNCTION == 2:
        value = -0.5 * log_of_one_plus(parameter * square)
    if FUNCTION == 3:
        value = parameter * tl.rsqrt(parameter * parameter + square)
    if FUNCTION == 4:
        sign = tl.where(parameter > 0, 1.0, -1.0)
        value = sign * tl.exp2(-0.5 * parameter * tl.log2(square))
    return value


@triton.jit
@no_type_check
def slope_of(s, parameter, FUNCTION: tl.constexpr):
    """Its derivative in the score; none where a kernel has a cusp."""
    square = tl.maximum(-2.0 * s, SAME_POINT)
    if FUNCTION == 1:
        small = tl.exp2(-tl.abs(s) * LOG2E)
        slope = tl.where(s >= 0, 1.0, small) / (1.0 + small)
    if FUNCTION == 2:
        slope = parameter / (1.0 + parameter * square)
    if FUNCTION == 3:
        inverse = tl.rsqrt(parameter * parameter + square)
        slope = parameter * inverse * inverse * inverse
    if FUNCTION == 4:
        sign = tl.where(parameter > 0, 1.0, -1.0)
        power = tl.exp2((-0.5 * parameter - 1.0) * tl.log2(square))
        slope = sign * parameter * power
    if FUNCTION > 1:
        slope = tl.where(-2.0 * s > SAME_POINT, slope, 0.0)
    return slope
