"""A kernel that draws the parameters of views: the numbers of `Draws`, bit for bit.

What a stage drew for an image is a row of `table`: whether it acts, then a box, an
order and four factors, a width, or the cosine and sine of an angle. Boxes are drawn in
float64, so that devices round sides alike, and nothing is computed by a fused
multiply-add, which would round once where PyTorch rounds twice.
"""

from functools import cache
from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from .. import randomness
from . import _draws, _stages
from ._crop import TRIES
from ._stages import Group

N_STREAMS = tl.constexpr(2)
N_NUMBERS = tl.constexpr(10)  # two chances, then up to eight
N_COLUMNS = tl.constexpr(6)  # whether it acts, then up to five
N_TRIES, TRIES_BLOCK = tl.constexpr(TRIES), tl.constexpr(16)

GOLDEN = tl.constexpr(randomness.GOLDEN)
FIRST, SECOND = tl.constexpr(randomness.FIRST), tl.constexpr(randomness.SECOND)
UNIFORM, COIN = tl.constexpr(_draws.UNIFORM), tl.constexpr(_draws.COIN)
PERMUTATION = tl.constexpr(_draws.PERMUTATION)

RANDOM_BOX = tl.constexpr(_stages.RANDOM_BOX)
FIXED_BOX = tl.constexpr(_stages.FIXED_BOX)
JITTER, BLUR = tl.constexpr(_stages.JITTER), tl.constexpr(_stages.BLUR)
TURN = tl.constexpr(_stages.TURN)

DRAWS_AT_ONCE, WARPS = 8, 1  # images of a program, and its warps


@triton.jit
@no_type_check
def mix(x):
    """The finalizer of splitmix64, of unsigned words."""
    x = (x ^ (x >> 30)) * FIRST
    x = (x ^ (x >> 27)) * SECOND
    return x ^ (x >> 31)


@triton.jit
@no_type_check
def fold(key, part):
    """A key that depends on one part more."""
    return mix((key ^ part) + GOLDEN)


@triton.jit
@no_type_check
def draw_word(hashed, key, i):
    """The i-th word of each sample, counted from 0."""
    count = key * 0 + (i + 1)  # an unsigned word, whatever i is
    return mix(hashed + (count * GOLDEN + key))


@triton.jit
@no_type_check
def draw_uniform(hashed, key, i):
    """Multiples of 2^-24 in [0, 1)."""
    word = draw_word(hashed, key, i)
    return (word >> 40).to(tl.int32).to(tl.float32) * 5.9604644775390625e-08


@triton.jit
@no_type_check
def draw_between(hashed, key, i, low_spread):
    """Uniform numbers of a range, given as its low end and its width."""
    low = tl.load(low_spread).to(tl.float32)
    return draw_uniform(hashed, key, i) * tl.load(low_spread + 1).to(tl.float32) + low


@triton.jit
@no_type_check
def round_half_even(x):
    """As PyTorch rounds."""
    down = tl.floor(x)
    rest = x - down
    odd = down - 2.0 * tl.floor(down / 2.0) > 0.5
    up = (rest > 0.5) | ((rest == 0.5) & odd)
    return tl.where(up, down + 1.0, down)


@triton.jit
@no_type_check
def draw_box(hashed, key, numbers, H: tl.constexpr, W: tl.constexpr):
    """Top, left, height and width of the first try that fits; all are tried at once."""
    low, spread = tl.load(numbers), tl.load(numbers + 1)
    low_shape, shape_spread = tl.load(numbers + 2), tl.load(numbers + 3)
    i = tl.arange(0, TRIES_BLOCK)[None, :]
    area = draw_uniform(hashed[:, None], key, i).to(tl.float64)
    area = (area * spread + low) * (H * W)
    shape = draw_uniform(hashed[:, None], key, i + N_TRIES).to(tl.float64)
    ratio = tl.exp(shape * shape_spread + low_shape)
    tall = round_half_even(tl.sqrt(area / ratio))
    wide = round_half_even(tl.sqrt(area * ratio))
    fits = (tall >= 1.0) & (tall <= H) & (wide >= 1.0) & (wide <= W) & (i < N_TRIES)
    first = tl.min(tl.where(fits, i, TRIES_BLOCK), 1)
    chosen = i == first[:, None]
    height = tl.sum(tl.where(chosen, tall, 0.0), 1)
    width = tl.sum(tl.where(chosen, wide, 0.0), 1)
    top = draw_uniform(hashed, key, 2 * N_TRIES).to(tl.float64)
    top = tl.floor(top * (H - height + 1.0))
    left = draw_uniform(hashed, key, 2 * N_TRIES + 1).to(tl.float64)
    left = tl.floor(left * (W - width + 1.0))
    fitting = first < TRIES_BLOCK
    top = tl.where(fitting, top, tl.load(numbers + 4))
    left = tl.where(fitting, left, tl.load(numbers + 5))
    height = tl.where(fitting, height, tl.load(numbers + 6))
    return top, left, height, tl.where(fitting, width, tl.load(numbers + 7))


@triton.jit
@no_type_check
def place_number(number, x, a, b, c):
    """A number of two bits, moved to the place that a word has among four."""
    place = (a < x).to(tl.int32) + (b < x).to(tl.int32) + (c < x).to(tl.int32)
    return (place * 0 + number) << (2 * place)


@triton.jit
@no_type_check
def draw_order(hashed, key):
    """The four changes of color in their order, two bits each, the first lowest."""
    a = draw_word(hashed, key, 0).to(tl.int64)
    b = draw_word(hashed, key, 1).to(tl.int64)
    c = draw_word(hashed, key, 2).to(tl.int64)
    d = draw_word(hashed, key, 3).to(tl.int64)
    code = place_number(1, b, a, c, d)  # the first, number 0, adds nothing
    return code + place_number(2, c, a, b, d) + place_number(3, d, a, b, c)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def draw_stages(
    keys, samples, views, streams, numbers, table, n,
    KINDS: tl.constexpr, N_STAGES: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """For each image of one view: whether each stage acts on it, and how."""
    view = tl.program_id(1)
    image = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = image < n
    sample = tl.load(samples + image, mask=valid, other=0).to(tl.uint64)
    hashed = mix(sample * GOLDEN)
    view_key = tl.load(keys).to(tl.uint64)
    view_key = fold(view_key, tl.load(views + view).to(tl.uint64))
    row = view.to(tl.int64) * n + image
    for i in tl.static_range(N_STAGES):
        to = table + (row * N_STAGES + i) * N_COLUMNS
        settings = numbers + i * N_NUMBERS
        outer = fold(view_key, tl.load(streams + i * N_STREAMS).to(tl.uint64))
        inner = fold(view_key, tl.load(streams + i * N_STREAMS + 1).to(tl.uint64))
        often = tl.load(settings).to(tl.float32)
        acts = draw_uniform(hashed, fold(outer, COIN), 0) < often
        chance = tl.load(settings + 1).to(tl.float32)
        acts = acts & (draw_uniform(hashed, fold(inner, COIN), 0) < chance)
        tl.store(to, acts.to(tl.float32), mask=valid)
        settings += 2
        if ((KINDS >> 4 * i) & 15) == RANDOM_BOX:
            top, left, height, width = draw_box(
                hashed, fold(inner, UNIFORM), settings, H, W
            )
            tl.store(to + 1, top.to(tl.float32), mask=valid)
            tl.store(to + 2, left.to(tl.float32), mask=valid)
            tl.store(to + 3, height.to(tl.float32), mask=valid)
            tl.store(to + 4, width.to(tl.float32), mask=valid)
        if ((KINDS >> 4 * i) & 15) == FIXED_BOX:
            for j in tl.static_range(4):
                side = tl.load(settings + j).to(tl.float32) + 0.0 * image
                tl.store(to + 1 + j, side, mask=valid)
        if ((KINDS >> 4 * i) & 15) == JITTER:
            order = draw_order(hashed, fold(inner, PERMUTATION))
            tl.store(to + 1, order.to(tl.float32), mask=valid)
            key = fold(inner, UNIFORM)
            for j in tl.static_range(4):
                factor = draw_between(hashed, key, j, settings + 2 * j)
                tl.store(to + 2 + j, factor, mask=valid)
        if ((KINDS >> 4 * i) & 15) == BLUR:
            sigma = draw_between(hashed, fold(inner, UNIFORM), 0, settings)
            tl.store(to + 1, sigma, mask=valid)
        if ((KINDS >> 4 * i) & 15) == TURN:
            degrees = draw_between(hashed, fold(inner, UNIFORM), 0, settings)
            angle = -degrees * 0.017453292519943295
            tl.store(to + 1, tl.cos(angle), mask=valid)
            tl.store(to + 2, tl.sin(angle), mask=valid)


class Settings(NamedTuple):
    """What a group of views is made from, on the device."""

    views: Tensor
    streams: Tensor
    numbers: Tensor


@cache
def settings_of(group: Group, device: torch.device) -> Settings:
    """The numbers of a group's stages; kept for good, as captured graphs read them."""
    rows = group.stages
    streams = [[randomness.as_signed(word) for word in stage.streams] for stage in rows]
    numbers = torch.zeros(len(rows), N_NUMBERS.value, dtype=torch.float64)
    for row, stage in zip(numbers, rows, strict=True):
        some = torch.tensor([*stage.chances, *stage.numbers], dtype=torch.float64)
        row[: len(some)] = some
    tensors = (torch.tensor(group.views), torch.tensor(streams), numbers)
    return Settings(*(t.to(device, non_blocking=True) for t in tensors))


def draw_table(
    group: Group,
    settings: Settings,
    samples: Tensor,
    keys: Tensor,
    size: tuple[int, int],
) -> Tensor:
    """What each stage drew for each view and image; `size` is the images' own."""
    n, v, n_stages = len(samples), len(group.views), len(group.stages)
    table = torch.empty((v, n, n_stages, N_COLUMNS.value), device=samples.device)
    draw_stages[(triton.cdiv(n, DRAWS_AT_ONCE), v)](
        keys, samples, *settings, table, n,
        group.code, n_stages, *size, DRAWS_AT_ONCE, **run_with(WARPS, samples.device),
    )  # fmt: skip
    return table


def run_with(warps: int, device: torch.device) -> dict[str, Any]:
    """Options of a launch; an interpreted one has none."""
    if device.type == "cpu":
        return {}
    return {"num_warps": warps, "enable_fp_fusion": False}
