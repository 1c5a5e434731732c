"""A kernel that makes the pixels of views: from bytes to the encoder's own type.

A program has one view of one image. It looks up the few source pixels that each pixel
of the view needs (`_source_pixels`), changes colors in registers, and writes the
encoder's layout. The arithmetic is that of the operations: float32, their formulas in
their order, without fused multiply-adds. What differs is the order of sums.

A view that fits in one block of pixels is looked up once; a larger one is walked twice
where its contrast changes, since that needs the mean of the whole view. A blur goes
through memory that only its own program touches. There are no atomics, so the same
input always gives the same bits.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import _coin_flips, _color_jitter, _stages
from ._draw_kernel import N_COLUMNS, N_NUMBERS, draw_table, run_with, settings_of
from ._source_pixels import look_up
from ._stages import Group

FLIP, BLUR = tl.constexpr(_stages.FLIP), tl.constexpr(_stages.BLUR)
GRAY, SOLARIZE = tl.constexpr(_stages.GRAY), tl.constexpr(_stages.SOLARIZE)
NORMALIZE = tl.constexpr(_stages.NORMALIZE)

BRIGHTNESS = tl.constexpr(_color_jitter.BRIGHTNESS)
CONTRAST, HUE = tl.constexpr(_color_jitter.CONTRAST), tl.constexpr(_color_jitter.HUE)
SATURATION = tl.constexpr(_color_jitter.SATURATION)
RED, GREEN = tl.constexpr(_coin_flips.RED), tl.constexpr(_coin_flips.GREEN)
BLUE = tl.constexpr(_coin_flips.BLUE)

WHOLE_UP_TO = 4096  # pixels of a view that stay in registers
PIXELS_PER_THREAD = 4
PART = 512  # pixels at a time of a larger one, one per thread


@triton.jit
@no_type_check
def find_luma(red, green, blue, C: tl.constexpr):
    """How bright pixels look."""
    luma = red
    if C == 3:
        luma = red * RED + green * GREEN + blue * BLUE
    return luma


@triton.jit
@no_type_check
def clamp(x):
    """Into [0, 1]."""
    return tl.minimum(tl.maximum(x, 0.0), 1.0)


@triton.jit
@no_type_check
def turn_hue(red, green, blue, shift):
    """Colors moved round the circle, as `_color_jitter` says."""
    low = tl.minimum(tl.minimum(red, green), blue)
    high = tl.maximum(tl.maximum(red, green), blue)
    chroma = high - low
    from_green, from_blue = blue - red + 2.0 * chroma, red - green + 4.0 * chroma
    hue = tl.where(high > green, from_blue, from_green)
    hue = tl.where(high > red, hue, green - blue)
    hue = hue / tl.maximum(chroma, 1e-12) * (1 / 6) + (shift + 1.0)
    hue = (hue - tl.floor(hue)) * 6.0
    red = low + chroma * clamp(tl.abs(hue - 3.0) - 1.0)
    green = low + chroma * clamp(2.0 - tl.abs(hue - 2.0))
    blue = low + chroma * clamp(2.0 - tl.abs(hue - 4.0))
    return red, green, blue


@triton.jit
@no_type_check
def change_colors(red, green, blue, drawn, first, last, mean, C: tl.constexpr):
    """Some of the four changes of color, in the image's own order."""
    order = tl.load(drawn + 1).to(tl.int32)
    brightness, contrast = tl.load(drawn + 2), tl.load(drawn + 3)
    saturation, shift = tl.load(drawn + 4), tl.load(drawn + 5)
    for step in range(first, last):
        kind = (order >> (2 * step)) & 3
        if kind == HUE:
            if C == 3:  # gray has no hue
                red, green, blue = turn_hue(red, green, blue, shift)
        else:
            factor = tl.where(kind == CONTRAST, contrast, saturation)
            factor = tl.where(kind == BRIGHTNESS, brightness, factor)
            rest = 1.0 - factor
            level = tl.where(kind == CONTRAST, mean * rest, 0.0)
            grayness = tl.where(kind == SATURATION, rest, 0.0)
            target = find_luma(red, green, blue, C) * grayness + level
            red = clamp(red * factor + target)
            green = clamp(green * factor + target)
            blue = clamp(blue * factor + target)
    return red, green, blue


@triton.jit
@no_type_check
def place_contrast(drawn):
    """How many changes of color come before the contrast."""
    order = tl.load(drawn + 1).to(tl.int32)
    place = 0
    for step in tl.static_range(4):
        place += tl.where(((order >> (2 * step)) & 3) == CONTRAST, step, 0)
    return place


@triton.jit
@no_type_check
def recolor(
    red, green, blue, drawn, mean, inside,
    PIXELS: tl.constexpr, WHOLE: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """All four changes of color, if the image is picked.

    The mean is what the contrast needs; where the WHOLE view is here it is taken now.
    """
    if tl.load(drawn) != 0.0:
        if WHOLE:
            place = place_contrast(drawn)
            red, green, blue = change_colors(red, green, blue, drawn, 0, place, 0.0, C)
            luma = tl.where(inside, find_luma(red, green, blue, C), 0.0)
            level = tl.sum(luma, 0) / PIXELS
            red, green, blue = change_colors(
                red, green, blue, drawn, place, 4, level, C
            )
        else:
            red, green, blue = change_colors(red, green, blue, drawn, 0, 4, mean, C)
    return red, green, blue


@triton.jit
@no_type_check
def normalize(x, acts, scale, shift):
    """One channel scaled and shifted, where the image is picked."""
    factor = tl.where(acts, tl.load(scale).to(tl.float32), 1.0)
    return x * factor + tl.where(acts, tl.load(shift).to(tl.float32), 0.0)


@triton.jit
@no_type_check
def change_pixels(
    red, green, blue, drawn, numbers,
    KINDS: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Stages that need nothing but the pixel itself."""
    for i in tl.static_range(FIRST, LAST):
        acts = tl.load(drawn + i * N_COLUMNS) != 0.0
        settings = numbers + i * N_NUMBERS + 2
        if ((KINDS >> 4 * i) & 15) == GRAY:
            luma = find_luma(red, green, blue, C)
            red, green = tl.where(acts, luma, red), tl.where(acts, luma, green)
            blue = tl.where(acts, luma, blue)
        if ((KINDS >> 4 * i) & 15) == SOLARIZE:
            # what no pixel reaches, where the image stays as it is
            threshold = tl.where(acts, tl.load(settings).to(tl.float32), float("inf"))
            red = tl.where(red >= threshold, 1.0 - red, red)
            green = tl.where(green >= threshold, 1.0 - green, green)
            blue = tl.where(blue >= threshold, 1.0 - blue, blue)
        if ((KINDS >> 4 * i) & 15) == NORMALIZE:
            red = normalize(red, acts, settings, settings + C)
            if C == 3:
                green = normalize(green, acts, settings + 1, settings + C + 1)
                blue = normalize(blue, acts, settings + 2, settings + C + 2)
    return red, green, blue


@triton.jit
@no_type_check
def store_pixels(to, step, red, green, blue, inside, C: tl.constexpr):
    """One pixel per lane, its channels `step` apart."""
    kind = to.dtype.element_ty
    tl.store(to, red.to(kind), mask=inside)
    if C == 3:
        tl.store(to + step, green.to(kind), mask=inside)
        tl.store(to + 2 * step, blue.to(kind), mask=inside)


@triton.jit
@no_type_check
def blur_along(
    source, at, sigma, pixel, inside, STRIDE: tl.constexpr, SIZE: tl.constexpr,
    PIXELS: tl.constexpr, HALF: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """A Gaussian mean along one side; `at` is where a pixel is on it."""
    red = tl.zeros_like(sigma + 0.0 * at)
    green, blue, total = red, red, sigma * 0.0
    for offset in tl.range(-HALF, HALF + 1, loop_unroll_factor=4):
        distance = offset / sigma
        weight = tl.exp(-0.5 * (distance * distance))
        total += weight
        reached = tl.abs(at + offset)
        reached = (SIZE - 1) - tl.abs(SIZE - 1 - reached)
        place = source + pixel + (reached - at) * STRIDE
        red += weight * tl.load(place, mask=inside, other=0.0)
        if C == 3:
            green += weight * tl.load(place + PIXELS, mask=inside, other=0.0)
            blue += weight * tl.load(place + 2 * PIXELS, mask=inside, other=0.0)
    return red / total, green / total, blue / total


@triton.jit
@no_type_check
def begin_pixels(
    image, drawn, numbers, pixel, inside,
    KINDS: tl.constexpr, N_STAGES: tl.constexpr, LAST: tl.constexpr,
    TURN_AT: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    SC: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Pixels of the box, mirrored where an odd number of flips act, up to a stage."""
    flips = 0.0
    for i in tl.static_range(N_STAGES):
        if ((KINDS >> 4 * i) & 15) == FLIP:
            flips = tl.abs(flips - tl.load(drawn + i * N_COLUMNS))
    red, green, blue = look_up(
        image, drawn, flips != 0.0, pixel, inside,
        TURN_AT, C, H, W, SC, SH, SW, HEIGHT, WIDTH,
    )  # fmt: skip
    return change_pixels(red, green, blue, drawn, numbers, KINDS, 1, LAST, C)


@triton.jit
@no_type_check
def find_mean(
    image, drawn, numbers, BLOCK: tl.constexpr,
    KINDS: tl.constexpr, N_STAGES: tl.constexpr, JITTER_AT: tl.constexpr,
    TURN_AT: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    SC: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The mean luma of a view of several blocks when it comes to the contrast."""
    colors, sums = drawn + JITTER_AT * N_COLUMNS, tl.zeros([BLOCK], tl.float32)
    if tl.load(colors) != 0.0:
        for start in range(0, HEIGHT * WIDTH, BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            inside = pixel < HEIGHT * WIDTH
            red, green, blue = begin_pixels(
                image, drawn, numbers, pixel, inside,
                KINDS, N_STAGES, JITTER_AT, TURN_AT, C, H, W, SC, SH, SW, HEIGHT, WIDTH,
            )  # fmt: skip
            red, green, blue = change_colors(
                red, green, blue, colors, 0, place_contrast(colors), 0.0, C
            )
            sums += tl.where(inside, find_luma(red, green, blue, C), 0.0)
    return tl.sum(sums, 0) / (HEIGHT * WIDTH)


@triton.jit
@no_type_check
def blur_view(
    scratch, out, sigma, drawn, numbers, BLOCK: tl.constexpr,
    KINDS: tl.constexpr, N_STAGES: tl.constexpr, BLUR_AT: tl.constexpr,
    HALF: tl.constexpr, C: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    OUT_STEP: tl.constexpr, PIXEL_STEP: tl.constexpr,
):  # fmt: skip
    """Blur along rows, then along columns, and do the stages that follow."""
    PIXELS: tl.constexpr = HEIGHT * WIDTH
    half_way = scratch + C * PIXELS
    tl.debug_barrier()  # threads read what others of this program wrote
    for start in range(0, PIXELS, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < PIXELS
        red, green, blue = blur_along(
            scratch, pixel % WIDTH, sigma, pixel, inside, 1, WIDTH, PIXELS, HALF, C
        )
        store_pixels(half_way + pixel, PIXELS, red, green, blue, inside, C)
    tl.debug_barrier()
    for start in range(0, PIXELS, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < PIXELS
        red, green, blue = blur_along(
            half_way, pixel // WIDTH, sigma, pixel, inside,
            WIDTH, HEIGHT, PIXELS, HALF, C,
        )  # fmt: skip
        red, green, blue = change_pixels(
            red, green, blue, drawn, numbers, KINDS, BLUR_AT + 1, N_STAGES, C
        )
        to = out + pixel * PIXEL_STEP
        store_pixels(to, OUT_STEP, red, green, blue, inside, C)


@triton.jit
@no_type_check
def make_pixels(
    images, rows, numbers, table, out, scratch,
    KINDS: tl.constexpr, N_STAGES: tl.constexpr, TURN_AT: tl.constexpr,
    JITTER_AT: tl.constexpr, BLUR_AT: tl.constexpr, HALF: tl.constexpr,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, SN: tl.constexpr,
    SC: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr, OUT_STEP: tl.constexpr, PIXEL_STEP: tl.constexpr,
    GATHERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One view of one image.

    S* are strides of the images; in the view channels are OUT_STEP apart and pixels
    PIXEL_STEP. With GATHERS `rows` says which images, else they are all taken.
    """
    PIXELS: tl.constexpr = HEIGHT * WIDTH
    WHOLE: tl.constexpr = BLOCK >= PIXELS
    LAST: tl.constexpr = BLUR_AT if BLUR_AT > 0 else N_STAGES
    place = tl.program_id(0)
    row = place.to(tl.int64)
    if GATHERS:
        row = tl.load(rows + place).to(tl.int64)
    image = images + row * SN
    view = tl.program_id(1).to(tl.int64) * tl.num_programs(0) + place
    drawn = table + view * (N_STAGES * N_COLUMNS)
    out += view * (C * PIXELS)
    scratch += view * (2 * C * PIXELS)
    blurs = False
    if BLUR_AT > 0:
        blurs = tl.load(drawn + BLUR_AT * N_COLUMNS) != 0.0
    mean = 0.0
    if JITTER_AT > 0 and not WHOLE:
        mean = find_mean(
            image, drawn, numbers, BLOCK,
            KINDS, N_STAGES, JITTER_AT, TURN_AT, C, H, W, SC, SH, SW, HEIGHT, WIDTH,
        )  # fmt: skip
    for start in range(0, PIXELS, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < PIXELS
        if JITTER_AT > 0:
            red, green, blue = begin_pixels(
                image, drawn, numbers, pixel, inside,
                KINDS, N_STAGES, JITTER_AT, TURN_AT, C, H, W, SC, SH, SW, HEIGHT, WIDTH,
            )  # fmt: skip
            colors = drawn + JITTER_AT * N_COLUMNS
            red, green, blue = recolor(
                red, green, blue, colors, mean, inside, PIXELS, WHOLE, C
            )
            red, green, blue = change_pixels(
                red, green, blue, drawn, numbers, KINDS, JITTER_AT + 1, LAST, C
            )
        else:
            red, green, blue = begin_pixels(
                image, drawn, numbers, pixel, inside,
                KINDS, N_STAGES, LAST, TURN_AT, C, H, W, SC, SH, SW, HEIGHT, WIDTH,
            )  # fmt: skip
        if blurs:
            store_pixels(scratch + pixel, PIXELS, red, green, blue, inside, C)
        else:
            red, green, blue = change_pixels(
                red, green, blue, drawn, numbers, KINDS, LAST, N_STAGES, C
            )
            to = out + pixel * PIXEL_STEP
            store_pixels(to, OUT_STEP, red, green, blue, inside, C)
    if blurs:
        sigma = tl.load(drawn + LAST * N_COLUMNS + 1)
        blur_view(
            scratch, out, sigma, drawn, numbers, BLOCK, KINDS, N_STAGES, LAST, HALF,
            C, HEIGHT, WIDTH, OUT_STEP, PIXEL_STEP,
        )  # fmt: skip


def make_group(
    group: Group,
    images: Tensor,
    samples: Tensor,
    keys: Tensor,
    rows: Tensor | None,
    dtype: torch.dtype,
    channels_last: bool,
) -> list[Tensor]:
    """The views of a group, of all images or of some rows of them."""
    n, v, c, h, w = len(samples), len(group.views), *images.shape[1:]
    (height, width), device = group.size, images.device
    pixels = height * width
    shape = (height, width, c) if channels_last else (c, height, width)
    with torch.cuda.device_of(images):
        settings = settings_of(group, device)
        table = draw_table(group, settings, samples, keys, (h, w))
        out = torch.empty((v, n, *shape), dtype=dtype, device=device)
        scratch = table
        if group.find(_stages.BLUR):
            scratch = torch.empty((v, n, 2, c, pixels), device=device)
        block, warps = choose_block(pixels)
        make_pixels[(n, v)](
            images, samples if rows is None else rows, settings.numbers, table, out,
            scratch, group.code, len(group.stages), group.find(_stages.TURN),
            group.find(_stages.JITTER), group.find(_stages.BLUR), group.half,
            c, h, w, *images.stride(), height, width,
            *((1, c) if channels_last else (pixels, 1)), rows is not None, block,
            **run_with(warps, device),
        )  # fmt: skip
    return list((out.permute(0, 1, 4, 2, 3) if channels_last else out).unbind(0))


def choose_block(n_pixels: int) -> tuple[int, int]:
    """Pixels that a program has at one time, and its warps."""
    if n_pixels > WHOLE_UP_TO:
        return PART, PART // 32
    block = max(triton.next_power_of_2(n_pixels), 32 * PIXELS_PER_THREAD)
    return block, min(16, block // 32 // PIXELS_PER_THREAD)
