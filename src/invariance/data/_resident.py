"""Small sets: read once, kept as one tensor on the training device.

Samples are resident when their bytes are at most a quarter of the device's
free memory, and on a GPU also half of the host's (they are read there first), and
never above 16 GiB. Otherwise they are streamed from the disk.
"""

from collections.abc import Iterable, Iterator
from typing import Any, final

import torch
from jaxtyping import Float, Int, Int8, Shaped
from torch import Tensor

from ..devices import format_bytes, free_bytes
from ..errors import DataError, SettingError, unknown
from ._kind import Image, Kind
from ._load_request import MOST_RESIDENT, Note, check_unreadable, note_unreadable
from ._one_pass import one_pass, share_out
from ._sources import NO_LABEL, Items, Read, Source, name_sample
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

    def read_sides(
        self,
        n_sides: int,
        index_batches: Iterable[Int[Tensor, " _"]],
        device: torch.device,
    ) -> Iterator[list[Tensor]]:
        """The requested batches, of one side or both."""
        sides = [self.samples]
        if n_sides == 2:
            assert isinstance(self.other, Resident)
            sides.append(self.other.samples)
        for index in index_batches:
            yield [rows[index.to(rows.device)].to(device) for rows in sides]


def read_all(
    parts: Read, *, device: torch.device | str, max_bad_fraction: float
) -> Resident:
    """Read every item into one tensor; those that cannot be read are left out.

    Of a pair, both sides are.
    """
    items, n = parts.items, len(parts.items)
    read_labels = torch.full((n,), NO_LABEL)
    samples, bad = read_tensor(items, read_labels, parts.parallel)
    others: Tensor | None = None
    if items.other is not None:
        nobody = torch.empty_like(read_labels)
        others, worse = read_tensor(items.other, nobody, parts.parallel)
        bad = worse | bad
    broken = {name_sample(items, i): bad[i] for i in sorted(bad)}
    check_unreadable(parts.name, broken, n, max_bad_fraction, word=items.kind.word)
    good = torch.tensor([i for i in range(n) if i not in bad], dtype=torch.long)

    def keep(rows: Tensor, side: Items, **about: Any) -> Resident:
        rows = (rows[good] if bad else rows).to(device)
        source = Resident(rows, kind=side.kind, name=parts.name, **about)
        source.copy_facts(side, good)
        return source

    about = {"unreadable": parts.unreadable | broken, "notes": parts.notes}
    source = keep(samples, items, **about)
    if items.other is not None and others is not None:
        source.other = keep(others, items.other)
    if items.labels is None and n and bool((read_labels[good] != NO_LABEL).all()):
        source.labels = read_labels[good]
    return source


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
