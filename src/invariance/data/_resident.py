"""Small sets: read once, kept as one tensor on the training device.

Samples are resident when their bytes are at most a quarter of the device's
free memory, and on a GPU also half of the host's (they are read there first), and
never above 16 GiB. Otherwise they are streamed from the disk.
"""

from collections.abc import Iterable, Iterator
from typing import final

import torch
from jaxtyping import Float, Int, Int8, Shaped
from torch import Tensor

from ..devices import format_bytes, free_bytes
from ..errors import DataError, SettingError, unknown
from ._kind import Image, Kind
from ._load_request import MOST_RESIDENT, Note, check_unreadable, note_unreadable
from ._one_pass import one_pass, share_out
from ._sources import NO_LABEL, Items, Source, name_sample
from ._workers import place

STORAGES = ("auto", "resident", "streamed")


@final
class Resident(Source):
    """Samples held in memory; a batch is one indexing operation on the device.

    >>> source = Resident(torch.zeros(5, 3, 8, 8, dtype=torch.uint8))
    >>> [tuple(b.shape) for b in source.batches([torch.tensor([4, 0])])]
    [(2, 3, 8, 8)]
    """

    def __init__(
        self,
        samples: Shaped[Tensor, "n ..."],
        labels: Int[Tensor, " labeled"] | None = None,
        *,
        tags: Int8[Tensor, "tagged classes"] | None = None,
        kind: Kind | None = None,
        other: Source | None = None,
        scores: Float[Tensor, " scored"] | None = None,
        quantities: Float[Tensor, " measured"] | None = None,
        name: str = "samples",
        class_names: tuple[str, ...] = (),
        paths: tuple[str, ...] | None = None,
        unreadable: dict[str, str] | None = None,
        notes: tuple[Note, ...] = (),
    ):
        given = {"labels": labels, "tags": tags, "paths": paths, "scores": scores}
        given |= {"quantities": quantities}
        for what, rows in given.items():
            if rows is not None and len(rows) != len(samples):
                raise DataError(
                    f"{name} has {len(samples)} samples but {len(rows)} {what}: "
                    f"give one of the {what} for each of them."
                )
        self.samples, self.labels, self.tags = samples, labels, tags
        self.kind = kind or Image(samples.shape[1:])
        self.other, self.scores, self.quantities = other, scores, quantities
        self.name, self.class_names, self.paths = name, class_names, paths
        self.unreadable = dict(unreadable or {})
        self._notes = notes

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was left out and why, and where the samples are kept."""
        return (
            *self._notes,
            *note_unreadable(self.unreadable, "left out", self.kind),
        )

    def add_note(self, note: Note) -> None:
        """Something that came to light while the samples were read."""
        self._notes += (note,)

    def __len__(self) -> int:
        return len(self.samples)

    def batches(
        self,
        index_batches: Iterable[Int[Tensor, " _"]],
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[Shaped[Tensor, "_ ..."]]:
        """The requested batches, in that order, on ``device``."""
        for index in index_batches:
            yield self.samples[index.to(self.samples.device)].to(device)

    def pairs(
        self,
        index_batches: Iterable[Int[Tensor, " _"]],
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The same, of both sides."""
        assert self.other is not None
        sides = self, self.other
        for index in index_batches:
            first, other = (next(s.batches([index], device=device)) for s in sides)
            yield first, other


def read_all(
    items: Items,
    *,
    name: str,
    device: torch.device | str,
    unreadable: dict[str, str],
    max_bad_fraction: float,
    notes: tuple[Note, ...],
    parallel: bool = False,
) -> Resident:
    """Read every item into one tensor; those that cannot be read are left out.

    Of a pair, both sides are.
    """
    n = len(items)
    read_labels = torch.full((n,), NO_LABEL)
    samples, bad = read_tensor(items, read_labels, parallel)
    other: Tensor | None = None
    if items.other is not None:
        other, worse = read_tensor(items.other, torch.empty_like(read_labels), parallel)
        bad = worse | bad
    broken = {name_sample(items, i): bad[i] for i in sorted(bad)}
    check_unreadable(name, broken, n, max_bad_fraction, word=items.kind.word)
    good = torch.tensor([i for i in range(n) if i not in bad], dtype=torch.long)
    labels = items.labels
    if labels is None and n and bool((read_labels[good] != NO_LABEL).all()):
        labels = read_labels
    second = None
    if items.other is not None and other is not None:
        rows = (other[good] if bad else other).to(device)
        classes = items.other.labels
        second = Resident(
            rows,
            classes if classes is None else classes[good],
            kind=items.other.kind,
            name=name,
            class_names=items.other.class_names,
        )
    return Resident(
        (samples[good] if bad else samples).to(device),
        labels if labels is None else labels[good],
        tags=items.tags if items.tags is None else items.tags[good],
        kind=items.kind,
        other=second,
        scores=items.scores if items.scores is None else items.scores[good],
        quantities=None if items.quantities is None else items.quantities[good],
        name=name,
        class_names=items.class_names,
        paths=items.paths and tuple(items.paths[i] for i in good.tolist()),
        unreadable=unreadable | broken,
        notes=notes,
    )


def read_tensor(
    items: Items, labels: Int[Tensor, " n"], parallel: bool
) -> tuple[Shaped[Tensor, "n ..."], dict[int, str]]:
    """All items as one tensor, and why some cannot be read; fills in their labels."""
    if items.ready is not None:
        return items.ready
    samples = torch.empty((len(items), *items.shape), dtype=items.kind.dtype)
    bad: dict[int, str] = {}
    for batch in share_out(items) if parallel else one_pass(items):
        place(batch.samples, samples, batch.rows)
        labels[batch.rows] = batch.labels
        bad |= batch.unreadable
    return samples, bad


def choose_storage(
    storage: str, n_bytes: int, device: torch.device, word: str
) -> tuple[bool, Note]:
    """Whether to keep the samples resident, and a note that says why."""
    if storage not in STORAGES:
        raise SettingError(unknown("storage", storage, STORAGES))
    size, why = format_bytes(n_bytes), ", as asked."
    resident = storage == "resident"
    if resident and n_bytes > (free := min(free_bytes(device), free_bytes("cpu"))):
        raise SettingError(
            f"{size} of {word}s cannot be kept on {device}, where {format_bytes(free)} "
            "are free: use --storage streamed, a smaller --image-size or a --limit."
        )
    if storage == "auto":
        most = resident_budget(device)
        resident, allowed = n_bytes <= most, format_bytes(most)
        why = f" ({allowed} allowed)." if resident else f": {allowed} are allowed."
    where = f"resident on {device}" if resident else "streamed"
    return resident, Note("storage", f"{size} of {word}s are {where}{why}")


def resident_budget(device: torch.device) -> int:
    """The most bytes of samples to keep on a device."""
    free, host = free_bytes(device), free_bytes("cpu")
    if device.type == "cuda":
        return min(free // 4, host // 2, MOST_RESIDENT)
    return min(host // 4, MOST_RESIDENT)
