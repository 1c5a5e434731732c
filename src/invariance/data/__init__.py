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

``correlated_gaussian`` and its kin are ``Pairs``: two variables to draw whose mutual
information is known exactly.
"""

from ._block_pairs import blocks
from ._decode import square
from ._gaussian_pairs import (
    SCHEDULE,
    canonical_gaussian,
    correlated_gaussian,
    gaussian,
    rho_of,
)
from ._image_pairs import IMAGES, Invertible, image, power, spiral, swiss_roll
from ._load import DATA_SETS, load
from ._one_pass import Batch, one_pass, row_names
from ._pairs import Pairs
from ._resident import ResidentImages
from ._shapes import CLASSES as SHAPE_CLASSES
from ._shapes import shapes
from ._source import NO_LABEL, ImageSource, Items
from ._streamed import StreamedImages
from ._student_pairs import student
from ._table_pairs import noisy_copy, table
from ._uniform_pairs import uniform_noise
from ._unreadable import ENOUGH, check_share, reason, sentence, shown
from ._variables import Variable, paired, read_variable

__all__ = [
    "DATA_SETS",
    "ENOUGH",
    "IMAGES",
    "NO_LABEL",
    "SCHEDULE",
    "SHAPE_CLASSES",
    "Batch",
    "ImageSource",
    "Invertible",
    "Items",
    "Pairs",
    "ResidentImages",
    "StreamedImages",
    "Variable",
    "blocks",
    "canonical_gaussian",
    "check_share",
    "correlated_gaussian",
    "gaussian",
    "image",
    "load",
    "noisy_copy",
    "one_pass",
    "paired",
    "power",
    "read_variable",
    "reason",
    "rho_of",
    "row_names",
    "sentence",
    "shapes",
    "shown",
    "spiral",
    "square",
    "student",
    "swiss_roll",
    "table",
    "uniform_noise",
]
