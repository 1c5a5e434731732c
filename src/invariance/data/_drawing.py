r"""How the shapes are drawn: a silhouette, two colors and two textures per image.

$$x = \alpha\,f + (1-\alpha)\,b,\qquad
\alpha = \big[\tfrac12 - d(R_\theta^\top(p - c)/s)\,s\,/\,\text{pixel}\big]_0^1$$

d is the silhouette's signed distance (negative inside, in units of its reach), c, s and
theta are its position, scale and rotation, f and b two textured colors. The silhouettes
differ under every rotation, mirroring and mild stretching, at 32 pixels too; the
longest reach is about 1, and the areas are as near to each other as outlines allow.

Image i depends on (seed, part, i) alone: every number is a hash, not a generator's
state. Pixels are made with individually rounded float32 operations (+ - * / sqrt
floor), so they are the same one at a time, in bulk, and on another machine.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Float32, Int, Shaped, UInt8

Plane = Float32[np.ndarray, "b h w"]
Corners = list[tuple[float, float]]
Grid = Float32[np.ndarray, "1 h w"]

LATTICE = 8
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def draw(
    number: Int[np.ndarray, " b"], part: Int[np.ndarray, " b"], size: int, *, seed: int
) -> UInt8[np.ndarray, "b 3 size size"]:
    """The images with these numbers; number i shows class i mod 10."""
    dice = uniform(number, part, 32 + 2 * LATTICE**2, seed=seed)
    place, ink = dice[:, :8], dice[:, 8:16]
    x, y = make_grid(size)
    scale = column(0.60 + 0.25 * place[:, 0])
    alpha = cover(number % len(OUTLINES), place[:, 1:4], scale, x, y)

    front, back = pick_colors(ink)
    knots = dice[:, 32:].reshape(-1, 2, LATTICE, LATTICE)
    front = front + draw_texture(x, y, dice[:, 16:24], knots[:, 0])[:, None]
    back = back + draw_texture(x, y, dice[:, 24:32], knots[:, 1])[:, None]
    image = alpha * front + (1 - alpha) * back
    return (np.clip(image, 0, 1) * 255 + np.float32(0.5)).astype(np.uint8)


def make_grid(size: int) -> tuple[Grid, Grid]:
    """Where the middles of the pixels are, from -1 to 1, across and down."""
    axis = ((np.arange(size) + np.float32(0.5)) / size * 2 - 1).astype(np.float32)
    down, across = np.meshgrid(axis, axis, indexing="ij")
    return across[None], down[None]


def cover(
    kinds: Int[np.ndarray, " b"],
    place: Float[np.ndarray, "b 3"],
    scale: Float32[np.ndarray, "b 1 1"],
    x: Grid,
    y: Grid,
) -> Float32[np.ndarray, "b 1 h w"]:
    """How much of each pixel a silhouette covers.

    Args:
        kinds: Numbers of the silhouettes.
        place: Of each, from 0 to 1: its turn, and where its middle is, across and down,
            on what the image leaves free.
        scale: Their sizes; at 1 a silhouette fills the image.
        x: Places of the pixels, see ``make_grid``.
        y: The same, downwards.
    """
    free = np.float32(0.95) - scale  # how far the middle may leave the image's
    turn = 2 * np.pi * place[:, 0]
    cos, sin = column(np.cos(turn)), column(np.sin(turn))
    dx = x - column(2 * place[:, 1] - 1) * free
    dy = y - column(2 * place[:, 2] - 1) * free
    u, v = (cos * dx + sin * dy) / scale, (cos * dy - sin * dx) / scale
    distance = np.empty_like(u)
    for kind in np.unique(kinds):
        rows = kinds == kind
        distance[rows] = OUTLINES[kind](u[rows], v[rows])
    pixel = np.float32(2 / x.shape[-1])
    return np.clip(np.float32(0.5) - distance * scale / pixel, 0, 1)[:, None]


def pick_colors(
    ink: Float[np.ndarray, "b 8"],
) -> tuple[Float32[np.ndarray, "b 3 1 1"], Float32[np.ndarray, "b 3 1 1"]]:
    """Two colors a readable step apart; a fair coin puts one in front."""
    step = 0.40 + 0.20 * ink[:, 0]
    dark = 0.12 + (0.76 - step) * ink[:, 1]
    heads = ink[:, 2] < 0.5
    pair = []
    for gray, a, b in (
        (np.where(heads, dark, dark + step), ink[:, 3], ink[:, 4]),
        (np.where(heads, dark + step, dark), ink[:, 5], ink[:, 6]),
    ):
        red, blue = 0.5 * (a - 0.5), 0.5 * (b - 0.5)
        green = -(0.299 * red + 0.114 * blue) / 0.587  # hue without brightness
        tint = np.stack([red, green, blue], 1)
        pair.append((gray[:, None] + tint).astype(np.float32)[:, :, None, None])
    return pair[0], pair[1]


def draw_texture(
    x: Grid,
    y: Grid,
    dice: Float[np.ndarray, "b 8"],
    knots: Float[np.ndarray, "b k k"],
) -> Plane:
    """Flat, a slope, stripes, a checkerboard or clouds, around zero."""
    kind = (dice[:, 0] * 5).astype(int)
    height = column(0.03 + 0.06 * dice[:, 1])
    angle, rate = 2 * np.pi * dice[:, 2], 1.0 + 1.5 * dice[:, 3]
    a, b = column(rate * np.cos(angle)), column(rate * np.sin(angle))
    along = a * x + b * y + column(dice[:, 4])
    across = a * y - b * x + column(dice[:, 5])
    slope = (a * x + b * y) / column(rate)
    stripes, checks = wave(along), wave(along) * wave(across)
    clouds = draw_clouds(x, y, knots)
    textures = np.stack([0 * slope, slope, stripes, checks, clouds], 1)
    return height * textures[np.arange(len(kind)), kind]


def draw_clouds(x: Grid, y: Grid, knots: Float[np.ndarray, "b k k"]) -> Plane:
    """Random heights on a lattice, joined by straight lines."""
    heights = (2 * knots - 1).astype(np.float32)
    (c, right), (r, down) = (
        find_cells(axis, heights.shape[1]) for axis in (x[0, 0], y[0, :, 0])
    )
    right, down = right[None, None], down[None, :, None]
    rows = heights[:, r] * (1 - down) + heights[:, r + 1] * down
    return rows[:, :, c] * (1 - right) + rows[:, :, c + 1] * right


def find_cells(
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
    """One number per image, shaped to meet b h w."""
    return values.astype(np.float32)[:, None, None]


def polygon(corners: Corners) -> Callable[[Plane, Plane], Plane]:
    """The signed distance to a closed outline: nearest edge, sign by crossings."""
    edges = [
        (np.float32(x), np.float32(y), np.float32(to_x - x), np.float32(to_y - y))
        for (x, y), (to_x, to_y) in zip(corners, corners[1:] + corners[:1], strict=True)
    ]

    def distance(x: Plane, y: Plane) -> Plane:
        nearest, inside = np.full_like(x, np.inf), np.zeros(x.shape, bool)
        for ax, ay, ex, ey in edges:
            px, py = x - ax, y - ay
            t = np.clip((px * ex + py * ey) / (ex * ex + ey * ey), 0, 1)
            dx, dy = px - t * ex, py - t * ey
            nearest = np.minimum(nearest, dx * dx + dy * dy)
            if ey:
                straddles = (py >= 0) != (py >= ey)
                inside ^= straddles & ((px * ey < py * ex) == (ey > 0))
        return np.where(inside, -1, 1).astype(np.float32) * np.sqrt(nearest)

    return distance


def disc(x: Plane, y: Plane, radius: float) -> Plane:
    """The signed distance to a circle."""
    return np.sqrt(x * x + y * y) - np.float32(radius)


def around(radii: list[float], n: int) -> Corners:
    """N corners around the middle, the radii taken in turn."""
    turns = [2 * np.pi * k / n for k in range(n)]
    return [
        (radii[k % len(radii)] * np.cos(t), radii[k % len(radii)] * np.sin(t))
        for k, t in enumerate(turns)
    ]


def heart() -> Corners:
    """A heart of 24 corners."""
    t = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return [(float(a) / 16, float(-b - 2) / 16) for a, b in zip(x, y, strict=True)]


CROSS_HALF = [
    *((-0.3, -1.0), (0.3, -1.0), (0.3, -0.3)),
    *((1.0, -0.3), (1.0, 0.3), (0.3, 0.3)),
]
ARROW_HALF = [(0.1, 0.85), (0.1, 0.26), (-1.0, 0.26)]
SILHOUETTES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "circle": lambda x, y: disc(x, y, 0.82),
    "square": polygon(around([1.05], 4)),
    "triangle": polygon(around([1.15], 3)),
    "star": polygon(around([1.15, 0.45], 10)),
    "cross": polygon([(s * x, s * y) for s in (1, -1) for x, y in CROSS_HALF]),
    "ring": lambda x, y: np.abs(disc(x, y, 0.76)) - np.float32(0.2),
    "crescent": lambda x, y: np.maximum(
        disc(x, y, 1.0), -disc(x - np.float32(0.55), y, 0.8)
    ),
    "heart": polygon(heart()),
    "arrow": polygon(
        [(1.1, 0.0), *ARROW_HALF, *((x, -y) for x, y in reversed(ARROW_HALF))]
    ),
    "bar": polygon([(-1.15, -0.33), (1.15, -0.33), (1.15, 0.33), (-1.15, 0.33)]),
}
OUTLINES = tuple(SILHOUETTES.values())


def uniform(
    number: Int[np.ndarray, " b"],
    part: Int[np.ndarray, " b"],
    n_slots: int,
    *,
    seed: int,
) -> Float[np.ndarray, "b n_slots"]:
    """Numbers in [0, 1), each a hash (splitmix64's mixer) of its four coordinates."""
    key = np.full(len(number), seed % 2**64, np.uint64)
    key = mix(mix(key + GOLDEN) + part.astype(np.uint64) * GOLDEN)
    key = mix(key + number.astype(np.uint64) * GOLDEN)
    slots = np.arange(1, n_slots + 1, dtype=np.uint64) * GOLDEN
    return (mix(key[:, None] + slots) >> np.uint64(11)) * 2.0**-53


def mix(z: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
    """Scramble 64 bits."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
