r"""Embedding: one row of features for every picture of any data.

$$h_i = f(x_i / 255),\qquad i = 1, \dots, n$$

``embed`` gives a value; ``write_embeddings`` gives a file, holds a few seconds of work
at a time however large the data are, and goes on where it was after being killed.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..data import NO_LABEL, describe_unreadable
from ..errors import SettingError
from ._embed_job import Job
from ._embedding_files import format_of
from ._embeddings import About, Embeddings
from ._encoded import Encoded, encoded
from ._images import Images, fingerprint, open_images
from ._progress import Counter, tell
from ._ready import mark_of, place, ready

STRETCH_BYTES = 8 << 20  # features held back at most
STRETCH_SECONDS = 2.0  # work lost at most, or one batch if that takes longer


@dataclass(frozen=True)
class Written:
    """A finished file of embeddings."""

    path: Path
    n: int
    width: int
    seconds: float
    n_new: int
    unreadable: dict[str, str] = field(default_factory=dict)


def embed(
    run_or_encoder: Any,
    data: Any,
    *,
    split: str = "all",
    limit: int | None = None,
    batch_size: int = 256,
    device: str = "auto",
    workers: int | None = None,
    data_root: str | Path | None = None,
    max_bad_fraction: float | int = 0.2,
    quiet: bool = True,
) -> Embeddings:
    """Features of all pictures, as a value.

    Args:
        run_or_encoder: a run, its folder, an encoder file, or an encoder.
        data: a folder, an .npy or .npz file, a data set's name, an array, a Dataset.
        split: "train", "test" or "all".
        limit: at most so many pictures, evenly spread.
        batch_size: pictures encoded at once.
        device: "auto" takes a GPU if there is one.
        workers: decoding processes; by default as many as cores for image files.
        data_root: where named sets are kept.
        max_bad_fraction: more unreadable pictures than this share are an error.
        quiet: say nothing while it works.

    >>> from invariance.encoders import build_encoder
    >>> found = embed(build_encoder("tiny"), "shapes", limit=10)
    >>> found.features.shape, found.names[:2], found.class_names[found.labels[0]]
    (torch.Size([10, 256]), ('0', '1'), 'circle')
    """
    encoder, images = opened(
        run_or_encoder,
        data,
        quiet=quiet,
        split=split,
        limit=limit,
        workers=workers,
        data_root=data_root,
        max_bad_fraction=max_bad_fraction,
    )
    parts: list[Encoded] = []
    bad = dict(images.unreadable)
    with Counter(len(images), quiet=quiet) as counter:
        for part in encoded(
            encoder,
            images,
            batch_size=batch_size,
            device=place(device),
            max_bad_fraction=max_bad_fraction,
        ):
            parts.append(part)
            bad |= {images.names[i]: why for i, why in part.unreadable.items()}
            counter.reach(part.stop)
    labels = torch.cat([p.labels for p in parts])
    rows = torch.cat([p.rows for p in parts]).tolist()
    return Embeddings(
        torch.cat([p.features for p in parts]),
        tuple(images.names[i] for i in rows),
        labels if bool((labels != NO_LABEL).any()) else None,
        class_names=images.class_names,
        unreadable=bad,
        notes=(images.notes[0], *describe_unreadable(bad, "left out")),
        encoder=mark_of(encoder),
    )


def write_embeddings(
    run_or_encoder: Any,
    data: Any,
    file: str | Path,
    *,
    overwrite: bool = False,
    split: str = "all",
    limit: int | None = None,
    batch_size: int = 256,
    device: str = "auto",
    workers: int | None = None,
    data_root: str | Path | None = None,
    max_bad_fraction: float | int = 0.2,
    quiet: bool = True,
) -> Written:
    """Features of all pictures, in a .parquet, .npz or .csv file.

    Killed at any moment and called again it goes on where it was, and the file is the
    one an uninterrupted call writes.

    Args:
        run_or_encoder: a run, its folder, an encoder file, or an encoder.
        data: a folder, an .npy or .npz file, a data set's name, an array, a Dataset.
        file: where to; the ending says how.
        overwrite: replace a file, or drop unfinished work of another job.
        split: "train", "test" or "all".
        limit: at most so many pictures, evenly spread.
        batch_size: pictures encoded at once.
        device: "auto" takes a GPU if there is one.
        workers: decoding processes; by default as many as cores for image files.
        data_root: where named sets are kept.
        max_bad_fraction: more unreadable pictures than this share are an error.
        quiet: say nothing while it works.
    """
    began = time.monotonic()
    path = Path(file).expanduser()
    kind = format_of(path)
    if not path.parent.is_dir():
        raise SettingError(f"There is no folder {str(path.parent)!r} to write into.")
    if path.is_dir():
        raise SettingError(f"{str(path)!r} is a folder: name a file.")
    encoder, images = opened(
        run_or_encoder,
        data,
        quiet=quiet,
        split=split,
        limit=limit,
        workers=workers,
        data_root=data_root,
        max_bad_fraction=max_bad_fraction,
    )
    mark = mark_of(encoder)
    part = {"split": split, "limit": limit}
    job = Job(path, {"encoder": mark, **part, "data": fingerprint(images)})
    try:
        done = job.start(overwrite=overwrite)
        if done:
            tell(f"going on after {done:,} of {len(images):,} images", quiet=quiet)
        with Counter(len(images), done=done, quiet=quiet) as counter:
            passing = encoded(
                encoder,
                images,
                start=done,
                batch_size=batch_size,
                device=place(device),
                max_bad_fraction=max_bad_fraction,
            )
            keep_all(job, passing, counter)
        n, labelled, missed = job.summary()
        bad = images.unreadable | {images.names[i]: missed[i] for i in sorted(missed)}
        about = About(
            n,
            encoder.width,
            labelled,
            class_names=images.class_names if labelled else (),
            encoder=mark,
            encoder_name=encoder.name,
            data=images.data,
            split=split,
            limit=limit,
            unreadable=bad,
        )
        job.finish(lambda to: kind.write(to, about, lambda: job.rows(images.names)))
    finally:
        job.close()
    seconds = time.monotonic() - began
    return Written(path, n, encoder.width, seconds, len(images) - done, bad)


def keep_all(job: Job, passing: Iterable[Encoded], counter: Counter) -> None:
    """Put features aside, in stretches of some seconds or some megabytes."""
    waiting: list[Encoded] = []
    size, since = 0, time.monotonic()
    try:
        for part in passing:
            waiting.append(part)
            size += part.features.numel() * 4
            late = time.monotonic() - since >= STRETCH_SECONDS
            if size >= STRETCH_BYTES or late or part.stop == counter.total:
                job.add(waiting)
                waiting, size, since = [], 0, time.monotonic()
            counter.reach(part.stop)
    except KeyboardInterrupt:  # asked politely, there is time to keep the rest
        if waiting:
            job.add(waiting)
        raise


def opened(
    run_or_encoder: Any, data: Any, *, quiet: bool, **how: Any
) -> tuple[Any, Images]:
    """The encoder and the pictures, with what there is to tell about them told."""
    encoder, notes = ready(run_or_encoder)
    images = open_images(data, encoder.input_shape, **how)
    for note in (*notes, *images.notes):
        tell(note, quiet=quiet)
    return encoder, images
