"""Images to learn from: shapes, folders, torchvision's sets, arrays, data sets.

| | |
|---|---|
| `load` | a name, a path, an array or a Dataset in, an `ImageSource` out |
| `DATA_SETS` | the names that `load` knows |
| `ImageSource` | uint8 images of one square size, asked for by number, in batches |
| `Note` | what was left out and why, what was chosen, where the images are kept |
| `shapes` | ten generated shapes with labels, without any file |
| `one_pass` | every image once and in order, the broken ones left out |
| `open_image`, `crop_square` | one file as an upright image, one image as pixels |

>>> import torch
>>> import invariance as inv
>>> source = inv.data.load("shapes", n=64)
>>> first, second = source.batches([torch.tensor([3, 1]), torch.tensor([5])])
>>> first.shape, first.dtype
(torch.Size([2, 3, 32, 32]), torch.uint8)

Labels, where there are any, are for evaluation only.

``correlated_gaussian`` and its kin are ``Pairs``: two variables to draw whose mutual
information is known exactly.
"""

from ._block_pairs import blocks
from ._decode import crop_square, open_image
from ._gaussian_pairs import (
    SCHEDULE,
    canonical_gaussian,
    correlated_gaussian,
    gaussian,
    rho_of,
)
from ._image_pairs import IMAGES, Invertible, image, power, spiral, swiss_roll
from ._load import DATA_SETS, data_exists, default_shape, load
from ._one_pass import Batch, one_pass, row_names
from ._pairs import Pairs
from ._resident import ResidentImages
from ._shapes import CLASSES as SHAPE_CLASSES
from ._shapes import shapes
from ._sources import (
    NO_LABEL,
    ImageSource,
    Items,
    Note,
    check_unreadable,
    describe_unreadable,
    explain_unreadable,
    show_path,
)
from ._streamed import StreamedImages
from ._student_pairs import student
from ._table_pairs import noisy_copy, table
from ._uniform_pairs import uniform_noise
from ._variables import Variable, paired, read_variable

__all__ = [
    "DATA_SETS",
    "IMAGES",
    "NO_LABEL",
    "SCHEDULE",
    "SHAPE_CLASSES",
    "Batch",
    "ImageSource",
    "Invertible",
    "Items",
    "Note",
    "Pairs",
    "ResidentImages",
    "StreamedImages",
    "Variable",
    "blocks",
    "canonical_gaussian",
    "check_unreadable",
    "correlated_gaussian",
    "crop_square",
    "data_exists",
    "default_shape",
    "describe_unreadable",
    "explain_unreadable",
    "gaussian",
    "image",
    "load",
    "noisy_copy",
    "one_pass",
    "open_image",
    "paired",
    "power",
    "read_variable",
    "rho_of",
    "row_names",
    "shapes",
    "show_path",
    "spiral",
    "student",
    "swiss_roll",
    "table",
    "uniform_noise",
]
