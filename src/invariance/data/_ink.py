"""What shapes are painted with: pairs of colours, and textures around zero."""

import numpy as np
from jaxtyping import Float, Float32, Int

from ._silhouettes import Plane

Grid = Float32[np.ndarray, "1 h w"]


def colours(
    ink: Float[np.ndarray, "b 8"],
) -> tuple[Float32[np.ndarray, "b 3 1 1"], Float32[np.ndarray, "b 3 1 1"]]:
    """Two colours a readable step apart; a fair coin puts one in front."""
    step = 0.40 + 0.20 * ink[:, 0]
    dark = 0.12 + (0.76 - step) * ink[:, 1]
    heads = ink[:, 2] < 0.5
    pair = []
    for grey, a, b in (
        (np.where(heads, dark, dark + step), ink[:, 3], ink[:, 4]),
        (np.where(heads, dark + step, dark), ink[:, 5], ink[:, 6]),
    ):
        red, blue = 0.5 * (a - 0.5), 0.5 * (b - 0.5)
        green = -(0.299 * red + 0.114 * blue) / 0.587  # hue without brightness
        tint = np.stack([red, green, blue], 1)
        pair.append((grey[:, None] + tint).astype(np.float32)[:, :, None, None])
    return pair[0], pair[1]


def texture(
    x: Grid,
    y: Grid,
    dice: Float[np.ndarray, "b 8"],
    knots: Float[np.ndarray, "b k k"],
) -> Plane:
    """Flat, a slope, stripes, a chequerboard or clouds, around zero."""
    kind = (dice[:, 0] * 5).astype(int)
    height = column(0.03 + 0.06 * dice[:, 1])
    angle, rate = 2 * np.pi * dice[:, 2], 1.0 + 1.5 * dice[:, 3]
    a, b = column(rate * np.cos(angle)), column(rate * np.sin(angle))
    along = a * x + b * y + column(dice[:, 4])
    across = a * y - b * x + column(dice[:, 5])
    slope = (a * x + b * y) / column(rate)
    stripes, checks = wave(along), wave(along) * wave(across)
    made = np.stack([0 * slope, slope, stripes, checks, clouds(x, y, knots)], 1)
    return height * made[np.arange(len(kind)), kind]


def clouds(x: Grid, y: Grid, knots: Float[np.ndarray, "b k k"]) -> Plane:
    """Random heights on a lattice, joined by straight lines."""
    heights = (2 * knots - 1).astype(np.float32)
    (c, right), (r, down) = (
        cells(axis, heights.shape[1]) for axis in (x[0, 0], y[0, :, 0])
    )
    right, down = right[None, None], down[None, :, None]
    rows = heights[:, r] * (1 - down) + heights[:, r + 1] * down
    return rows[:, :, c] * (1 - right) + rows[:, :, c + 1] * right


def cells(
    axis: Float32[np.ndarray, " w"], n_knots: int
) -> tuple[Int[np.ndarray, " w"], Float32[np.ndarray, " w"]]:
    """The knot before each point of an axis from -1 to 1, and how far past it lies."""
    at = (axis + 1) / 2 * (n_knots - 1)
    before = np.floor(at)
    return before.astype(int), at - before


def wave(t: Plane) -> Plane:
    """A triangle wave between -1 and 1 with period 1."""
    return 4 * np.abs(t - np.floor(t + np.float32(0.5))) - 1


def column(values: Float[np.ndarray, " b"]) -> Float32[np.ndarray, "b 1 1"]:
    return values.astype(np.float32)[:, None, None]
