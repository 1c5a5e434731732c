"""Views made weaker, or rid of some of their operations, for studies of what they do.

An operation goes by one word, whatever its settings: "crop", "flip", "color", "gray",
"blur", "solarize", "rotation", "affine", "noise", and of rows "redrawn" or "hidden". At
strength s a crop keeps more of the image (what it may leave out is multiplied by s),
colors, angles, shifts and noise vary less, fewer columns are redrawn or hidden, and
what happens by chance happens less often. At strength 0 it is left out;
instead of a crop the whole image is resized.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import SettingError, suggest
from ._affine import RandomAffine, RandomRotation
from ._augment import Number, Range
from ._blur import GaussianBlur
from ._coin_flips import RandomGrayscale, RandomHorizontalFlip, RandomSolarize
from ._color_jitter import ColorJitter
from ._columns_of_rows import HideColumns, RedrawColumns
from ._crop import RandomResizedCrop, Resize
from ._pixels import GaussianNoise, UniformNoise
from ._sometimes import Sometimes

NAMES: dict[type, str] = {
    RandomResizedCrop: "crop",
    RandomHorizontalFlip: "flip",
    ColorJitter: "color",
    RandomGrayscale: "gray",
    GaussianBlur: "blur",
    RandomSolarize: "solarize",
    RandomRotation: "rotation",
    RandomAffine: "affine",
    GaussianNoise: "noise",
    UniformNoise: "noise",
    RedrawColumns: "redrawn",
    HideColumns: "hidden",
}


def weaken(
    views: Sequence[Sequence[Any]], strengths: Mapping[str, Number]
) -> list[list[Any]]:
    """The views with some operations at a strength from 0 (left out) to below 1.

    >>> from invariance.views import simclr, weaken
    >>> weaker = weaken(simclr(32), {"crop": 0.5, "color": 0})
    >>> weaker[0][0].scale, [name_operation(operation) for operation in weaker[0]]
    ((0.54, 1.0), ['crop', 'flip', 'gray'])
    """
    names = {name_operation(operation) for view in views for operation in view} - {""}
    for name, strength in strengths.items():
        if name not in names:
            made_of = ", ".join(sorted(names)) or "nothing that can be weakened"
            question = f"{suggest(name, names)} ".lstrip()
            raise SettingError(
                f"Unknown operation {name!r}. {question}These views are made of "
                f"{made_of}."
            )
        if not 0 <= strength < 1:
            raise SettingError(
                f"The strength of {name} lies between 0, which leaves it out, and "
                f"below 1, which is as it is: got {strength}."
            )
    kept: list[list[Any]] = [[] for _ in views]
    for view, operations in zip(kept, views, strict=True):
        for operation in operations:
            strength = strengths.get(name_operation(operation), 1)
            if strength:
                view.append(operation if strength == 1 else _at(operation, strength))
            elif isinstance(operation, RandomResizedCrop):
                view.append(Resize(operation.size))
    return kept


def name_operation(operation: Any) -> str:
    """The word for an operation, whether it always acts or sometimes; "" for none."""
    inside = operation.operation if isinstance(operation, Sometimes) else operation
    return NAMES.get(type(inside), "")


def _at(operation: Any, s: Number) -> Any:
    """One operation at a strength above 0."""
    match operation:
        case Sometimes(p=p, operation=ColorJitter() as jitter):
            return Sometimes(p, _at(jitter, s))
        case Sometimes(p=p):
            return replace(operation, p=p * s)
        case RandomResizedCrop(scale=scale, ratio=(low, high)):
            return replace(
                operation, scale=_towards(1, scale, s), ratio=(low**s, high**s)
            )
        case ColorJitter(hue=hue):
            blends = ("brightness", "contrast", "saturation")
            weaker = {k: _towards(1, getattr(operation, k), s) for k in blends}
            return ColorJitter(**weaker, hue=_towards(0, hue, s))
        case GaussianBlur(sigma=sigma):
            return replace(operation, sigma=_towards(0, sigma, s))
        case RandomRotation(degrees=degrees):
            return replace(operation, degrees=_towards(0, degrees, s))
        case RandomAffine(degrees=degrees, translate=(x, y), scale=scale, shear=(a, b)):
            return replace(
                operation,
                degrees=_towards(0, degrees, s),
                translate=(x * s, y * s),
                scale=_towards(1, scale, s),
                shear=(a * s, b * s),
            )
        case GaussianNoise(sigma=sigma):
            return replace(operation, sigma=_towards(0, sigma, s))
        case UniformNoise(width=width):
            return replace(operation, width=width * s)
        case RedrawColumns(share=share) | HideColumns(share=share):
            return replace(operation, share=share * s)
    return replace(operation, p=operation.p * s)  # a coin flip


def _towards(center: Number, setting: Number | Range, s: Number) -> Any:
    """A range drawn in towards its center; a plain number is a width around it."""
    if isinstance(setting, tuple):
        return tuple(center + s * (end - center) for end in setting)
    return s * setting
