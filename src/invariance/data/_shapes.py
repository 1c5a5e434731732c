r"""Shapes: ten silhouettes under nuisances that say nothing about the class.

$$x = \alpha\,f + (1-\alpha)\,b,\qquad
\alpha = \big[\tfrac12 - d(R_\theta^\top(p - c)/s)\,s\,/\,\text{pixel}\big]_0^1$$

d is the silhouette's signed distance, c, s, theta its position, scale and rotation, f
and b two textured colours. Which of f and b is the brighter is a fair coin, so the mean
image of every class is the same and a linear probe on raw pixels stays near chance (a
tenth), while the outline can be read off by any small convolutional network.

Image i depends on (seed, part, i) alone: every number is a hash, not a generator's
state. Pixels are made with individually rounded float32 operations (+ - * / sqrt
floor), so they are the same one at a time, in bulk, and on another machine.
"""

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor

from ..errors import DataError
from ._decode import as_picture, square
from ._ink import colours, column, texture
from ._silhouettes import SILHOUETTES
from ._source import Read

CLASSES = tuple(SILHOUETTES)
OUTLINES = tuple(SILHOUETTES.values())
DEFAULT_N = {"train": 6000, "test": 1000, "all": 7000}
PIXELS_AT_ONCE = 1 << 18
LATTICE = 8
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Shapes:
    """The generated set: an item is a number, and is drawn when it is read."""

    def __init__(
        self, n_train: int, n_test: int, *, image_size: int, channels: int, seed: int
    ):
        if image_size < 8:
            raise DataError(f"shapes needs image_size of 8 or more: got {image_size}.")
        self.seed, self.shape = seed, (channels, image_size, image_size)
        self.number = np.concatenate([np.arange(n_train), np.arange(n_test)])
        self.part = np.repeat([0, 1], [n_train, n_test])
        self.labels: Int[Tensor, " n"] | None = torch.from_numpy(
            self.number % len(CLASSES)
        )
        self.class_names = CLASSES
        self.paths: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.number)

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """The picture of item i and its class."""
        return self.read_many(np.array([i]))[0], int(self.number[i]) % len(CLASSES)

    def read_many(self, rows: Int[np.ndarray, " b"]) -> UInt8[Tensor, "b c h w"]:
        """The pictures of several items, drawn together."""
        channels, size, _ = self.shape
        out = torch.empty((len(rows), *self.shape), dtype=torch.uint8)
        step = max(1, PIXELS_AT_ONCE // size**2)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            images = draw(self.number[some], self.part[some], size, seed=self.seed)
            if channels == 1:
                colour = images.transpose(0, 2, 3, 1).copy()
                grey = [square(as_picture(image), size, 1) for image in colour]
                out[start : start + step] = torch.stack(grey)
            else:
                out[start : start + step] = torch.from_numpy(images)
        return out


def read_shapes(
    *,
    split: str,
    n: int | None,
    image_size: int | None,
    channels: int | None,
    seed: int,
) -> Read:
    """The images of one part; "all" is six sevenths train, then a seventh test."""
    n = n or DEFAULT_N[split]
    n_test = {"train": 0, "test": n, "all": n // 7}[split]
    items = Shapes(
        n - n_test,
        n_test,
        image_size=image_size or 32,
        channels=channels or 3,
        seed=seed,
    )
    return Read("shapes", items)


def shapes(
    n: int = 6000, *, image_size: int = 32, split: str = "train", seed: int = 0
) -> tuple[UInt8[Tensor, "n 3 h w"], Int[Tensor, " n"]]:
    """Pictures of ten shapes and their classes; the same for the same arguments.

    The first images of a longer set are those of a shorter one, and the train and test
    splits share no picture.

    >>> images, labels = shapes(20)
    >>> images.shape, images.dtype, labels[:4].tolist()
    (torch.Size([20, 3, 32, 32]), torch.uint8, [0, 1, 2, 3])
    >>> CLASSES[labels[13]]
    'star'
    """
    counts = (0, n) if split == "test" else (n, 0)
    items = Shapes(*counts, image_size=image_size, channels=3, seed=seed)
    return items.read_many(np.arange(n)), torch.from_numpy(items.number % len(CLASSES))


def draw(
    number: Int[np.ndarray, " b"], part: Int[np.ndarray, " b"], size: int, *, seed: int
) -> UInt8[np.ndarray, "b 3 size size"]:
    """The pictures with these numbers; number i shows class i mod 10."""
    dice = uniform(number, part, 32 + 2 * LATTICE**2, seed=seed)
    place, ink = dice[:, :8], dice[:, 8:16]
    grid = ((np.arange(size) + np.float32(0.5)) / size * 2 - 1).astype(np.float32)
    y, x = (axis[None] for axis in np.meshgrid(grid, grid, indexing="ij"))

    scale = column(0.60 + 0.25 * place[:, 0])
    free = np.float32(0.95) - scale  # how far the middle may leave the image's
    turn = 2 * np.pi * place[:, 1]
    cos, sin = column(np.cos(turn)), column(np.sin(turn))
    dx = x - column(2 * place[:, 2] - 1) * free
    dy = y - column(2 * place[:, 3] - 1) * free
    u, v = (cos * dx + sin * dy) / scale, (cos * dy - sin * dx) / scale

    distance, kinds = np.empty_like(u), number % len(CLASSES)
    for kind in np.unique(kinds):
        rows = kinds == kind
        distance[rows] = OUTLINES[kind](u[rows], v[rows])
    pixel = np.float32(2 / size)
    alpha = np.clip(np.float32(0.5) - distance * scale / pixel, 0, 1)[:, None]

    front, back = colours(ink)
    knots = dice[:, 32:].reshape(-1, 2, LATTICE, LATTICE)
    front = front + texture(x, y, dice[:, 16:24], knots[:, 0])[:, None]
    back = back + texture(x, y, dice[:, 24:32], knots[:, 1])[:, None]
    image = alpha * front + (1 - alpha) * back
    return (np.clip(image, 0, 1) * 255 + np.float32(0.5)).astype(np.uint8)


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
