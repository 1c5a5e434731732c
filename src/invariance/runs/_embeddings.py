"""Features with the names they belong to, as a value in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from ..errors import ShapeError
from ..folder import refuse_file, write_whole
from ..markup import html_sentences, html_table
from ..words import count
from ._embedding_files import (
    BLOCK,
    NO_LABEL,
    About,
    Rows,
    choose_writer,
    open_embeddings,
)

SHOWN = 5  # rows in a notebook
ORIGIN = (  # where features come from: what a file and a value both say
    *("class_names", "unreadable", "encoder", "encoder_name"),
    *("data", "split", "limit"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Embeddings:
    """One row per image, in the order of the data.

    Attributes:
        features: what the encoder says, not normalized.
        names: each image's path below the folder read, or its number.
        labels: one class number per image (-1: none), or None without labels.
        class_names: what the numbers mean.
        unreadable: images that have no row, with the reason.
        notes: sentences on what was read and left out.
        encoder: a mark of the weights that made the features; "" if unknown.
        encoder_name: what that encoder is called.
        data: where the images were; None if they were an object in memory.
        split: the part of the data.
        limit: at most this many images were taken.

    >>> embeddings = Embeddings(torch.eye(3), ("a.png", "b.png", "c.png"))
    >>> embeddings
    Embeddings(3 rows of 3 features, no labels)
    >>> path = embeddings.save(getfixture("tmp_path") / "three.npz")
    >>> Embeddings.load(path).names
    ('a.png', 'b.png', 'c.png')
    """

    features: Float32[Tensor, "n e"]
    names: tuple[str, ...]
    labels: Int[Tensor, " n"] | None = None
    class_names: tuple[str, ...] = ()
    unreadable: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    encoder: str = ""
    encoder_name: str = ""
    data: str | None = None
    split: str = "all"
    limit: int | None = None

    def __post_init__(self) -> None:
        n_labels = len(self.names if self.labels is None else self.labels)
        if not len(self.features) == len(self.names) == n_labels:
            raise ShapeError(
                "Embeddings need one name per row, and one label if there are any: got "
                f"{len(self.features)} rows, {len(self.names)} names and {n_labels} "
                "labels."
            )

    def __len__(self) -> int:
        return len(self.names)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a .parquet, .npz or .csv file.

        Args:
            path: where to; the ending says in which format.
            overwrite: replace a file that is there.
        """
        path, write = choose_writer(path)
        refuse_file(path, overwrite=overwrite)
        write_whole(
            path,
            lambda file: write(file, self.about(), self.blocks),
            advice="Free some space or fix the disk, and save again.",
        )
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Embeddings":
        """Read a whole file of embeddings.

        Args:
            path: what ``save``, ``write_embeddings`` or 'invariance embed' wrote.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = Embeddings(torch.eye(2), ("cat.jpg", "dog.jpg"))
        ...     _ = rows.save(Path(folder, "rows.npz"))
        ...     Embeddings.load(Path(folder, "rows.npz")).names
        ('cat.jpg', 'dog.jpg')
        """
        about, blocks = open_embeddings(path)
        names: list[str] = []
        labels = np.empty(about.n, np.int64)
        features = np.empty((about.n, about.width), np.float32)
        for rows in blocks():
            span = slice(len(names), len(names) + len(rows.names))
            labels[span], features[span] = rows.labels, rows.features
            names += rows.names
        return cls(
            torch.from_numpy(features),
            tuple(names),
            torch.from_numpy(labels) if about.labelled else None,
            **{name: getattr(about, name) for name in ORIGIN},
        )

    def about(self) -> About:
        """What a file of these embeddings says about itself."""
        origin = {name: getattr(self, name) for name in ORIGIN}
        if self.labels is None:
            origin["class_names"] = ()
        n, width = self.features.shape
        return About(n, width, labelled=self.labels is not None, **origin)

    def blocks(self) -> Iterator[Rows]:
        """The rows in blocks, as a file would give them."""
        for k in range(0, len(self), BLOCK):
            span = slice(k, k + BLOCK)
            names = list(self.names[span])
            labels = np.full(len(names), NO_LABEL)
            if self.labels is not None:
                labels = self.labels[span].cpu().numpy()
            yield Rows(names, labels, self.features[span].detach().cpu().numpy())

    def __repr__(self) -> str:
        return f"Embeddings({', '.join(self._facts())})"

    def _repr_html_(self) -> str:
        """A line of facts and the first rows, for notebooks."""
        about = self.about()
        rows = next(self.blocks(), Rows([], np.empty(0, int), np.empty((0, 0), "f4")))
        cells = [
            (
                name,
                about.class_name(label),
                f"{np.array2string(features[:4], precision=3)} ...",
            )
            for name, label, features in zip(
                rows.names[:SHOWN], rows.labels.tolist(), rows.features, strict=False
            )
        ]
        facts = html_sentences([f"Embeddings: {', '.join(self._facts())}"])
        return facts + html_table(cells, ("name", "class", "features"))

    def _facts(self) -> list[str]:
        facts = [f"{count(len(self), 'row')} of {self.features.shape[1]:,} features"]
        if self.labels is None:
            facts.append("no labels")
        else:
            numbers = {*self.labels.tolist()} - {NO_LABEL}
            n_classes = len(self.class_names) or len(numbers)
            facts.append(count(n_classes, "class", "classes"))
        if self.unreadable:
            facts.append(f"{len(self.unreadable):,} unreadable left out")
        if self.encoder_name:
            facts.append(f"by {self.encoder_name}")
        if self.data is not None:
            facts.append(f"of {self.data!r}")
        return facts


read_embeddings = Embeddings.load
