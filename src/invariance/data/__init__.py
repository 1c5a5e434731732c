"""Images to learn from: shapes, folders, torchvision's sets, arrays, data sets.

| | |
|---|---|
| `load` | a name, a path, an array or a Dataset in, an `ImageSource` out |
| `DATA_SETS` | the names that `load` knows |
| `ImageSource` | uint8 images of one square size, asked for by number, in batches |
| `Note` | what was left out and why, what was chosen, where the images are kept |
| `shapes` | ten generated shapes with labels, without any file |
| `Text` | sentences as tokens, with a tokenizer trained on them |
| `pack`, `delete_packs` | a decoded copy of a folder, for quick starts |
| `read_ahead` | a folder read by other processes, for a `load` that follows |
| `one_pass` | every image once and in order, the broken ones left out |
| `open_image`, `crop_square` | one file as an upright image, one image as pixels |

>>> import torch
>>> import invariance as inv
>>> source = inv.data.load("shapes", n=64)
>>> first, second = source.batches([torch.tensor([3, 1]), torch.tensor([5])])
>>> first.shape, first.dtype
(torch.Size([2, 3, 32, 32]), torch.uint8)

Labels, where there are any, are for evaluation only.
"""

from typing import TYPE_CHECKING

from ..late_imports import import_late
from ._names import DATA_SETS, data_exists, find_place, require_data

if TYPE_CHECKING:
    from ._decode import crop_square, open_image
    from ._file_items import pack
    from ._head_start import read_ahead
    from ._load import default_shape, fingerprint, load, same_images
    from ._load_request import (
        Note,
        Origin,
        check_unreadable,
        describe_unreadable,
        explain_unreadable,
        show_path,
    )
    from ._one_pass import Batch, one_pass, row_names
    from ._pack import Packed, delete_packs
    from ._resident import ResidentImages
    from ._shapes import SHAPE_CLASSES, shapes
    from ._sources import NO_LABEL, ImageSource, Items
    from ._streamed import StreamedImages
    from ._text import Text

__all__ = [
    "DATA_SETS",
    "NO_LABEL",
    "SHAPE_CLASSES",
    "Batch",
    "ImageSource",
    "Items",
    "Note",
    "Origin",
    "Packed",
    "ResidentImages",
    "StreamedImages",
    "Text",
    "check_unreadable",
    "crop_square",
    "data_exists",
    "default_shape",
    "delete_packs",
    "describe_unreadable",
    "explain_unreadable",
    "find_place",
    "fingerprint",
    "load",
    "one_pass",
    "open_image",
    "pack",
    "read_ahead",
    "require_data",
    "row_names",
    "same_images",
    "shapes",
    "show_path",
]

HOMES = {
    "_decode": "crop_square open_image",
    "_file_items": "pack",
    "_head_start": "read_ahead",
    "_load": "default_shape fingerprint load same_images",
    "_load_request": "Note Origin check_unreadable describe_unreadable "
    "explain_unreadable show_path",
    "_one_pass": "Batch one_pass row_names",
    "_pack": "Packed delete_packs",
    "_resident": "ResidentImages",
    "_shapes": "SHAPE_CLASSES shapes",
    "_sources": "ImageSource Items NO_LABEL",
    "_streamed": "StreamedImages",
    "_text": "Text",
}
__getattr__, __dir__ = import_late(__name__, HOMES)
