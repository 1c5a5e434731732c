"""``load``: one function for every kind of data."""

import dataclasses
import time
from collections import abc
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ..devices import check_workers
from ..errors import DataError, SettingError, choose
from ..plain_numbers import check_least
from ..words import show_duration
from ._arrays import read_array_file, read_arrays
from ._beetles import read_beetles
from ._captioned_shapes import read_captioned_shapes
from ._captions import find_caption_file, read_captioned_folder
from ._dataset import Samples, read_dataset, read_samples
from ._double_spiral import read_double_spiral
from ._file_items import Files, read_folder
from ._graph_sets import read_blocks, read_bonds
from ._graphs import are_graphs, read_graphs
from ._hub_rows import have_hub_captions, read_hub
from ._hugging_face import is_hub
from ._kind import Image, Kind, Sequence, Unknown
from ._kinds import KINDS
from ._latent_walk import read_latent_walk
from ._load_request import Note, Request, check_shape
from ._names import (
    find_path,
    find_place,
    find_set,
    find_shards,
    is_folder_of_files,
)
from ._pack import pack_command
from ._resident import choose_storage, read_all
from ._row import Row
from ._sentences import are_sentences, read_paraphrases, read_sentences
from ._sequences import are_sequences, read_sequences
from ._shapes import read_shapes
from ._shards import have_captions, read_shard_files
from ._sources import Read, Source
from ._split import check_split, spread
from ._streamed import Streamed
from ._subset import Subset, Unlabeled
from ._table_rows import are_table_rows, read_table_rows
from ._torchvision import read_torchvision
from ._workers import choose_workers

GENERATORS = {
    "shapes": read_shapes,
    "paraphrases": read_paraphrases,
    "latent_walk": read_latent_walk,
    "captioned_shapes": read_captioned_shapes,
    "double_spiral": read_double_spiral,
    "beetles": read_beetles,
    "bonds": read_bonds,
    "blocks": read_blocks,
}
SETTINGS_OF = {
    **dict.fromkeys(("window", "stride", "time_column"), Sequence.name),
    **dict.fromkeys(("target", "columns"), Row.name),
}
"""For which kind of samples a setting is."""
SLOW_SECONDS = 10  # from here on a packed copy is worth a word


def load(
    data: Any,
    *,
    split: str = "train",
    image_size: int | None = None,
    channels: int | None = None,
    n: int | None = None,
    storage: str = "auto",
    data_root: str | Path | None = None,
    workers: int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    max_bad_fraction: float = 0.2,
    labels: bool = True,
    hold_out: str = "auto",
    kind: Kind | str | None = None,
    captions: bool | str | Path = False,
    image_column: str | None = None,
    window: int | None = None,
    stride: int | None = None,
    time_column: str | None = None,
    text_column: str | None = None,
    target: str | None = None,
    columns: abc.Sequence[str] = (),
    other_kind: Kind | None = None,
    tokenizer: Any = None,
) -> Source:
    """Samples by a name in ``DATA_SETS``, a path, or an object.

    >>> source = load("shapes", n=100)
    >>> len(source), source.shape, source.class_names[:3]
    (100, (3, 32, 32), ('circle', 'square', 'triangle'))
    >>> load(np.zeros((50, 28, 28), np.uint8), split="all").shape
    (1, 28, 28)

    Args:
        data: a name ("shapes", "cifar10", ...; "./shapes" is a folder of that name), a
            path of a folder, .npy or .npz file, of a .txt, .csv, .tsv, .jsonl or
            .parquet file of sentences or of a table, of shards (a folder, a pattern or
            a list of .tar files), "hf:NAME" or a data set of Hugging Face, a mapping of
            columns, an array or tensor of images or vectors, a pair (array, labels), a
            list of sentences or of pairs of them, ``Samples``, or a torch Dataset.
        split: "train", "test" or "all". See ``hold_out`` for data without a test part
            of their own.
        image_size: side of the square images handed out. None keeps the size of sets
            that have one, and takes the median shorter side of a folder (32 to 128).
        channels: 1 or 3. None: 3 for folders, otherwise as the data are.
        n: how many images to generate (by default 6,000 to train and 1,000 to test);
            at most this many of other data, evenly spread.
        storage: "resident" (one tensor on ``device``), "streamed" (decoded by workers
            as training goes) or "auto", which is resident when the images fit.
        data_root: where torchvision's sets are kept; None is $INVARIANCE_DATA or
            ~/.cache/invariance.
        workers: decoding processes of streamed images; 0 decodes in this one.
        seed: of generated data.
        device: where resident images are kept.
        max_bad_fraction: more unreadable images than this share are an error.
        labels: use the labels that the data come with.
        hold_out: what data without a test part of their own keep from training: a
            "tenth", by the hash of each image's path or number, "nothing", or "auto",
            a tenth where there are labels to score by.
        kind: what a sample is, by its name in ``KINDS`` or, where samples are to be
            read exactly as those of another part, the kind itself. None: as the data
            look.
        captions: whether images come with their captions, as pairs: True for those of
            a captions.csv, .jsonl or .parquet in the folder, of shards or of a set; or
            the path of such a file.
        image_column: what the column of images is called in it, or in a data set of
            Hugging Face, if not as usual.
        window: of sequences, values of time in a window. None is 1.28 seconds of audio,
            sequences of one length as they are, and 128 values otherwise.
        stride: values of time from one window to the next; None is a whole window.
        time_column: of a table of values in time, the column that has the times, where
            its name does not tell.
        text_column: the column of a table that has the sentences or captions, or, with
            a comma, the two of pairs of sentences; None: by their usual names.
        target: the column of a table, or of a data set of Hugging Face, that has the
            classes, for evaluation only; None: one that is called target, label, class
            or y.
        columns: the columns of a table to learn from; none are all but the target.
        other_kind: how the other side of pairs was read in another part.
        tokenizer: of sentences, one of the library ``tokenizers``; None trains one on
            the training part.
    """
    check_split(split, hold_out)
    check_workers(workers)
    check_shape(image_size, channels)
    check_least("n", n, 1)
    check_least("window", window, 2)
    check_least("stride", stride, 1)
    if isinstance(kind, str):
        choose(KINDS, kind, "kind of sample")
    elif isinstance(kind, Image):
        channels, image_size = kind.shape[0], kind.shape[-1]
        channels = channels if channels in (1, 3) else None
    elif isinstance(kind, Unknown) and not isinstance(data, Samples):
        kind.read(data)  # which says what is missing
    request = Request(
        split=split,
        image_size=image_size,
        channels=channels,
        n=n,
        data_root=data_root,
        seed=seed,
        max_bad_fraction=max_bad_fraction,
        labels=labels,
        hold_out=hold_out,
        kind=kind,
        captions=None if captions is False else "" if captions is True else captions,
        image_column=image_column,
        window=window,
        stride=stride,
        time_column=time_column,
        text_column=text_column,
        target=target,
        columns=tuple(columns),
        other_kind=other_kind,
        tokenizer=tokenizer,
    )
    began = time.monotonic()
    parts = read(data, request)
    check_found(parts, request)
    items = parts.items if labels else Unlabeled(parts.items)
    if n is not None and n < len(items):
        items = Subset(items, spread(len(items), n))
    if not len(items):
        raise DataError(f"{parts.name} has no {items.kind.word}s in its {split} part.")
    word, where = items.kind.word, torch.device(device)
    resident, note = choose_storage(storage, len(items) * items.n_bytes, where, word)
    notes = [*parts.notes, note]
    source: Source
    if resident:
        if workers is not None:
            text = f"workers={workers} changes nothing, since no {word}s are streamed."
            notes.append(Note("storage", text))
        whole = dataclasses.replace(parts, items=items, notes=tuple(notes))
        source = read_all(whole, device=device, max_bad_fraction=max_bad_fraction)
        seconds = time.monotonic() - began
        decoded = isinstance(parts.items, Files) and parts.items.pack is None
        if decoded and seconds > SLOW_SECONDS and find_place(data):
            source.add_note(suggest_pack(data, items.shape, seconds))
    else:
        workers, fewer = choose_workers(workers, items.n_bytes)
        if fewer:
            notes.append(Note("storage", fewer))
        source = Streamed(
            items,
            name=parts.name,
            workers=workers,
            unreadable=parts.unreadable,
            max_bad_fraction=max_bad_fraction,
            notes=tuple(notes),
        )
    source.origin = parts.origin
    return source


def check_found(parts: Read, request: Request) -> None:
    """Raise for another kind of sample than that of another part, or of a setting."""
    kind, known = parts.items.kind, request.known_kind
    if known is not None and known.name not in (kind.name, kind.seen.name):
        raise DataError(
            f"{parts.name} has {kind.word}s, but {known.word}s are expected: use "
            f"data of the kind {known.name}."
        )
    for setting, whose in SETTINGS_OF.items():
        strange = kind.seen.name != whose and setting not in parts.takes
        if getattr(request, setting) and strange:
            raise SettingError(
                f"{setting} is for samples of the kind {whose}, but {parts.name} has "
                f"{kind.word}s: leave it out."
            )


def suggest_pack(data: Any, shape: tuple[int, ...], seconds: float) -> Note:
    """A word about a packed copy, where decoding took long."""
    command = pack_command(data, shape)
    return Note(
        "storage",
        f"Decoding took {show_duration(seconds)}: '{command}' keeps a decoded copy, "
        "which is read in seconds.",
    )


def read(data: Any, request: Request) -> Read:
    """Find out what kind of data this is, and read it."""
    if isinstance(data, Samples):
        return read_samples(data, request)
    if name := find_set(data):
        generate = GENERATORS.get(name)
        parts = generate(request) if generate else read_torchvision(name, request)
        origin = dataclasses.replace(parts.origin, fingerprint=name)
        return dataclasses.replace(parts, origin=origin)
    if is_hub(data):
        return read_hub(data, request)
    as_images = request.kind_name in ("", Image.name)
    if as_images and (shards := find_shards(data)):
        return read_shard_files(shards, request)
    if are_graphs(data, request):
        return read_graphs(data, request)
    if are_sequences(data, request):
        return read_sequences(data, request)
    if are_table_rows(data, request):
        return read_table_rows(data, request)
    if are_sentences(data, request):
        return read_sentences(data, request)
    if request.kind_name == Image.name and are_sentences(data, Request()):
        name = repr(str(data)) if isinstance(data, str | Path) else "The list"
        raise DataError(
            f"{name} holds sentences or a table, but images are expected: give a "
            "folder of images, an .npy, .npz or .tar file, or a set by name."
        )
    if isinstance(data, (str, Path)):
        path = find_path(data)
        if path.is_dir() and request.captions is not None:
            return read_captioned_folder(path, request)
        return (read_folder if path.is_dir() else read_array_file)(path, request)
    pair = isinstance(data, tuple) and len(data) == 2
    images, labels = data if pair else (data, None)
    if isinstance(images, (Tensor, np.ndarray)):
        return read_arrays(images, labels, "the array", request)
    if isinstance(data, DataLoader):
        raise DataError(
            "data is a DataLoader, whose batches cannot be used: give the data set "
            "inside it, loader.dataset."
        )
    if request.kind_name not in ("", Image.name):
        raise DataError(
            f"The data, of type {type(data).__name__}, cannot be read as samples of "
            f"the kind {request.kind_name}: check what they hold, or give "
            "inv.data.Samples(items, kind)."
        )
    if hasattr(data, "__getitem__") or hasattr(data, "__iter__"):
        return read_dataset(data, request)
    raise DataError(
        f"data is a {type(data).__name__}: expected a data set's name, a path, an "
        "array, (array, labels), inv.data.Samples or a torch Dataset."
    )


def fingerprint(
    data: Any,
    *,
    data_root: str | Path | None = None,
    kind: Kind | None = None,
    text_column: str | None = None,
    image_column: str | None = None,
) -> str:
    """What tells data apart, the same wherever they lie.

    A named set goes by its name and is not looked for; of others a few images at most
    are read. What ``load`` is told of samples that are no images tells here, too.

    >>> fingerprint("shapes")
    'shapes'
    """
    if name := find_set(data):
        return name
    how: dict[str, Any] = {"data_root": data_root, "image_column": image_column}
    how |= {"kind": kind, "text_column": text_column}
    return look_at(data, **how).origin.fingerprint


def has_captions(data: Any) -> bool:
    """Whether images come with captions, as far as names and a first sample tell."""
    if isinstance(data, str) and find_set(data):
        return data == "captioned_shapes"
    if is_hub(data):
        return have_hub_captions(data)
    if isinstance(data, str | Path) and is_folder_of_files(data):
        return find_caption_file(Path(data).expanduser()) is not None
    return have_captions(find_shards(data))


def default_shape(
    data: Any,
    *,
    data_root: str | Path | None = None,
    image_column: str | None = None,
) -> tuple[int, ...]:
    """The shape of a sample where ``load`` is not told any.

    >>> default_shape(np.zeros((50, 28, 28), np.uint8))
    (1, 28, 28)
    """
    how: dict[str, Any] = {"data_root": data_root, "image_column": image_column}
    return look_at(data, **how).items.shape


def look_at(data: Any, **settings: Any) -> Read:
    """What there is, before anybody decides what to do about broken samples."""
    with torch.random.fork_rng(devices=[]):  # reading a data set may draw
        return read(data, Request("all", n=1, max_bad_fraction=1.0, **settings))
