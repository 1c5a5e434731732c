"""What a trainer reads from: samples of one kind, asked for by number.

``Items`` are what a reader provides (a number in, one sample out); a ``Source`` is what
the trainer holds: the same samples in batches, on a device. Pairs are two of them side
by side: the first side has the labels and the names, ``other`` is the second.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int, Int8, Shaped
from torch import Tensor

from ..errors import DataError
from ._kind import Kind
from ._load_request import Note, Origin, explain_unreadable

NO_LABEL = -1
PER_SAMPLE = ("labels", "tags", "scores", "quantities")  # tensors, a row each


class Described:
    """What is known of samples beside the samples themselves; see ``Source``."""

    kind: Kind
    labels: Int[Tensor, " n"] | None = None
    tags: Int8[Tensor, "n c"] | None = None
    scores: Float[Tensor, " n"] | None = None
    quantities: Float[Tensor, " n"] | None = None
    class_names: tuple[str, ...] = ()
    paths: tuple[str, ...] | None = None

    @property
    def targets(self) -> Int[Tensor, " n"] | Int8[Tensor, "n c"] | None:
        """What scores compare with: labels or tags; None where there are neither."""
        return self.labels if self.tags is None else self.tags

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample's tensor: an image's channels, height and width."""
        return self.kind.shape

    def copy_facts(
        self, others: "Described", rows: Int[Tensor, " _"] | None = None
    ) -> None:
        """Take over what is known of other samples, or of these rows of them."""
        self.kind, self.class_names = others.kind, others.class_names
        for what in PER_SAMPLE:
            known = getattr(others, what)
            setattr(self, what, known if known is None or rows is None else known[rows])
        self.paths = others.paths
        if others.paths is not None and rows is not None:
            self.paths = tuple(others.paths[i] for i in rows.tolist())


class Items(Described, ABC):
    """Samples that can be read one at a time; reading may raise for a broken one.

    The attributes are those of ``Source``.
    """

    other: "Items | None" = None
    """Where samples are pairs, the second of each, in the same order."""
    ready: tuple[Shaped[Tensor, "n ..."], dict[int, str]] | None = None
    """All samples, and by number why some cannot be read, where that is known."""

    @abstractmethod
    def __len__(self) -> int:
        """How many samples there are."""

    @abstractmethod
    def read(self, i: int) -> tuple[Shaped[Tensor, "..."], int]:
        """Sample i and its label, or NO_LABEL."""

    def read_many(
        self, rows: Sequence[int]
    ) -> tuple[Shaped[Tensor, "b ..."], Int[Tensor, " b"], dict[int, str]]:
        """Samples and labels of these numbers, and why some could not be read."""
        labels, unreadable = [NO_LABEL] * len(rows), {}
        samples: dict[int, Tensor] = {}
        for k, i in enumerate(rows):
            try:
                samples[k], labels[k] = self.read(i)
            except Exception as error:
                unreadable[i] = explain_unreadable(error)
        try:
            batch = collate(self.kind, samples, len(rows))
        except Exception as error:  # none of them, for one reason
            batch = collate(self.kind, {}, len(rows))
            unreadable |= {rows[k]: explain_unreadable(error) for k in samples}
        return batch, torch.tensor(labels, dtype=torch.long), unreadable

    @property
    def n_bytes(self) -> int:
        """Of one sample, both sides of a pair together."""
        return self.kind.n_bytes + (0 if self.other is None else self.other.n_bytes)

    @property
    def labeled(self) -> bool:
        """Whether the samples have labels or tags, known now or when they are read."""
        return self.targets is not None

    def name(self, i: int) -> str:
        """What sample i is called: its path, or its number in the data it came from."""
        return str(i) if self.paths is None else self.paths[i]

    def label(self, i: int) -> int:
        """The label of sample i, or NO_LABEL."""
        return NO_LABEL if self.labels is None else int(self.labels[i])


class Listed(Items):
    """Samples that their kind reads from what a list holds, when they are asked for.

    Args:
        raw: what ``kind.read`` takes, by number.
        kind: what a sample is.
        names: what each is called, where that is not its number.
    """

    def __init__(
        self, raw: Any, kind: Kind, names: Sequence[str] | None = None
    ) -> None:
        self.raw, self.kind, self.names = raw, kind, names

    def __len__(self) -> int:
        return len(self.raw)

    def name(self, i: int) -> str:
        """Its name, or its number."""
        return str(i) if self.names is None else self.names[i]

    def read(self, i: int) -> tuple[Shaped[Tensor, "..."], int]:
        """Sample i and its label."""
        return self.kind.read(self.raw[i]), self.label(i)


class Stored(Items):
    """Samples that are rows of one tensor.

    Args:
        samples: the tensor.
        kind: what a sample is.
        numbers: of each in the data that they came from; None: in their order.
    """

    def __init__(
        self,
        samples: Shaped[Tensor, "n ..."],
        kind: Kind,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.samples, self.kind, self.numbers = samples, kind, numbers
        self.ready = samples, {}

    def __len__(self) -> int:
        return len(self.samples)

    def name(self, i: int) -> str:
        """Its number in the whole data."""
        return str(i if self.numbers is None else self.numbers[i])

    def read(self, i: int) -> tuple[Shaped[Tensor, "..."], int]:
        """Sample i and its label."""
        return self.samples[i], self.label(i)


@dataclass(frozen=True)
class Read:
    """What a reader returns: items, and what to know about them."""

    name: str
    items: Items
    unreadable: dict[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    parallel: bool = True  # other people's code is read in this process alone
    origin: Origin = field(default_factory=Origin)
    takes: frozenset[str] = frozenset()
    """Settings that are used for these data, though not for others of their kind."""


class Source(Described, ABC):
    """Samples of one kind by number, in batches; ``Resident`` or ``Streamed``.

    Attributes:
        name: what the data are called in logs.
        kind: what a sample is.
        shape: of one sample's tensor: an image's channels, height and width.
        labels: one class number per sample, or None; for evaluation only.
        tags: where an image may show several classes: 1 where it shows the class, 0
            where not, -1 where that is not known. There are no ``labels`` then.
        targets: what scores compare with, labels or tags.
        scores: where samples are pairs, how alike people find the two; such pairs are
            to be scored by, not to be learned from as if they were the same.
        quantities: a number per sample to predict, such as a price; for evaluation
            only, and where there are no ``labels``.
        class_names: what the numbers, or the columns of ``tags``, mean; empty when
            there are neither.
        paths: each sample's file, relative to the folder read, or None.
        other: where samples are pairs, the second of each, in the same order; what
            else is said here is about the first.
        unreadable: the files (or numbers) left out or replaced, with the reason.
        origin: which data the samples are a part of.
    """

    name: str
    other: "Source | None" = None
    unreadable: dict[str, str]
    origin: Origin = Origin()

    @property
    @abstractmethod
    def notes(self) -> tuple[Note, ...]:
        """What was left out and why, what was chosen, where the samples are kept."""

    @abstractmethod
    def __len__(self) -> int:
        """How many samples there are."""

    def batches(
        self,
        index_batches: Iterable[Int[Tensor, " _"]],
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[Shaped[Tensor, "_ ..."]]:
        """The requested batches, in that order, on ``device``.

        Streamed samples read ``index_batches`` ahead: count the batches that came back,
        not those requested.
        """
        for (batch,) in self.read_sides(1, index_batches, torch.device(device)):
            yield batch

    def pairs(
        self,
        index_batches: Iterable[Int[Tensor, " _"]],
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The same, of both sides; where there is an ``other``."""
        batches = self.read_sides(2, index_batches, torch.device(device))
        yield from ((first, other) for first, other in batches)

    @abstractmethod
    def read_sides(
        self,
        n_sides: int,
        index_batches: Iterable[Int[Tensor, " _"]],
        device: torch.device,
    ) -> Iterator[list[Tensor]]:
        """The requested batches: of the samples, or of both sides of pairs."""


def collate(
    kind: Kind, samples: Mapping[int, Tensor], n: int
) -> Shaped[Tensor, "n ..."]:
    """A batch of n with these samples in their places, and zeros in the others."""
    shape = (len(samples), *kind.shape)
    batch = kind.collate([*samples.values()]) if samples else torch.empty(shape)
    if samples and (tuple(batch.shape), batch.dtype) != (shape, kind.dtype):
        raise DataError(
            f"{type(kind).__name__}.collate gave {tuple(batch.shape)} of {batch.dtype} "
            f"instead of {shape} of {kind.dtype}"
        )
    if len(samples) == n:
        return batch
    whole = torch.zeros((n, *kind.shape), dtype=kind.dtype)
    whole[[*samples]] = batch.to(kind.dtype)
    return whole


def name_sample(items: Items, i: int) -> str:
    """Sample i as a person can find it: its path, or its number in the whole data."""
    return items.name(i) if items.paths else f"{items.kind.word} {items.name(i)}"


def row_names(items: Items) -> Sequence[str]:
    """What to call each sample: its path, or its number in the data it came from."""
    return items.paths or [items.name(i) for i in range(len(items))]
