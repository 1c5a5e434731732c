"""What a view set drew for each image, by name and as numbers.

Draws are pure, so the parameters behind a view can be drawn again at any time. An
operation that did not act on an image has its neutral value: a brightness of 1, a turn
of 0. Predicted from embeddings, these numbers show what an encoder keeps of its views.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from ..errors import SettingError
from ._affine import RandomAffine, RandomRotation
from ._augment import PerImage, Shape
from ._blur import GaussianBlur
from ._coin_flips import RandomGrayscale, RandomHorizontalFlip, RandomSolarize
from ._color_jitter import ColorJitter
from ._crop import RandomResizedCrop, Resize, height_width
from ._draws import Draws
from ._sometimes import Sometimes
from ._view_set import ViewSet

FACTORS = ("brightness", "contrast", "saturation", "scale", "crop area")
NEUTRAL = {"rotation (cos)": 1.0, "crop x": 0.5, "crop y": 0.5}
NEUTRAL |= dict.fromkeys(FACTORS, 1.0)
"""The value where an operation did nothing; 0 for all others."""

Named = dict[str, Tensor]


def draw_parameters(
    views: ViewSet,
    shape: tuple[int, ...],
    *,
    samples: Int[Tensor, " n"],
    seed: int,
    epoch: int,
    view: int = 0,
) -> dict[str, PerImage]:
    """The parameters of one view, one number per image; constant ones are left out.

    Args:
        views: The set; operations of your own have no parameters to name.
        shape: Channels, height and width of the images before the view.
        samples: Which images of the data set they are.
        seed: As the set was called with.
        epoch: As the set was called with.
        view: Which view.

    >>> from invariance.views import RandomHorizontalFlip, ViewSet
    >>> views = ViewSet([[RandomHorizontalFlip()]])
    >>> keys = {"samples": torch.arange(4), "seed": 0, "epoch": 0}
    >>> flip = draw_parameters(views, (1, 2, 2), **keys)["flip"]
    >>> images = torch.rand(4, 1, 2, 2)
    >>> bool((views(images, **keys)[0][flip == 1] == images[flip == 1].flip(3)).all())
    True
    """
    if not 0 <= view < len(views):
        raise SettingError(f"view is 0 to {len(views) - 1}: got {view}.")
    draws = Draws(seed, epoch, samples, view)
    parameters: Named = {}
    size: Shape = (len(samples), *shape)
    for i, operation in enumerate(views.pipelines[view]):
        for name, values in name_draws(operation, draws.substream(i), size).items():
            # what acts twice, such as gray in some recipes, has acted if either did
            parameters[name] = torch.maximum(parameters.get(name, values), values)
        size = shape_after(operation, size)
    return {name: x for name, x in parameters.items() if bool((x != x[:1]).any())}


def name_draws(operation: object, draws: Draws, shape: Shape) -> Named:
    """What one operation draws for a batch of this shape."""
    if isinstance(operation, Sometimes):
        picked = operation.draw(draws, shape)
        inside = name_draws(operation.operation, draws.substream(0), shape)
        return {
            name: torch.where(picked, values, NEUTRAL.get(name, 0.0))
            for name, values in inside.items()
        }
    height, width = shape[-2:]
    match operation:
        case RandomResizedCrop():
            boxes = operation.draw(draws, shape).float()
            top, left, h, w = boxes.unbind(1)
            return {
                "crop x": (left + w / 2) / width,
                "crop y": (top + h / 2) / height,
                "crop area": h * w / (height * width),
                "crop shape": (w / h).log(),
            }
        case RandomRotation():
            return angles(operation.draw(draws, shape))
        case RandomAffine():
            motion = operation.draw(draws, shape)
            x, y = motion.translate.unbind(1)
            moved = {"shift x": x / width, "shift y": y / height, "scale": motion.scale}
            shear_x, shear_y = motion.shear.unbind(1)
            sheared = {"shear x": shear_x, "shear y": shear_y}
            return angles(motion.angle) | moved | sheared
        case ColorJitter():
            factors = operation.draw(draws, shape).factors.unbind(1)
            names = ("brightness", "contrast", "saturation", "hue")
            acting = 2 if shape[1] == 1 else 4  # gray has no saturation and no hue
            return dict(list(zip(names, factors, strict=True))[:acting])
        case RandomHorizontalFlip():
            return {"flip": operation.draw(draws, shape).float()}
        case RandomGrayscale():
            return {"gray": operation.draw(draws, shape).float()}
        case RandomSolarize():
            return {"solarized": operation.draw(draws, shape).float()}
        case GaussianBlur():
            return {"blur": operation.draw(draws, shape)}
    return {}


def angles(degrees: PerImage) -> Named:
    """An angle as two numbers without a jump."""
    turn = degrees.deg2rad()
    return {"rotation (cos)": turn.cos(), "rotation (sin)": turn.sin()}


def shape_after(operation: object, shape: Shape) -> Shape:
    """The shape of the batch once the operation is done."""
    if isinstance(operation, RandomResizedCrop | Resize):
        return (*shape[:2], *height_width(operation.size))
    return shape
