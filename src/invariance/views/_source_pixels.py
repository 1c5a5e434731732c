"""Device functions that look pixels up in a box of an image: its resizing, its turning.

Weights are those of `_crop.triangle_weights`, computed by the same float32 operations,
so that they are the same bits. A box that is enlarged, as most are, has two source
pixels along each side of a pixel of the view; one that is shrunk has as many as its
filter reaches. A turn (`_affine`, nearest) is looked up through: each source pixel of
the turned image is the pixel of the image that it came from.
"""

from typing import no_type_check

import triton
import triton.language as tl

from ._draw_kernel import N_COLUMNS, round_half_even


@triton.jit
@no_type_check
def weigh(pixel, center, start, length, reach, SHRINKS: tl.constexpr):
    """What a source pixel gives to pixels of the view along one side."""
    middle = pixel.to(tl.float32) + 0.5
    outside = (middle < start) | (middle > start + length)
    if SHRINKS:
        middle = tl.div_rn(middle, reach + 0.0 * middle)
    weight = 1.0 - tl.abs(middle - center)
    return tl.where(outside | (weight < 0.0), 0.0, weight)


@triton.jit
@no_type_check
def place_targets(target, start, length, N_OUT: tl.constexpr):
    """Where pixels of the view lie along one side of the source.

    Returns the reach of the filter, the places and the first source pixel of each.
    """
    step = tl.div_rn(length, tl.full([], N_OUT, tl.float32))
    reach = tl.maximum(step, 1.0)
    place = start + step * (target.to(tl.float32) + 0.5)
    return reach, place, tl.floor(place - 0.5 - reach).to(tl.int32) + 1


@triton.jit
@no_type_check
def add_pixel(
    red, green, blue, weight, image, y, x, inside, turn,
    TURN_AT: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    SC: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
):  # fmt: skip
    """Source pixels with their weights, added to what was found before."""
    needed = inside & (weight > 0.0)
    if TURN_AT > 0:
        cos, sin = tl.load(turn + 1), tl.load(turn + 2)
        right, down = x.to(tl.float32) + (0.5 - W / 2), y.to(tl.float32) + (0.5 - H / 2)
        from_x = round_half_even(cos * right + sin * down + (W / 2 - 0.5))
        from_y = round_half_even(cos * down - sin * right + (H / 2 - 0.5))
        acts = tl.load(turn) != 0.0
        x = tl.where(acts, from_x.to(tl.int32), x)
        y = tl.where(acts, from_y.to(tl.int32), y)
        needed = needed & (x >= 0) & (x < W) & (y >= 0) & (y < H)
    at = image + (y * SH + x * SW)
    red += weight * tl.load(at, mask=needed, other=0).to(tl.float32)
    if C == 3:
        green += weight * tl.load(at + SC, mask=needed, other=0).to(tl.float32)
        blue += weight * tl.load(at + 2 * SC, mask=needed, other=0).to(tl.float32)
    return red, green, blue


@triton.jit
@no_type_check
def look_up(
    image, drawn, flipped, pixel, inside,
    TURN_AT: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    SC: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Pixels of a resized box of an image, as three channels in [0, 1]."""
    top, left = tl.load(drawn + 1), tl.load(drawn + 2)
    height, width = tl.load(drawn + 3), tl.load(drawn + 4)
    turn = drawn + TURN_AT * N_COLUMNS
    x = pixel % WIDTH
    x = tl.where(flipped, WIDTH - 1 - x, x)
    reach_y, place_y, first_y = place_targets(pixel // WIDTH, top, height, HEIGHT)
    reach_x, place_x, first_x = place_targets(x, left, width, WIDTH)
    red = place_y * 0.0
    green, blue, total, nothing = red, red, red, red
    if tl.maximum(reach_y, reach_x) == 1.0:
        upper = weigh(first_y, place_y, top, height, reach_y, False)
        lower = weigh(first_y + 1, place_y, top, height, reach_y, False)
        before = weigh(first_x, place_x, left, width, reach_x, False)
        after = weigh(first_x + 1, place_x, left, width, reach_x, False)
        total = (upper + lower) * (before + after)
        for i in tl.static_range(2):
            weight_y = lower if i else upper
            for j in tl.static_range(2):
                weight_x = after if j else before
                red, green, blue = add_pixel(
                    red, green, blue, weight_y * weight_x, image, first_y + i,
                    first_x + j, inside, turn, TURN_AT, C, H, W, SC, SH, SW,
                )  # fmt: skip
    else:
        center_y = tl.div_rn(place_y, reach_y + nothing)
        center_x = tl.div_rn(place_x, reach_x + nothing)
        total_y, total_x = nothing, nothing
        for i in range(tl.ceil(2.0 * reach_y).to(tl.int32)):
            weight_y = weigh(first_y + i, center_y, top, height, reach_y, True)
            total_y += weight_y
            total_x = nothing
            for j in range(tl.ceil(2.0 * reach_x).to(tl.int32)):
                weight_x = weigh(first_x + j, center_x, left, width, reach_x, True)
                total_x += weight_x
                red, green, blue = add_pixel(
                    red, green, blue, weight_y * weight_x, image, first_y + i,
                    first_x + j, inside, turn, TURN_AT, C, H, W, SC, SH, SW,
                )  # fmt: skip
        total = total_y * total_x
    total = tl.where(inside, total * 255.0, 1.0)
    red, green = tl.div_rn(red, total), tl.div_rn(green, total)
    return red, green, tl.div_rn(blue, total)
