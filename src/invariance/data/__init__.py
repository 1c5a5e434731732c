"""Samples to learn from: shapes, folders, torchvision's sets, arrays, data sets.

| | |
|---|---|
| `load` | a name, a path, an array or a Dataset in, a `Source` out |
| `DATA_SETS` | the names that `load` knows |
| `Source` | samples of one kind, asked for by number, in batches |
| `Kind`, `KINDS` | what a sample is: an `Image`, `Text`, a `Row`, your own |
| `Samples` | samples of any kind as an object to train on |
| `Note` | what was left out and why, what was chosen, where the samples are kept |
| `shapes` | ten generated shapes with labels, without any file |
| `beetles`, `double_spiral` | a generated table with gaps, and two spirals of points |
| `latent_walk` | generated sequences of a hidden state, and what can be known of it |
| `Graph` | nodes and edges as one tensor; `neighborhoods` of the nodes of one |
| `bonds`, `blocks` | generated graphs, and a graph of nodes, of known classes |
| `Text` | sentences as tokens, with a tokenizer trained on them |
| `Captions` | several sentences about one image, the other side of a pair |
| `pack`, `delete_packs` | a decoded copy of a folder, for quick starts |
| `read_ahead` | a folder read by other processes, for a `load` that follows |
| `one_pass` | every sample once and in order, the broken ones left out |
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
from ._names import (
    DATA_SETS,
    GENERATED,
    data_exists,
    find_place,
    is_folder_of_files,
    name_data,
    require_data,
)

if TYPE_CHECKING:
    from ._beetles import beetles
    from ._dataset import Samples
    from ._decode import crop_square, open_image
    from ._double_spiral import double_spiral
    from ._file_items import pack
    from ._graph import Graph
    from ._graph_sets import blocks, bonds
    from ._graphs import neighborhoods
    from ._head_start import read_ahead
    from ._hugging_face import is_hub
    from ._kind import Image, Kind, Sequence, Vector
    from ._kinds import KINDS, kind_of
    from ._latent_walk import filter_states, information_ahead, latent_walk
    from ._load import default_shape, fingerprint, has_captions, load
    from ._load_request import (
        Note,
        Origin,
        check_unreadable,
        describe_unreadable,
        explain_unreadable,
        show_path,
    )
    from ._marks import same_images
    from ._one_pass import Batch, one_pass
    from ._pack import Packed, delete_packs
    from ._resident import Resident
    from ._row import Column, Row, expand
    from ._sequences import recording_of
    from ._shapes import SHAPE_CLASSES, shapes
    from ._sources import NO_LABEL, Items, Source, row_names
    from ._streamed import Streamed
    from ._tables import has_columns
    from ._text import Captions, Text

__all__ = [
    "DATA_SETS",
    "GENERATED",
    "KINDS",
    "NO_LABEL",
    "SHAPE_CLASSES",
    "Batch",
    "Captions",
    "Column",
    "Graph",
    "Image",
    "Items",
    "Kind",
    "Note",
    "Origin",
    "Packed",
    "Resident",
    "Row",
    "Samples",
    "Sequence",
    "Source",
    "Streamed",
    "Text",
    "Vector",
    "beetles",
    "blocks",
    "bonds",
    "check_unreadable",
    "crop_square",
    "data_exists",
    "default_shape",
    "delete_packs",
    "describe_unreadable",
    "double_spiral",
    "expand",
    "explain_unreadable",
    "filter_states",
    "find_place",
    "fingerprint",
    "has_captions",
    "has_columns",
    "information_ahead",
    "is_folder_of_files",
    "is_hub",
    "kind_of",
    "latent_walk",
    "load",
    "name_data",
    "neighborhoods",
    "one_pass",
    "open_image",
    "pack",
    "read_ahead",
    "recording_of",
    "require_data",
    "row_names",
    "same_images",
    "shapes",
    "show_path",
]

HOMES = {
    "_dataset": "Samples",
    "_beetles": "beetles",
    "_decode": "crop_square open_image",
    "_double_spiral": "double_spiral",
    "_file_items": "pack",
    "_graph": "Graph",
    "_graph_sets": "blocks bonds",
    "_graphs": "neighborhoods",
    "_head_start": "read_ahead",
    "_hugging_face": "is_hub",
    "_kind": "Image Kind Sequence Vector",
    "_kinds": "KINDS kind_of",
    "_latent_walk": "filter_states information_ahead latent_walk",
    "_load": "default_shape fingerprint has_captions load",
    "_load_request": "Note Origin check_unreadable describe_unreadable "
    "explain_unreadable show_path",
    "_marks": "same_images",
    "_one_pass": "Batch one_pass",
    "_pack": "Packed delete_packs",
    "_resident": "Resident",
    "_row": "Column Row expand",
    "_sequences": "recording_of",
    "_shapes": "SHAPE_CLASSES shapes",
    "_sources": "Items NO_LABEL Source row_names",
    "_streamed": "Streamed",
    "_tables": "has_columns",
    "_text": "Captions Text",
}
__getattr__, __dir__ = import_late(__name__, HOMES)
