"""Images to learn from: shapes, folders, torchvision's sets, arrays, data sets.

>>> import torch
>>> from invariance.data import load
>>> source = load("shapes", n=64)
>>> first, second = source.batches([torch.tensor([3, 1]), torch.tensor([5])])
>>> first.shape, first.dtype
(torch.Size([2, 3, 32, 32]), torch.uint8)

``load`` takes a name, a path or an object and gives an ``ImageSource``: uint8 pictures
of one square size, asked for by number. Its ``notes`` say what was left out and why,
and where the pictures live. Labels, where there are any, are for evaluation only.
"""

from ._load import DATA_SETS, load
from ._one_pass import Batch, one_pass, row_names
from ._resident import ResidentImages
from ._shapes import CLASSES as SHAPE_CLASSES
from ._shapes import shapes
from ._source import ImageSource
from ._streamed import StreamedImages

__all__ = [
    "DATA_SETS",
    "SHAPE_CLASSES",
    "Batch",
    "ImageSource",
    "ResidentImages",
    "StreamedImages",
    "load",
    "one_pass",
    "row_names",
    "shapes",
]
