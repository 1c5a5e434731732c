"""What embed, search and export are given: an encoder, and samples to look at."""

import copy
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..data import (
    Image,
    Items,
    Kind,
    Streamed,
    Text,
    default_shape,
    find_place,
    has_columns,
    is_folder_of_files,
    is_hub,
    load,
    row_names,
    show_path,
)
from ..encoders import Encoder
from ..errors import DataError, SettingError, ShapeError
from ..folder import CONFIG, ENCODER, read_settings, resume_command
from ..training import Train
from ..training import load as load_encoder
from ..words import count
from ._embed_request import Request

SAMPLED = 64  # images that stand for those that are not files


def open_encoder(run_or_encoder: Any) -> tuple[Encoder, tuple[str, ...]]:
    """From a run, its folder, a file or a module to an encoder ready to use.

    Also gives what there is to tell about it. A run folder without a finished encoder
    gives that of its newest checkpoint.
    """
    if isinstance(run_or_encoder, Encoder):
        return copy.deepcopy(run_or_encoder).eval(), ()  # the caller's stays as it is
    if isinstance(run_or_encoder, nn.Module):
        raise SettingError(
            f"{type(run_or_encoder).__name__} does not say what it takes: wrap it as "
            "invariance.encoders.Encoder(module, input_shape=(3, 32, 32)), or for rows "
            "of 10 numbers as Encoder(module, kind=invariance.data.Vector((10,)))."
        )
    encoder = load_encoder(run_or_encoder)
    place = getattr(run_or_encoder, "folder", run_or_encoder)
    path = Path(place).expanduser()
    kind, shape, word = encoder.kind, "x".join(map(str, encoder.input_shape)), "sample"
    if kind is not None:
        shape, word = kind.shape_words, kind.word
    notes = [
        f"{place} is {encoder.name}: {word}s of {shape} in, {encoder.width} features "
        "out."
    ]
    if path.is_dir() and not (path / ENCODER).exists():
        notes.append(
            f"{path} is unfinished: its newest checkpoint is used. "
            f"'{resume_command(path)}' finishes it."
        )
    return encoder, tuple(notes)


def mark_encoder(encoder: Encoder) -> str:
    """A short mark of the weights: the same for the same encoder, wherever it lies."""
    mark = hashlib.blake2b(digest_size=16)
    for key, value in sorted(encoder.state_dict().items()):
        mark.update(f"{key} {tuple(value.shape)} {value.dtype}".encode())
        flat = value.detach().cpu().contiguous().reshape(-1)
        mark.update(flat.view(torch.uint8).numpy().tobytes())
    return mark.hexdigest()


@dataclass(frozen=True, eq=False)
class NamedImages:
    """Samples by number, each with a name.

    Attributes:
        items: the samples, in the shape that the encoder takes.
        title: what the data are called in messages.
        data: what the data can be opened by again; None for an object in memory.
        folder: where the names are paths in, if they are paths.
        unreadable: images already known to be broken, which have no number.
        fingerprint: tells the data from others, the same wherever they lie.
        notes: how many there are, what becomes of them, and what was left out.
    """

    items: Items
    title: str
    names: Sequence[str]
    class_names: tuple[str, ...]
    data: str | None
    folder: Path | None
    workers: int
    max_bad_fraction: float = 0.2
    unreadable: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    fingerprint: str = ""

    def __len__(self) -> int:
        return len(self.items)


def open_images(request: Request, encoder: Encoder) -> NamedImages:
    """Samples of the kind that an encoder takes, in its shape.

    Tables are read by the columns of the run, where they have them.
    """
    run, data = request.run_or_encoder, request.data
    kind, shape = encoder.kind, encoder.input_shape
    if kind is None or (isinstance(kind, Image) and shape[1] != shape[2]):
        raise ShapeError(
            f"This encoder takes samples of shape {tuple(shape)}: only encoders of "
            "square images (channels, size, size), and those that say what kind of "
            "samples they take, can be given data. Say it when the encoder is made, as "
            "in Encoder(module, kind=invariance.data.Vector((10,))) for rows of 10 "
            "numbers."
        )
    columns: dict[str, Any] = find_own_columns(run, data)
    source = load(
        data,
        split=request.split,
        kind=kind,
        n=request.limit,
        storage="streamed",
        data_root=request.data_root,
        workers=request.workers,
        max_bad_fraction=float(request.max_bad_fraction),
        text_column=find_columns(run, data) if isinstance(kind, Text) else None,
        **columns,
    )
    assert isinstance(source, Streamed)
    items = source.items
    if items.kind.seen != kind:
        raise DataError(
            f"{source.name} has {items.kind.word}s of {items.kind.shape_words}, but "
            f"the encoder takes {kind.word}s of {kind.shape_words}: use other data."
        )
    path = Path(data).expanduser() if isinstance(data, str | Path) else None
    are_files = items.paths is not None
    fit = describe_fit(data, items, request.data_root, columns.get("image_column"))
    workers = request.workers
    if workers is None:  # to copy the images of an array is no work for more processes
        decodes = are_files or (is_hub(data) and isinstance(kind, Image))
        workers = source.workers if decodes else 0
    return NamedImages(
        items,
        source.name,
        names=[spell_bytes(name) for name in row_names(items)],
        class_names=items.class_names,
        data=None if path is None else find_place(data) or str(data),
        folder=find_folder(path, kind) if are_files else None,
        workers=workers,
        max_bad_fraction=source.max_bad_fraction,
        unreadable={spell_bytes(k): why for k, why in source.unreadable.items()},
        notes=(
            f"{source.name} has {count(len(items), kind.word)}, {fit}",
            *(str(note) for note in source.notes if note.kind == "left out"),
        ),
        fingerprint=source.origin.fingerprint,
    )


def find_columns(run: Any, data: Any, setting: str = "text_column") -> str | None:
    """The columns that a run took its sentences from, where data have them, too.

    Or those that another setting of it names.
    """
    if run is None or isinstance(run, nn.Module):
        return None
    folder = Path(getattr(run, "folder", run)).expanduser()
    columns = None
    if (folder / CONFIG).is_file():
        columns = getattr(read_settings(folder, Train), setting)
    return columns if columns and has_columns(data, columns) else None


def find_own_columns(run: Any, data: Any) -> dict[str, str | None]:
    """The columns of images and of classes that a run was told to take.

    Only data sets of Hugging Face have them; a table's are known by the encoder.
    """
    if not is_hub(data):
        return {}
    return {name: find_columns(run, data, name) for name in ("image_column", "target")}


def find_folder(data: str | Path | None, kind: Kind | None) -> Path | None:
    """Where names are paths in: a folder of images.

    Windows are called by their recording and where they begin, which is no path, and
    images in shards lie in no folder.
    """
    files = kind is None or isinstance(kind, Image)
    return Path(data) if files and data and is_folder_of_files(data) else None


def describe_fit(
    data: Any,
    items: Items,
    data_root: str | Path | None,
    image_column: str | None = None,
) -> str:
    """What becomes of the images before the encoder sees them."""
    shape = items.kind.shape_words
    if items.paths is not None and isinstance(items.kind, Image):
        return (
            f"each brought to {shape}, the input of the encoder (shorter side resized, "
            "center cut out)."
        )
    before = items.shape
    images = isinstance(items.kind, Image)
    if images and isinstance(data, str | Path | np.ndarray | Tensor):  # to read twice
        before = default_shape(data, data_root=data_root, image_column=image_column)
    if before == items.shape:
        return f"of {shape}."
    was = "x".join(map(str, before))
    return f"of {was}: brought to {shape}, the input of the encoder."


def mark_images(images: NamedImages) -> str:
    """A short mark that changes when the images do: names, labels, sizes and dates.

    Images that are not files are marked by an even sample of them.
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
    if images.items.paths is not None:  # windows: files are told apart by their sizes
        mark.update(repr((images.fingerprint, images.items.paths)).encode())
    if images.data is not None and os.path.isfile(images.data):  # noqa: PTH113
        # a list of shards is no file, though longer than a path can be
        file = Path(images.data).stat()
        mark.update(repr((file.st_size, file.st_mtime_ns)).encode())
    step = max(1, len(images) // SAMPLED)
    for i in range(0, len(images), step):
        try:
            mark.update(images.items.read(i)[0].numpy().tobytes())
        except Exception:  # a data set of one's own may raise anything
            mark.update(b"unreadable")
    return mark.hexdigest()


def mark_source(images: NamedImages) -> str:
    """The same for the same images on every machine; dates of files do not count."""
    mark = hashlib.blake2b(digest_size=16)
    what = (images.fingerprint, len(images), images.items.shape, images.class_names)
    mark.update(repr(what).encode())
    if images.items.labels is not None:
        mark.update(images.items.labels.numpy().tobytes())
    return mark.hexdigest()


def spell_bytes(name: str) -> str:
    r"""A name that every file format can hold: bytes that are no text are spelled out.

    >>> spell_bytes("a\udcff.png")
    'a\\xff.png'
    """
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def on_one_line(name: str) -> str:
    r"""A name that is safe to print: what would move the cursor is spelled out.

    >>> on_one_line("a\n\x1b[31mb.png")
    'a\\n\\x1b[31mb.png'
    """
    text = show_path(name)
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
