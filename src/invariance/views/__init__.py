"""Views: random changes of images, each image with its own, batched on any device.

| | |
|---|---|
| `transform` | one image in, a list of views out: for a data set or a DataLoader |
| `ViewSet` | a batch in, one batch per view out: for a loop of your own, on a GPU |
| `DeviceViews` | rows of images on a GPU in, views out: for a captured step |
| `LazyViews` | views that are made when asked for, for a batch encoded in pieces |
| `RECIPES` | by name: `simclr`, `byol`, `weak`, `multi_crop`, `evaluation`, `shapes` |
| `RandomResizedCrop`, `ColorJitter`, ... | operations, with torchvision's meaning |
| `Sometimes` | any operation, or your own function, with a probability |
| `PGD` | samples changed, within a small ball, so that a loss rises most |
| `weaken` | views with some operations weakened or left out |
| `Draws` | random numbers that depend on (seed, epoch, sample, view) only |
| `draw_parameters` | the numbers behind a view: how bright, how far turned, ... |

A view is a plain list of operations, and a recipe is a function that writes such lists.
`ViewSet` makes the same views whatever the order of the batch and the number of
workers:

>>> import torch
>>> import invariance as inv
>>> views = inv.views.ViewSet(inv.views.simclr(32))
>>> images = torch.randint(256, (8, 3, 32, 32), dtype=torch.uint8)
>>> u, v = views(images, samples=torch.arange(8), seed=0, epoch=0)
>>> u.shape
torch.Size([8, 3, 32, 32])

A data set that takes a transform gets its views from one:

>>> two_views = inv.views.transform("simclr", size=32)
>>> [tuple(view.shape) for view in two_views(images[0])]
[(3, 32, 32), (3, 32, 32)]
"""

from ._affine import Motion, RandomAffine, RandomRotation
from ._augment import Operation
from ._blur import GaussianBlur
from ._coin_flips import RandomGrayscale, RandomHorizontalFlip, RandomSolarize
from ._color_jitter import ColorJitter, Jitter
from ._columns_of_rows import HideColumns, RedrawColumns
from ._crop import RandomResizedCrop, Resize
from ._device_views import DeviceViews
from ._draws import Draws
from ._graph_changes import DropNodes, MaskAttributes, OneOf, PerturbEdges, Subgraph
from ._lazy_view import LazyView, LazyViews
from ._parameters import draw_parameters
from ._pgd import PGD
from ._pixels import GaussianNoise, Normalize, UniformNoise
from ._recipes import KINDS_OF, RECIPES, byol, evaluation, multi_crop, simclr, weak
from ._sometimes import Sometimes
from ._strengths import name_operation, weaken
from ._tokens import DropWords, HideTokens
from ._transform import Transform, transform
from ._view_set import ViewSet, to_unit_interval

__all__ = [
    "KINDS_OF",
    "PGD",
    "RECIPES",
    "ColorJitter",
    "DeviceViews",
    "Draws",
    "DropNodes",
    "DropWords",
    "GaussianBlur",
    "GaussianNoise",
    "HideColumns",
    "HideTokens",
    "Jitter",
    "LazyView",
    "LazyViews",
    "MaskAttributes",
    "Motion",
    "Normalize",
    "OneOf",
    "Operation",
    "PerturbEdges",
    "RandomAffine",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RedrawColumns",
    "Resize",
    "Sometimes",
    "Subgraph",
    "Transform",
    "UniformNoise",
    "ViewSet",
    "byol",
    "draw_parameters",
    "evaluation",
    "multi_crop",
    "name_operation",
    "simclr",
    "to_unit_interval",
    "transform",
    "weak",
    "weaken",
]
