"""Small sets: decoded once, kept as one uint8 tensor on the training device.

Images are resident when their n * c * h * w bytes are at most a quarter of the device's
free memory, and on a GPU also half of the host's (they are decoded there first), and
never above 16 GiB. Otherwise they are streamed from the disk.
"""

from collections.abc import Iterable, Iterator
from typing import final

import torch
from jaxtyping import Int, Int8, UInt8
from torch import Tensor

from ..devices import format_bytes, free_bytes
from ..errors import DataError, SettingError, unknown
from ._load_request import MOST_RESIDENT, Note, check_unreadable, note_unreadable
from ._one_pass import one_pass, share_out
from ._sources import NO_LABEL, ImageSource, Items, name_image

STORAGES = ("auto", "resident", "streamed")


@final
class ResidentImages(ImageSource):
    """Images held in memory; a batch is one indexing operation on the device.

    >>> source = ResidentImages(torch.zeros(5, 3, 8, 8, dtype=torch.uint8))
    >>> [tuple(b.shape) for b in source.batches([torch.tensor([4, 0])])]
    [(2, 3, 8, 8)]
    """

    def __init__(
        self,
        images: UInt8[Tensor, "n c h w"],
        labels: Int[Tensor, " labeled"] | None = None,
        *,
        tags: Int8[Tensor, "tagged classes"] | None = None,
        name: str = "images",
        class_names: tuple[str, ...] = (),
        paths: tuple[str, ...] | None = None,
        unreadable: dict[str, str] | None = None,
        notes: tuple[Note, ...] = (),
    ):
        for what, rows in (("labels", labels), ("tags", tags), ("paths", paths)):
            if rows is not None and len(rows) != len(images):
                raise DataError(
                    f"{name} has {len(images)} images but {len(rows)} {what}: "
                    f"give one of the {what} for each image."
                )
        self.images, self.labels, self.tags = images, labels, tags
        self.name, self.class_names, self.paths = name, class_names, paths
        c, h, w = images.shape[1:]
        self.shape = (c, h, w)
        self.unreadable = dict(unreadable or {})
        self._notes = notes

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was left out and why, and where the images are kept."""
        return (*self._notes, *note_unreadable(self.unreadable, "left out"))

    def add_note(self, note: Note) -> None:
        """Something that came to light while the images were read."""
        self._notes += (note,)

    def __len__(self) -> int:
        return len(self.images)

    def batches(
        self,
        index_batches: Iterable[Int[Tensor, " _"]],
        *,
        device: torch.device | str = "cpu",
    ) -> Iterator[UInt8[Tensor, "_ c h w"]]:
        """The requested batches, in that order, on ``device``."""
        for index in index_batches:
            yield self.images[index.to(self.images.device)].to(device)


def read_all(
    items: Items,
    *,
    name: str,
    device: torch.device | str,
    unreadable: dict[str, str],
    max_bad_fraction: float,
    notes: tuple[Note, ...],
    parallel: bool = False,
) -> ResidentImages:
    """Decode every item into one tensor; those that cannot be decoded are left out."""
    n = len(items)
    read_labels = torch.full((n,), NO_LABEL)
    if items.ready is not None:
        images, bad = items.ready
    else:
        images, bad = torch.empty((n, *items.shape), dtype=torch.uint8), {}
        for batch in share_out(items) if parallel else one_pass(items):
            images[batch.rows], read_labels[batch.rows] = batch.images, batch.labels
            bad |= batch.unreadable
    broken = {name_image(items, i): bad[i] for i in sorted(bad)}
    check_unreadable(name, broken, n, max_bad_fraction)
    good = torch.tensor([i for i in range(n) if i not in bad], dtype=torch.long)
    labels = items.labels
    if labels is None and n and bool((read_labels[good] != NO_LABEL).all()):
        labels = read_labels
    return ResidentImages(
        (images[good] if bad else images).to(device),
        labels if labels is None else labels[good],
        tags=items.tags if items.tags is None else items.tags[good],
        name=name,
        class_names=items.class_names,
        paths=items.paths and tuple(items.paths[i] for i in good.tolist()),
        unreadable=unreadable | broken,
        notes=notes,
    )


def choose_storage(
    storage: str, n_bytes: int, device: torch.device
) -> tuple[bool, Note]:
    """Whether to keep the images resident, and a note that says why."""
    if storage not in STORAGES:
        raise SettingError(unknown("storage", storage, STORAGES))
    size, why = format_bytes(n_bytes), ", as asked."
    resident = storage == "resident"
    if resident and n_bytes > (free := min(free_bytes(device), free_bytes("cpu"))):
        raise SettingError(
            f"{size} of images cannot be kept on {device}, where {format_bytes(free)} "
            "are free: use --storage streamed, a smaller --image-size or a --limit."
        )
    if storage == "auto":
        most = resident_budget(device)
        resident, allowed = n_bytes <= most, format_bytes(most)
        why = f" ({allowed} allowed)." if resident else f": {allowed} are allowed."
    where = f"resident on {device}" if resident else "streamed"
    return resident, Note("storage", f"{size} of images are {where}{why}")


def resident_budget(device: torch.device) -> int:
    """The most bytes of images to keep on a device."""
    free, host = free_bytes(device), free_bytes("cpu")
    if device.type == "cuda":
        return min(free // 4, host // 2, MOST_RESIDENT)
    return min(host // 4, MOST_RESIDENT)
