"""Views: batched augmentations on the training device, each image with its own.

A view is a plain list of operations, a `ViewSet` holds one list a view, and a recipe is
a function that writes such lists. Operations mean what torchvision's transforms mean,
but take a batch of tensors and a `Draws`, whose numbers are a function of (seed, epoch,
sample, view): the same whatever the order of the batch and the number of workers.

>>> import torch
>>> from invariance.views import ViewSet, simclr
>>> views = ViewSet(simclr(32))
>>> images = torch.randint(256, (8, 3, 32, 32), dtype=torch.uint8)
>>> u, v = views(images, samples=torch.arange(8), seed=0, epoch=0)
>>> u.shape
torch.Size([8, 3, 32, 32])
"""

from ._affine import Motion, RandomAffine, RandomRotation
from ._blur import GaussianBlur
from ._color_jitter import ColorJitter, Jitter
from ._crop import RandomResizedCrop, Resize
from ._draws import Draws
from ._flip import RandomHorizontalFlip
from ._grayscale import RandomGrayscale
from ._noise import GaussianNoise
from ._normalize import Normalize
from ._operation import Operation
from ._parameters import drawn_parameters
from ._recipes import (
    RECIPES,
    byol,
    evaluation,
    multi_crop,
    simclr,
    weak,
)
from ._solarize import RandomSolarize
from ._sometimes import Sometimes
from ._view_set import ViewSet, unit_interval

__all__ = [
    "RECIPES",
    "ColorJitter",
    "Draws",
    "GaussianBlur",
    "GaussianNoise",
    "Jitter",
    "Motion",
    "Normalize",
    "Operation",
    "RandomAffine",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "Resize",
    "Sometimes",
    "ViewSet",
    "byol",
    "drawn_parameters",
    "evaluation",
    "multi_crop",
    "simclr",
    "unit_interval",
    "weak",
]
