"""The kinds of samples by name, and a kind from its description."""

from collections.abc import Mapping
from typing import Any

import torch

from ._graph import Graph
from ._kind import Image, Kind, Sequence, Unknown, Vector
from ._row import Row
from ._text import Captions, Text

KINDS: dict[str, type[Kind]] = {
    "image": Image,
    "vector": Vector,
    "row": Row,
    "sequence": Sequence,
    "text": Text,
    "captions": Captions,
    "graph": Graph,
}
"""Kinds by the name that an encoder file has; one of your own may be added."""


def kind_of(description: Mapping[str, Any], dtype: torch.dtype = torch.float32) -> Kind:
    """The kind that ``Kind.describe`` described.

    One that is not in ``KINDS`` has a shape and that ``dtype``, and reads nothing.

    >>> kind_of({"name": "image", "shape": [3, 32, 32]})
    Image(shape=(3, 32, 32))
    """
    settings = dict(description)
    known = KINDS.get(settings.pop("name", ""))
    return Unknown(description, dtype) if known is None else known(**settings)
