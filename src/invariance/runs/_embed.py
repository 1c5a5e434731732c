r"""Embedding: one row of features for every sample of any data.

$$h_i = f(\mathrm{prepare}(x_i)),\qquad i = 1, \dots, n$$

``embed`` gives a value; ``write_embeddings`` gives a file, holds a few seconds of work
at a time however large the data are, and goes on where it was after being killed.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..data import NO_LABEL, check_unreadable, describe_unreadable, one_pass
from ..devices import choose_device
from ..encoders import Encoder
from ..errors import DataError, SettingError
from ..evaluation import encode_batch
from ..processes import ALONE, join_processes, share_cores
from ..progress import Progress, tell
from ._embed_job import Job, Stretch
from ._embed_parts import Shard
from ._embed_request import Request, check_request
from ._embedding_files import About, EmbeddingFile, Part, choose_writer
from ._embeddings import Embeddings
from ._inputs import (
    NamedImages,
    mark_encoder,
    mark_images,
    mark_source,
    open_encoder,
    open_images,
)

STRETCH_BYTES = 8 << 20  # features held back at most
STRETCH_SECONDS = 2.0  # work lost at most, or one batch if that takes longer
WAIT_SECONDS = 0.2  # between two looks at what other processes have done
FEW = 20  # images of which it is not worth a word that none can be read


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
        data: a folder, an .npy or .npz file, a data set's name, an array, a Dataset; a
            single image is images[None].
        split: "train", "test" or "all".
        limit: at most this many images, evenly spread.
        batch_size: images encoded at once.
        device: "auto" takes a GPU if there is one.
        workers: decoding processes; by default as many as cores for image files.
        data_root: where named sets are kept.
        max_bad_fraction: a larger share of unreadable images is an error.
        quiet: say nothing while it works.

    >>> from invariance.encoders import build_encoder
    >>> embeddings = embed(build_encoder("tiny"), "shapes", limit=10)
    >>> embeddings
    Embeddings(10 rows of 256 features, 10 classes, by tiny, of 'shapes')
    >>> embeddings.names[:2], embeddings.class_names[embeddings.labels[0]]
    (('0', '1'), 'circle')
    """
    request = check_request(
        run_or_encoder,
        data,
        split=split,
        limit=limit,
        batch_size=batch_size,
        workers=workers,
        data_root=data_root,
        max_bad_fraction=max_bad_fraction,
    )
    where = choose_device(device)
    encoder, images = open_inputs(request, quiet=quiet)
    parts: list[Stretch] = []
    unit = f"{images.items.kind.word}s"
    with Progress(len(images), unit=unit, quiet=quiet) as progress:
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
        notes=(*images.notes, *describe_unreadable(bad, "left out", encoder.kind)),
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
    shard: str | None = None,
    shared: bool = False,
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

    Killed at any moment and called again, it continues where it was, and writes the
    same file as an uninterrupted call. The ending of ``file`` says in which format;
    ``overwrite`` replaces a file, or drops unfinished work of another job.

    With ``shard="2/8"`` the second of eight shares is encoded, counted from 1, and the
    file is a part: ``merge_embeddings`` makes one file of all parts. With ``shared``,
    every process of torchrun's calls this and encodes a share; they see one disk, and
    the first puts the file together. All other arguments are those of ``embed``.

    >>> import tempfile
    >>> from invariance.encoders import build_encoder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "shapes.npz")
    ...     file = write_embeddings(build_encoder("tiny"), "shapes", path, limit=10)
    >>> file.n, file.width
    (10, 256)
    """
    began = time.monotonic()
    request = check_request(
        run_or_encoder,
        data,
        split=split,
        limit=limit,
        batch_size=batch_size,
        workers=workers,
        data_root=data_root,
        max_bad_fraction=max_bad_fraction,
        out=file,
        shard=shard,
    )
    processes = join_processes() if shared else ALONE
    where = processes.choose_device(device)
    silent = quiet or not processes.first
    path, write = choose_writer(file)
    encoder, images = open_inputs(request, quiet=silent)
    if workers is None and processes.count > 1:  # all decode at once
        most = min(images.workers, share_cores(processes.count))
        images = replace(images, workers=most)
    part = None if shard is None else make_part(shard, images, batch_size)
    span = (part.start, part.stop) if part else (0, len(images))
    mark = mark_encoder(encoder)
    identity = {
        "encoder": mark,
        "split": split,
        "limit": limit,
        "data": mark_images(images),
        "shard": None if part is None else f"{shard} in batches of {batch_size}",
    }
    job = Job(path, identity, span)
    n_images = span[1] - span[0]

    def begin() -> list[tuple[int, int]]:
        job.start(overwrite=overwrite)
        return job.missing(batch_size)

    def finish() -> EmbeddingFile:
        n, has_labels, missed = job.summarize()
        bad = name_unreadable(images, missed)
        check_all_unreadable(images, bad, part)
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
            part=part,
        )
        job.finish(lambda file: write(file, about, lambda: job.blocks(images.names)))
        seconds = time.monotonic() - began
        return EmbeddingFile(path, n, encoder.width, seconds, n_new, bad)

    try:
        batches = processes.decide(begin)
        mine = batches[processes.share(len(batches))]
        if mine and not job.folder.is_dir():
            raise DataError(
                f"Process {processes.rank + 1} does not see {str(job.folder)!r}, which "
                "the first has made: write to a disk that all machines share, or give "
                "each machine a --shard."
            )
        n_new = sum(stop - start for start, stop in batches)
        done = n_images - n_new
        whole = processes.count == 1 and n_new == len(images)
        if done:
            tell(f"continuing after {done:,} of {n_images:,}", quiet=silent)
        unit = f"{images.items.kind.word}s"
        with Progress(n_images, unit=unit, done=done, quiet=silent) as progress:
            stretches = encode_all(
                encoder,
                images,
                spans=None if whole else mine,
                batch_size=batch_size,
                device=where,
            )
            keep_all(job, stretches, progress)
            while processes.first and progress.done < n_images:  # others are at work
                time.sleep(WAIT_SECONDS)
                progress.reach(job.n_done())
        return replace(processes.decide(finish), kind=encoder.kind)
    finally:
        job.close()


def check_all_unreadable(
    images: NamedImages, bad: dict[str, str], part: Part | None
) -> None:
    """Too many in all are an error; of a part, which may have more, only all of it."""
    if part is None:
        n = len(images) + len(images.unreadable)
        check_unreadable(images.title, bad, n, images.max_bad_fraction)
        return
    n_bad, n = len(bad) - part.n_known_bad, part.stop - part.start
    if n_bad == n >= FEW:
        raise DataError(
            f"None of the {n:,} images of shard {part.number}/{part.of} can be read: "
            "check that this machine has the files, and that they were copied whole."
        )


def make_part(shard: str, images: NamedImages, batch_size: int) -> Part:
    """What the file of a shard says about itself."""
    which = Shard.parse(shard)
    start, stop = which.span(len(images), batch_size)
    return Part(
        which.number,
        which.of,
        start,
        stop,
        n_images=len(images),
        n_known_bad=len(images.unreadable),
        batch_size=batch_size,
        source=mark_source(images),
        max_bad_fraction=images.max_bad_fraction,
    )


def open_inputs(request: Request, *, quiet: bool) -> tuple[Encoder, NamedImages]:
    """The encoder and the images; tells what there is to know about them."""
    encoder, notes = open_encoder(request.run_or_encoder)
    images = open_images(request, encoder)
    for note in (*notes, *images.notes):
        tell(note, quiet=quiet)
    return encoder, images


def encode_all(
    encoder: Encoder,
    images: NamedImages,
    *,
    spans: Sequence[tuple[int, int]] | None = None,
    batch_size: int,
    device: torch.device,
) -> Iterator[Stretch]:
    """Features by the batch, in order, of all images or of those in ``spans``.

    Images that cannot be read are named and left out; too many of them are an error,
    so that a disk that fails half-way does not look like a finished job. Of a share of
    the images, the unreadable ones may be as many as all images allow.
    """
    encoder = encoder.to(device)
    bad = dict(images.unreadable)
    n_seen = len(bad) if spans is None else len(bad) + len(images)
    for batch in one_pass(
        images.items, spans=spans, batch_size=batch_size, workers=images.workers
    ):
        bad |= {images.names[i]: why for i, why in batch.unreadable.items()}
        if spans is None:
            n_seen += batch.stop - batch.start
        check_unreadable(images.title, bad, n_seen, images.max_bad_fraction)
        features = torch.empty(0, encoder.width)
        try:
            if len(batch.rows):
                features = encode_batch(
                    encoder, batch.samples, kind=images.items.kind, device=device
                )
        except torch.OutOfMemoryError:
            raise SettingError(
                f"A batch of {batch_size} {images.items.kind.word}s does not fit into "
                f"the memory of {device}: use a smaller batch size."
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
    since = time.monotonic()

    def keep() -> None:
        nonlocal since
        if waiting:
            job.add(waiting)
            waiting.clear()
        since = time.monotonic()

    try:
        for part in stretches:
            if waiting and part.start != waiting[-1].stop:  # others did what is between
                keep()
            waiting.append(part)
            progress.advance(part.stop - part.start)
            size = sum(4 * each.features.numel() for each in waiting)
            if size >= STRETCH_BYTES or time.monotonic() - since >= STRETCH_SECONDS:
                keep()
                progress.reach(job.n_done())  # with what other processes have done
        keep()
    except KeyboardInterrupt:  # asked politely, there is time to keep the rest
        keep()
        raise
