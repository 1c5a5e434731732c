"""The pictures an encoder is to look at: opened, named, brought to its input shape."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data import Items, StreamedImages, load, row_names, show_path
from ..errors import SettingError, ShapeError

SAMPLED = 64  # pictures that stand for those that are no files


@dataclass(frozen=True, eq=False)
class Images:
    """Pictures by number, each with a name.

    ``folder`` is where the names are paths in, if they are paths; ``unreadable`` are
    those already known to be broken, which have no number.
    """

    items: Items
    name: str
    names: Sequence[str]
    class_names: tuple[str, ...]
    data: str | None
    folder: Path | None
    workers: int
    unreadable: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)


def open_images(
    data: Any,
    shape: tuple[int, ...],
    *,
    split: str = "all",
    limit: int | None = None,
    workers: int | None = None,
    data_root: str | Path | None = None,
    max_bad_fraction: float | int = 0.2,
) -> Images:
    """Pictures of the channels and size of ``shape``, an encoder's input."""
    if len(shape) != 3 or shape[1] != shape[2]:
        raise ShapeError(
            f"This encoder takes samples of shape {tuple(shape)}: only encoders of "
            "square images (channels, size, size) can be given image data."
        )
    if limit is not None and limit < 1:
        raise SettingError(f"limit is 1 or more: got {limit}.")
    source = load(
        data,
        split=split,
        image_size=shape[-1],
        channels=shape[0],
        n=limit,
        storage="streamed",
        data_root=data_root,
        workers=workers,
        max_bad_fraction=float(max_bad_fraction),
    )
    assert isinstance(source, StreamedImages)
    items = source.items
    path = Path(data).expanduser() if isinstance(data, str | Path) else None
    folder = path if items.paths is not None and path and path.is_dir() else None
    if path is not None:
        data = str(path.resolve()) if path.exists() else str(data)
    # the pictures of an array are copied, which is no work for a second process
    auto = source.workers if items.paths is not None else 0
    said = (f"{source.name} has {len(items):,} images, {converted(items)}",)
    return Images(
        items,
        source.name,
        names=[printable(name) for name in row_names(items)],
        class_names=items.class_names,
        data=data if isinstance(data, str) else None,
        folder=folder,
        workers=auto if workers is None else workers,
        unreadable={printable(k): why for k, why in source.unreadable.items()},
        # the unreadable are named at the end, when all of them are known
        notes=(*said, *(str(n) for n in source.notes if n.kind == "left out")),
    )


def converted(items: Items) -> str:
    """What becomes of the pictures before the encoder sees them, in words."""
    shape = "x".join(map(str, items.shape))
    own = items
    while hasattr(own, "items"):
        own = own.items
    stored = getattr(own, "images", None)
    if stored is None and items.paths is None:
        return f"of {shape}."
    if stored is not None:
        first = getattr(own, "channels_first", False)
        size = stored.shape[2:4] if first else stored.shape[1:3]
        grey = stored.ndim == 3 or stored.shape[1 if first else 3] == 1
        channels = 1 if grey else 3
        if (channels, *size) == items.shape:
            return f"of {shape}."
        was = f"{size[0]}x{size[1]} pixels in {'grey' if grey else 'colour'}"
        return f"of {was}: brought to {shape}, the input of the encoder."
    return (
        f"each brought to {shape}, the input of the encoder (shorter side resized, "
        "centre cut out)."
    )


def fingerprint(images: Images) -> str:
    """A short mark that changes when the pictures do: names, labels, sizes and dates.

    What is no file is marked by an even sample of its pictures.
    """
    mark = hashlib.blake2b(digest_size=16)
    mark.update(repr((len(images), images.items.shape)).encode())
    if images.items.labels is not None:
        mark.update(images.items.labels.numpy().tobytes())
    if images.folder is not None:
        for path in images.items.paths or ():
            status = (images.folder / path).stat()
            line = (os.fsencode(path), status.st_size, status.st_mtime_ns)
            mark.update(repr(line).encode())
        return mark.hexdigest()
    if images.data is not None and (file := Path(images.data)).is_file():
        mark.update(repr((file.stat().st_size, file.stat().st_mtime_ns)).encode())
    step = max(1, len(images) // SAMPLED)
    for i in range(0, len(images), step):
        try:
            mark.update(images.items.read(i)[0].numpy().tobytes())
        except Exception:  # a data set of one's own may raise anything
            mark.update(b"unreadable")
    return mark.hexdigest()


def printable(name: str) -> str:
    r"""A name that every file format can hold: bytes that are no text are spelt out.

    >>> printable("a\udcff.png")
    'a\\xff.png'
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def on_one_line(name: str) -> str:
    r"""A name that is safe to print: what would move the cursor is spelt out.

    >>> on_one_line("a\n\x1b[31mb.png")
    'a\\n\\x1b[31mb.png'
    """
    text = show_path(name)
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
