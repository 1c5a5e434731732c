"""Ten outlines as signed distances: negative inside, in units of the outline's reach.

They differ under every rotation, mirroring and mild stretching, at 32 pixels too. The
longest reach is about 1, and the areas are as near to each other as outlines allow.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float32

Plane = Float32[np.ndarray, "b h w"]
Corners = list[tuple[float, float]]


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
    return np.sqrt(x * x + y * y) - np.float32(radius)


def around(radii: list[float], n: int, start: float = 0.0) -> Corners:
    turns = [start + 2 * np.pi * k / n for k in range(n)]
    return [
        (radii[k % len(radii)] * np.cos(t), radii[k % len(radii)] * np.sin(t))
        for k, t in enumerate(turns)
    ]


def heart() -> Corners:
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
