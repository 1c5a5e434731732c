"""Named recipes: for each view a plain list of operations, to use or to edit.

A recipe is a function of the size of the views and the number of channels. Color
operations are left out where color has no meaning (neither 1 nor 3 channels), and those
that need three channels where there is one. Recipes of other samples are functions of
their kind, and ``KINDS_OF`` says of which; one that takes ``rows`` is given training
samples to draw from.
"""

import math
from collections.abc import Callable
from typing import Any

from ..errors import SettingError
from ._affine import RandomRotation
from ._augment import Number, Range, check_probability
from ._blur import GaussianBlur
from ._coin_flips import RandomGrayscale, RandomHorizontalFlip, RandomSolarize
from ._color_jitter import ColorJitter
from ._columns_of_rows import HideColumns, RedrawColumns, Rows
from ._crop import RandomResizedCrop, Resize
from ._graph_changes import graphcl
from ._pixels import GaussianNoise, Normalize, UniformNoise
from ._sometimes import Sometimes
from ._tokens import DropWords, OneCaption, masked

SMALL = 64
"""Images up to this many pixels are small: weaker colors, no blur."""
STRONGEST = 2.5
"""Color strength at which the hue may turn all the way round."""

Operations = list[Callable[..., Any]]


def simclr(
    size: int,
    channels: int = 3,
    *,
    n_views: int = 2,
    scale: Range = (0.08, 1.0),
    strength: Number | None = None,
    blur: Number | None = None,
    normalize: Normalize | None = None,
) -> list[Operations]:
    """SimCLR: crop, flip, strong colors, gray, and blur for large images.

    Up to 64 pixels the paper's CIFAR settings hold: color strength 0.5 and no blur;
    above, strength 1 and a blur with probability 0.5.

    Settings:
        strength (0 to 2.5): Of the colors; none: 0.5 up to 64 pixels, 1 above.
        blur (0 to 1): Probability of a blur; none: 0 up to 64 pixels, 0.5 above.

    >>> [len(view) for view in simclr(32)], [len(view) for view in simclr(224)]
    ([4, 4], [5, 5])
    """
    if strength is not None and channels not in (1, 3):
        raise SettingError(
            f"strength is for the colors, but colors of images with {channels} "
            "channels are left alone: leave it out."
        )
    s, blur = _strength_and_blur(size, strength, blur)
    view: Operations = [
        *_crop_and_flip(size, scale),
        *_color(channels, (0.8 * s, 0.8 * s, 0.8 * s, 0.2 * s)),
        *([Sometimes(blur, GaussianBlur())] if blur else []),
    ]
    return _repeat(view, n_views, normalize)


def byol(
    size: int,
    channels: int = 3,
    *,
    scale: Range = (0.08, 1.0),
    normalize: Normalize | None = None,
) -> list[Operations]:
    """BYOL: two unlike views, one always blurred, the other sometimes solarized.

    >>> first, second = byol(224)
    >>> first[4].p, second[4].p, second[5].p
    (1.0, 0.1, 0.2)
    """
    both = [*_crop_and_flip(size, scale), *_color(channels, (0.4, 0.4, 0.2, 0.1))]
    first: Operations = [*both, Sometimes(1.0, GaussianBlur())]
    second: Operations = [
        *both,
        Sometimes(0.1, GaussianBlur()),
        RandomSolarize(0.5, p=0.2),
    ]
    return [*_repeat(first, 1, normalize), *_repeat(second, 1, normalize)]


def weak(
    size: int,
    channels: int = 3,
    *,
    n_views: int = 2,
    scale: Range = (0.5, 1.0),
    normalize: Normalize | None = None,
) -> list[Operations]:
    """Weak views: a generous crop and a flip, colors untouched.

    >>> weak(32)[0]
    [RandomResizedCrop(size=32, scale=(0.5, 1.0), ratio=(0.75, 1.3333333333333333)), \
RandomHorizontalFlip(p=0.5)]
    """
    return _repeat(_crop_and_flip(size, scale), n_views, normalize)


def multi_crop(
    size: int,
    channels: int = 3,
    *,
    n_global: int = 2,
    n_local: int = 4,
    local_size: int | None = None,
    split: Number = 0.4,
    strength: Number | None = None,
    blur: Number | None = None,
    normalize: Normalize | None = None,
) -> list[Operations]:
    """Multi-crop: a few large crops, and many small ones at a lower resolution.

    Global crops cover from `split` to all of the image, local ones from 0.05 to
    `split`; a local view is 3/7 of the size by default (96 for 224).

    Settings:
        n_global (1 or more): Large crops.
        n_local (0 or more): Small crops.
        local_size (1 or more): Side of a small crop in pixels, below the images'; none:
            3/7 of it, and at least 8.
        split (0.05 to 1): Share of the image that small crops show at most and large
            ones at least.
        strength (0 to 2.5): Of the colors; none: 0.5 up to 64 pixels, 1 above.
        blur (0 to 1): Probability of a blur; none: 0 up to 64 pixels, 0.5 above.

    >>> [view[0].size for view in multi_crop(224)]
    [224, 224, 96, 96, 96, 96]
    """
    local_size = max(8, round(size * 3 / 7)) if local_size is None else local_size
    if n_global < 1 or n_local < 0 or not 0 < local_size < size:
        raise SettingError(
            "multi_crop needs at least one large crop, and small ones of fewer pixels "
            f"than the {size} of the images: got n_global {n_global}, n_local "
            f"{n_local} and local_size {local_size}."
        )
    if not 0.05 <= split <= 1:
        raise SettingError(
            "split is the share of the image where small crops end and large ones "
            f"begin, from 0.05 to 1: got {split}."
        )
    # a local crop keeps the colors and blur of its image
    default = _strength_and_blur(size, strength, blur)
    strength = default[0] if channels in (1, 3) else strength
    blur = default[1]
    crops = [(size, n_global, (split, 1.0)), (local_size, n_local, (0.05, split))]
    settings: dict[str, Any] = {
        "strength": strength,
        "blur": blur,
        "normalize": normalize,
    }
    return [
        view
        for size, n_views, scale in crops
        if n_views
        for view in simclr(size, channels, n_views=n_views, scale=scale, **settings)
    ]


def evaluation(
    size: int,
    channels: int = 3,
    *,
    n_views: int = 1,
    normalize: Normalize | None = None,
) -> list[Operations]:
    """Nothing random: the center of the image at this size.

    >>> evaluation(32)
    [[Resize(size=32)]]
    """
    return _repeat([Resize(size)], n_views, normalize)


def shapes(
    size: int,
    channels: int = 3,
    *,
    n_views: int = 2,
    scale: Range = (0.3, 1.0),
    normalize: Normalize | None = None,
) -> list[Operations]:
    """For the generated shapes: what may change without changing the shape.

    Any rotation, generous crops, strong colors and often none, so that two views of an
    image have little but the shape in common.

    >>> type(shapes(32)[0][0]).__name__
    'RandomRotation'
    """
    views = simclr(
        size,
        channels,
        n_views=n_views,
        scale=scale,
        strength=1.0 if channels in (1, 3) else None,
        normalize=normalize,
    )
    gray = [RandomGrayscale(0.5)] if channels == 3 else []
    return [[RandomRotation(180.0), *view, *gray] for view in views]


def noise(kind: Any, *, n_views: int = 2, sigma: Number = 0.3) -> list[Operations]:
    """Normal noise: on rows measured by each number's spread, on images in pixels.

    Settings:
        sigma (0 or more): Standard deviation, as a share of each number's, or of pixels
            from 0 to 1.

    >>> from invariance.data import Vector
    >>> noise(Vector((2,), spread=(1.0, 5.0)), n_views=1)
    [[GaussianNoise(sigma=0.3, clip=False, spread=(1.0, 5.0))]]
    """
    spread, clip = tuple(getattr(kind, "spread", ())), _is_image(kind)
    return _repeat([GaussianNoise(sigma, clip=clip, spread=spread)], n_views, None)


def uniform_noise(
    kind: Any, *, n_views: int = 2, noise_width: Number = 0.4
) -> list[Operations]:
    """Even noise: on rows measured by each number's spread, on images in pixels.

    Settings:
        noise_width (0 or more): From 0 up to which noise goes, as a share of each
            number's spread, or of pixels from 0 to 1.

    >>> from invariance.data import Vector
    >>> uniform_noise(Vector((2,), spread=(1.0, 5.0)), n_views=1)
    [[UniformNoise(width=0.4, spread=(1.0, 5.0), clip=False)]]
    """
    spread, clip = tuple(getattr(kind, "spread", ())), _is_image(kind)
    return _repeat([UniformNoise(noise_width, spread, clip)], n_views, None)


def scarf(
    kind: Any, *, rows: Rows, n_views: int = 2, redrawn_share: Number = 0.6
) -> list[Operations]:
    """SCARF: the row itself, and the row with a share of its columns redrawn.

    Settings:
        redrawn_share (between 0 and 1): Of the columns, redrawn from training rows.

    >>> import torch
    >>> scarf(None, rows=torch.zeros(9, 4))
    [[], [RedrawColumns(share=0.6)]]
    """
    if rows.shape[1] < 2:
        raise SettingError(
            "scarf redraws some columns and keeps others, but these rows have one: "
            "use --views noise, or rows of two columns or more."
        )
    views = _repeat([RedrawColumns(redrawn_share, rows=rows)], n_views, None)
    return views if n_views == 1 else [[], *views[1:]]


def hide_columns(
    kind: Any, *, rows: Rows, n_views: int = 2, hidden_share: Number = 0.3
) -> list[Operations]:
    """For rows: a share of the columns is missing or, of plain numbers, at its mean.

    Settings:
        hidden_share (between 0 and 1): Of the columns that are hidden.

    >>> import torch
    >>> from invariance.data import Vector
    >>> hide_columns(Vector((2,)), rows=torch.ones(9, 2), n_views=1)
    [[HideColumns(share=0.3, blank=(1.0, 1.0))]]
    """
    blank = (
        rows.mean(0).tolist() if kind.name == "vector" else [math.nan] * rows.shape[1]
    )
    return _repeat([HideColumns(hidden_share, tuple(blank))], n_views, None)


def same(kind: Any, *, n_views: int = 2) -> list[Operations]:
    """Every view is the sample itself: what differs is elsewhere, as in dropout.

    >>> same(None)
    [[], []]
    """
    return _repeat([], n_views, None)


def drop_words(kind: Any, *, n_views: int = 2, p: Number = 0.1) -> list[Operations]:
    """For sentences: each word is left out with a probability.

    Settings:
        p (0 to 1): Probability that a word is left out.

    >>> from invariance.data import Text
    >>> drop_words(Text.fit(["a b", "c d"]), n_views=1)
    [[DropWords(p=0.1, pad=0, special=(0, 1, 2, 3))]]
    """
    return _repeat([DropWords(p, kind.pad, kind.special)], n_views, None)


def one_caption(kind: Any, *, n_views: int = 1) -> list[Operations]:
    """For captions of an image: one of them, drawn anew in each epoch.

    >>> one_caption(None)
    [[OneCaption()]]
    """
    return _repeat([OneCaption()], n_views, None)


RECIPES: dict[str, Callable[..., list[Operations]]] = {
    "simclr": simclr,
    "byol": byol,
    "weak": weak,
    "shapes": shapes,
    "multi_crop": multi_crop,
    "evaluation": evaluation,
    "identity": evaluation,
    "noise": noise,
    "uniform_noise": uniform_noise,
    "scarf": scarf,
    "hide_columns": hide_columns,
    "same": same,
    "drop_words": drop_words,
    "one_caption": one_caption,
    "masked": masked,
    "graphcl": graphcl,
}
"""Recipes by name: a function of (size, channels) to a list of operations per view; of
those in ``KINDS_OF``, a function of the samples' kind."""
KINDS_OF: dict[str, tuple[str, ...]] = {
    "noise": ("vector", "row", "sequence", "image"),
    "uniform_noise": ("vector", "row", "sequence", "image"),
    "scarf": ("row", "vector"),
    "hide_columns": ("row", "vector"),
    "same": ("text", "sequence", "vector", "row", "graph"),
    "drop_words": ("text",),
    "one_caption": ("captions",),
    "masked": ("text",),
    "graphcl": ("graph",),
}
"""For which kinds of samples, by name, a recipe is, if not for images; one's own kinds
may use any of these."""


def _is_image(kind: Any) -> bool:
    """Whether values end at 0 and at 1."""
    return getattr(kind, "name", "") == "image"


def _crop_and_flip(size: int, scale: Range) -> Operations:
    return [RandomResizedCrop(size, scale=scale), RandomHorizontalFlip()]


def _strength_and_blur(
    size: int, strength: Number | None, blur: Number | None
) -> tuple[Number, Number]:
    default = (0.5, 0.0) if size <= SMALL else (1.0, 0.5)
    strength = default[0] if strength is None else strength
    blur = default[1] if blur is None else blur
    if not 0 <= strength <= STRONGEST:
        raise SettingError(
            f"strength is for the colors, from 0 to {STRONGEST}: got {strength}."
        )
    check_probability("blur", blur)
    return strength, blur


def _color(
    channels: int, strengths: tuple[Number, Number, Number, Number]
) -> Operations:
    if channels == 1:
        return [Sometimes(0.8, ColorJitter(*strengths[:2]))]
    if channels == 3:
        return [Sometimes(0.8, ColorJitter(*strengths)), RandomGrayscale(0.2)]
    return []


def _repeat(
    view: Operations, n_views: int, normalize: Normalize | None
) -> list[Operations]:
    if n_views < 1:
        raise SettingError(f"n_views is at least 1: got {n_views}.")
    last = [] if normalize is None else [normalize]
    return [[*view, *last] for _ in range(n_views)]
