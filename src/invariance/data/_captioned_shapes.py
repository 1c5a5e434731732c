r"""Captioned shapes: colored silhouettes, each with three sentences that describe it.

An image shows one of ten shapes in one of eight colors, small or large, somewhere on a
dark or bright ground that is plain, striped or cloudy. Its captions come from a small
grammar; each names color and shape, and some say where it is, how large, or on what.

One combination of color and shape in five is never trained on (``HELD_OUT``): the test
part shows those alone. Their colors and their shapes are known from other combinations,
so whoever names them has understood both words. The images' labels are shapes; those of
the captions are combinations, by which zero-shot classification is scored.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from ..errors import DataError
from ._captions import add_captions
from ._drawing import (
    LATTICE,
    SILHOUETTES,
    column,
    cover,
    draw_clouds,
    make_grid,
    uniform,
    wave,
)
from ._kind import Image
from ._load_request import Request
from ._sources import Items, Read
from ._split import count_parts

COLORS = {
    "red": (0.90, 0.10, 0.10),
    "orange": (1.00, 0.55, 0.05),
    "yellow": (0.95, 0.92, 0.15),
    "green": (0.10, 0.70, 0.15),
    "cyan": (0.15, 0.85, 0.90),
    "blue": (0.12, 0.25, 0.90),
    "purple": (0.50, 0.10, 0.65),
    "pink": (1.00, 0.55, 0.80),
}
SHAPES = tuple(SILHOUETTES)
COMBINATIONS = tuple((color, shape) for shape in SHAPES for color in COLORS)
NAMES = tuple(f"{color} {shape}" for color, shape in COMBINATIONS)
HELD_OUT = frozenset(
    k for k in range(len(NAMES)) if (k % len(COLORS) - k // len(COLORS)) % 5 == 0
)
GROUNDS = ("plain", "striped", "cloudy")
CAPTIONS = 3  # of each image
TURN = 1 / 6  # of a circle: shapes lean up to 30 degrees to either side
IMAGES_AT_ONCE = 256

SENTENCES = (
    "a {color} {shape}",
    "a {size} {color} {shape} {place}",
    "a picture of a {color} {shape} on a {ground} ground",
    "there is a {size} {color} {shape} {place}",
    "the {shape} is {color} and {size}",
    "{place}, a {color} {shape}",
    "a {size} {shape} in {color}",
    "{color} {shape}, {size}, {light} {ground} ground",
)


class CaptionedShapes(Items):
    """The generated pairs: an item is a number, and is drawn when it is read."""

    class_names = SHAPES

    def __init__(self, n_train: int, n_test: int, *, size: int, seed: int):
        if size < 16:
            raise DataError(
                f"captioned_shapes needs image_size of 16 or more: got {size}."
            )
        self.seed, self.kind = seed, Image((3, size, size))
        self.number = np.concatenate([np.arange(n_train), np.arange(n_test)])
        self.part = np.repeat([2, 3], [n_train, n_test])  # 0 and 1 are those of shapes
        shown = [k for k in range(len(NAMES)) if k not in HELD_OUT]
        kept = sorted(HELD_OUT)
        self.combinations = np.where(
            self.part == 2,
            np.array(shown)[self.number % len(shown)],
            np.array(kept)[self.number % len(kept)],
        )
        self.labels = torch.from_numpy(self.combinations // len(COLORS))

    def __len__(self) -> int:
        return len(self.number)

    def dice(self, rows: Sequence[int], n: int) -> Float[np.ndarray, "b n"]:
        """The first n of each item's numbers in [0, 1)."""
        some = np.array(rows, dtype=np.int64)
        return uniform(self.number[some], self.part[some], n, seed=self.seed)

    def read(self, i: int) -> tuple[UInt8[Tensor, "c h w"], int]:
        """The image of item i and its shape's number."""
        return self.read_many([i])[0][0], self.label(i)

    def read_many(
        self, rows: Sequence[int]
    ) -> tuple[UInt8[Tensor, "b c h w"], Int[Tensor, " b"], dict[int, str]]:
        """Several images drawn together, which is far faster than one by one."""
        images = torch.empty((len(rows), *self.shape), dtype=torch.uint8)
        for start in range(0, len(rows), IMAGES_AT_ONCE):
            some = rows[start : start + IMAGES_AT_ONCE]
            dice = self.dice(some, 16 + LATTICE**2)
            drawn = draw(self.combinations[list(some)], dice, self.shape[1])
            images[start : start + IMAGES_AT_ONCE] = torch.from_numpy(drawn)
        assert self.labels is not None
        return images, self.labels[torch.tensor(rows, dtype=torch.long)], {}

    def captions(self, i: int) -> tuple[str, ...]:
        """The sentences about item i, each of another form."""
        return describe(int(self.combinations[i]), self.dice([i], 32)[0])


def draw(
    combinations: Int[np.ndarray, " b"], dice: Float[np.ndarray, "b d"], size: int
) -> UInt8[np.ndarray, "b 3 size size"]:
    """The images of these combinations; dice say the rest."""
    x, y = make_grid(size)
    place = dice[:, 1:4] * [TURN, 1, 1] + [1 - TURN / 2, 0, 0]
    alpha = cover(combinations // len(COLORS), place, column(find_scale(dice)), x, y)
    inks = np.array(list(COLORS.values()), np.float32)[combinations % len(COLORS)]
    jitter = 0.10 * (dice[:, 9:12] - 0.5) + 0.10 * (dice[:, 12:13] - 0.5)
    front = (inks + jitter).astype(np.float32)[:, :, None, None]
    gray = np.where(dice[:, 4] < 0.5, 0.05, 0.72) + 0.2 * dice[:, 6]
    turn = 2 * np.pi * dice[:, 7]
    along = column(2.5 * np.cos(turn)) * x + column(2.5 * np.sin(turn)) * y
    clouds = draw_clouds(x, y, dice[:, 16:].reshape(-1, LATTICE, LATTICE))
    textures = np.stack([0 * clouds, wave(along + column(dice[:, 8])), clouds], 1)
    ground = 0.08 * textures[np.arange(len(dice)), find_ground(dice)]
    back = np.float32(1) * (column(gray) + ground)[:, None]
    image = alpha * front + (1 - alpha) * back
    return (np.clip(image, 0, 1) * 255 + np.float32(0.5)).astype(np.uint8)


def find_scale(dice: Float[np.ndarray, "b d"]) -> Float[np.ndarray, " b"]:
    """How large the shapes are: small ones up to 0.55, large ones from 0.7 on."""
    return np.where(dice[:, 0] < 0.5, 0.45 + 0.2 * dice[:, 0], 0.5 + 0.35 * dice[:, 0])


def find_ground(dice: Float[np.ndarray, "b d"]) -> Int[np.ndarray, " b"]:
    """The numbers of the grounds."""
    return (dice[:, 5] * len(GROUNDS)).astype(int)


def describe(combination: int, dice: Float[np.ndarray, " d"]) -> tuple[str, ...]:
    """The captions of one image, from the same dice as its pixels."""
    color, shape = COMBINATIONS[combination]
    small = dice[0] < 0.5
    sizes = ("small", "little") if small else ("large", "big")
    across, down = dice[2] - 0.5, dice[3] - 0.5
    if abs(across) > abs(down):
        place = "on the left" if across < 0 else "on the right"
    else:
        place = "at the top" if down < 0 else "at the bottom"
    if not small or max(abs(across), abs(down)) < 0.15:
        place = "in the middle"
    words = {
        "color": color,
        "shape": shape,
        "size": sizes[int(dice[13] * 2)],
        "place": place,
        "ground": GROUNDS[int(find_ground(dice[None])[0])],
        "light": "dark" if dice[4] < 0.5 else "bright",
    }
    order = np.argsort(dice[16 : 16 + len(SENTENCES)], kind="stable")
    return tuple(
        SENTENCES[k].format(**words).replace("a orange", "an orange")
        for k in order[:CAPTIONS]
    )


def read_captioned_shapes(request: Request) -> Read:
    """One part of the generated set; "all" is six sevenths train, then test."""
    if request.channels == 1:
        raise DataError("captioned_shapes is told apart by color: use 3 channels.")
    size = request.image_size or 32
    counts = count_parts(request, 6000, 1000, one_in=7)
    items = CaptionedShapes(*counts, size=size, seed=request.seed)
    if request.captions is not None:
        sentences = [items.captions(i) for i in range(len(items))]
        add_captions(items, sentences, request)
        assert items.other is not None
        items.other.labels = torch.from_numpy(items.combinations)
        items.other.class_names = NAMES
    return Read("captioned_shapes", items)
