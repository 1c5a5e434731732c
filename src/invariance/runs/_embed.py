r"""Embedding: one row of features for every image of any data.

$$h_i = f(x_i / 255),\qquad i = 1, \dots, n$$

``embed`` gives a value; ``write_embeddings`` gives a file, holds a few seconds of work
at a time however large the data are, and goes on where it was after being killed.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..data import NO_LABEL, check_unreadable, describe_unreadable, one_pass
from ..devices import choose_device
from ..encoders import Encoder
from ..errors import SettingError
from ..evaluation import encode_batch
from ..progress import Progress, tell
from ._embed_job import Job, Stretch
from ._embed_request import check_request
from ._embedding_files import About, choose_writer
from ._embeddings import Embeddings
from ._inputs import NamedImages, mark_encoder, mark_images, open_encoder, open_images

STRETCH_BYTES = 8 << 20  # features held back at most
STRETCH_SECONDS = 2.0  # work lost at most, or one batch if that takes longer


@dataclass(frozen=True)
class EmbeddingFile:
    """A finished file of embeddings.

    Attributes:
        path: of the file.
        n: how many rows it has.
        width: features per row.
        seconds: how long it took.
        n_new: images encoded this time; the others were done before.
        unreadable: images that have no row, with the reason.
    """

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
    """Features of all images, as a value.

    Args:
        run_or_encoder: a run, its folder, an encoder file, or an encoder.
        data: a folder, an .npy or .npz file, a data set's name, an array, a Dataset.
        split: "train", "test" or "all".
        limit: at most so many images, evenly spread.
        batch_size: images encoded at once.
        device: "auto" takes a GPU if there is one.
        workers: decoding processes; by default as many as cores for image files.
        data_root: where named sets are kept.
        max_bad_fraction: more unreadable images than this share are an error.
        quiet: say nothing while it works.

    >>> from invariance.encoders import build_encoder
    >>> embeddings = embed(build_encoder("tiny"), "shapes", limit=10)
    >>> embeddings
    Embeddings(10 rows of 256 features, 10 classes, by tiny, of 'shapes')
    >>> embeddings.names[:2], embeddings.class_names[embeddings.labels[0]]
    (('0', '1'), 'circle')
    """
    sizes: dict[str, Any] = {
        "batch_size": batch_size,
        "limit": limit,
        "workers": workers,
    }
    check_request(run_or_encoder, data, **sizes)
    where = choose_device(device)
    encoder, images = open_inputs(
        run_or_encoder,
        data,
        quiet=quiet,
        split=split,
        limit=limit,
        workers=workers,
        data_root=data_root,
        max_bad_fraction=max_bad_fraction,
    )
    parts: list[Stretch] = []
    with Progress(len(images), quiet=quiet) as progress:
        for part in encode_all(encoder, images, batch_size=batch_size, device=where):
            parts.append(part)
            progress.reach(part.stop)
    labels = torch.cat([part.labels for part in parts])
    rows = torch.cat([part.rows for part in parts]).tolist()
    bad = name_unreadable(images, *(part.unreadable for part in parts))
    return Embeddings(
        torch.cat([part.features for part in parts]),
        tuple(images.names[i] for i in rows),
        labels if bool((labels != NO_LABEL).any()) else None,
        class_names=images.class_names,
        unreadable=bad,
        notes=(*images.notes, *describe_unreadable(bad, "left out")),
        encoder=mark_encoder(encoder),
        encoder_name=encoder.name,
        data=images.data,
        split=split,
        limit=limit,
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
) -> EmbeddingFile:
    """Features of all images, in a .parquet, .npz or .csv file.

    Killed at any moment and called again it goes on where it was, and the file is the
    one an uninterrupted call writes. The ending of ``file`` says in which format;
    ``overwrite`` replaces a file, or drops unfinished work of another job. All other
    arguments are those of ``embed``.
    """
    began = time.monotonic()
    sizes: dict[str, Any] = {
        "batch_size": batch_size,
        "limit": limit,
        "workers": workers,
    }
    check_request(run_or_encoder, data, **sizes)
    where = choose_device(device)
    path, write = choose_writer(file)
    encoder, images = open_inputs(
        run_or_encoder,
        data,
        quiet=quiet,
        split=split,
        limit=limit,
        workers=workers,
        data_root=data_root,
        max_bad_fraction=max_bad_fraction,
    )
    mark, part = mark_encoder(encoder), {"split": split, "limit": limit}
    job = Job(path, {"encoder": mark, **part, "data": mark_images(images)})
    try:
        done = job.start(overwrite=overwrite)
        if done:
            tell(f"going on after {done:,} of {len(images):,} images", quiet=quiet)
        with Progress(len(images), done=done, quiet=quiet) as progress:
            stretches = encode_all(
                encoder, images, start=done, batch_size=batch_size, device=where
            )
            keep_all(job, stretches, progress)
        n, has_labels, missed = job.summarize()
        bad = name_unreadable(images, missed)
        about = About(
            n,
            encoder.width,
            has_labels,
            class_names=images.class_names if has_labels else (),
            encoder=mark,
            encoder_name=encoder.name,
            data=images.data,
            split=split,
            limit=limit,
            unreadable=bad,
        )
        job.finish(lambda file: write(file, about, lambda: job.blocks(images.names)))
    finally:
        job.close()
    seconds = time.monotonic() - began
    return EmbeddingFile(path, n, encoder.width, seconds, len(images) - done, bad)


def open_inputs(
    run_or_encoder: Any, data: Any, *, quiet: bool, **how: Any
) -> tuple[Encoder, NamedImages]:
    """The encoder and the images; tells what there is to know about them."""
    encoder, notes = open_encoder(run_or_encoder)
    images = open_images(data, encoder.input_shape, **how)
    for note in (*notes, *images.notes):
        tell(note, quiet=quiet)
    return encoder, images


def encode_all(
    encoder: Encoder,
    images: NamedImages,
    *,
    start: int = 0,
    batch_size: int,
    device: torch.device,
) -> Iterator[Stretch]:
    """Features by the batch, in order, from image ``start`` on.

    Images that cannot be read are named and left out; too many of them are an error,
    so that a disk that fails half-way does not look like a finished job.
    """
    encoder = encoder.to(device)
    bad = dict(images.unreadable)
    n_known = len(bad)
    for batch in one_pass(
        images.items, start=start, batch_size=batch_size, workers=images.workers
    ):
        bad |= {images.names[i]: why for i, why in batch.unreadable.items()}
        n_seen = n_known + batch.stop - start
        check_unreadable(images.title, bad, n_seen, images.max_bad_fraction)
        features = torch.empty(0, encoder.width)
        try:
            if len(batch.rows):
                features = encode_batch(encoder, batch.images, device=device)
        except torch.OutOfMemoryError:
            raise SettingError(
                f"A batch of {batch_size} images does not fit into the memory of "
                f"{device}: use a smaller batch size."
            ) from None
        yield Stretch(
            batch.start,
            batch.stop,
            batch.rows,
            batch.labels,
            features,
            batch.unreadable,
        )


def name_unreadable(images: NamedImages, *missed: dict[int, str]) -> dict[str, str]:
    """All images that could not be read, by name."""
    bad = {i: why for numbers in missed for i, why in numbers.items()}
    return images.unreadable | {images.names[i]: bad[i] for i in sorted(bad)}


def keep_all(job: Job, stretches: Iterable[Stretch], progress: Progress) -> None:
    """Put features aside, every few seconds or every few megabytes."""
    waiting: list[Stretch] = []
    size, since = 0, time.monotonic()
    try:
        for part in stretches:
            waiting.append(part)
            size += part.features.numel() * 4
            late = time.monotonic() - since >= STRETCH_SECONDS
            if size >= STRETCH_BYTES or late or part.stop == progress.total:
                job.add(waiting)
                waiting, size, since = [], 0, time.monotonic()
            progress.reach(part.stop)
    except KeyboardInterrupt:  # asked politely, there is time to keep the rest
        if waiting:
            job.add(waiting)
        raise
