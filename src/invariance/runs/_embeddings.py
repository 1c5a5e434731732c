"""Features with the names they belong to, as a value in memory."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import numpy as np
from jaxtyping import Float32, Int
from torch import Tensor

from ..errors import DataError


@dataclass(frozen=True, eq=False)
class Embeddings:
    """One row a picture, in the order of the data.

    Attributes:
        features: what the encoder says, not normalised.
        names: each picture's path below the folder read, or its number.
        labels: one class number a picture (-1: none), or None without labels.
        class_names: what the numbers mean.
        unreadable: pictures that have no row, with the reason.
        notes: sentences on what was read and left out.
        encoder: a mark of the weights that made the features; "" if unknown.
    """

    features: Float32[Tensor, "n e"]
    names: tuple[str, ...]
    labels: Int[Tensor, " n"] | None = None
    class_names: tuple[str, ...] = ()
    unreadable: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    encoder: str = ""

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows, as they are handed from place to place; label -1 is none."""

    names: list[str]
    labels: Int[np.ndarray, " b"]
    features: Float32[np.ndarray, "b e"]


@dataclass(frozen=True)
class About:
    """What a file of embeddings says about itself."""

    n: int
    width: int
    labelled: bool = False
    class_names: tuple[str, ...] = ()
    encoder: str = ""
    encoder_name: str = ""
    data: str | None = None
    split: str = "all"
    limit: int | None = None
    unreadable: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """As kept in the file."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "About":
        """As found in a file; what a later version added is left out."""
        try:
            said = {
                k: v for k, v in json.loads(text).items() if k in cls.__annotations__
            }
            return cls(**said | {"class_names": tuple(said.get("class_names", ()))})
        except (ValueError, TypeError, AttributeError) as cause:
            raise DataError(
                f"The file does not say what it holds ({cause}): was it written by "
                "'invariance embed'?"
            ) from None

    def word(self, label: int) -> str:
        """The name of a class; empty for no label."""
        known = 0 <= label < len(self.class_names)
        return self.class_names[label] if known else str(label) if label >= 0 else ""


def in_blocks(embeddings: Embeddings, rows: int = 8192) -> Iterator[Rows]:
    """A value in memory, handed out as a file would be."""
    for k in range(0, len(embeddings), rows):
        names = list(embeddings.names[k : k + rows])
        labels = np.full(len(names), -1, dtype=np.int64)
        if embeddings.labels is not None:
            labels = embeddings.labels[k : k + rows].numpy()
        yield Rows(names, labels, embeddings.features[k : k + rows].numpy())
