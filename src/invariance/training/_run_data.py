"""The data of a run: whether they suit the method, and how many make a batch."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ..data import Resident, Source
from ..encoders import load_tokenizer
from ..errors import DataError, SettingError
from ..methods import Method, keeps_every_sample
from ..negatives import check_room
from ..words import count
from ._clients import Clients, Rounds
from ._order import Epochs
from ._settings import BATCH, Train

FEW = 6  # classes that are named one by one
ROWS = 1024  # samples compared at once
OF_KINDS = {"image_size": "image", "text_column": "text"}  # those of time: see load


def check_kind(settings: Train, method: Method, source: Source, started: bool) -> None:
    """Raise where the method learns from other samples than these."""
    kind, name = source.kind, settings.method
    if method.encoder == "two" or method.samples == "pair":
        if source.other is None:
            raise DataError(
                f"{name} learns from pairs, but {source.name} has single "
                f"{kind.word}s: give captioned images or other pairs, or a method "
                "that needs none, such as simclr."
            )
    elif method.samples not in ("any", kind.name, *kind.also):
        raise DataError(
            f"{name} learns from samples of the kind {method.samples}, but those of "
            f"{source.name} are {kind.word}s: use a method for these, such as simclr."
        )
    kinds = {side.kind.seen.name for side in (source, source.other) if side is not None}
    for setting, whose in OF_KINDS.items():
        asked = getattr(settings, setting) is not None and not started
        if asked and whose not in kinds:
            raise SettingError(
                f"{setting} is for samples of the kind {whose}, but {source.name} "
                f"has {kind.word}s: leave it out."
            )


def choose_loading(settings: Train, method: Method) -> dict[str, Any]:
    """What ``load`` is told of every part of the data, the held-out one too."""
    names = ("image_column", "text_column", "data_root", "labels", "hold_out", "target")
    captions = method.encoder == "two" or settings.captions is not None
    how = {name: getattr(settings, name) for name in names}
    return how | {"captions": captions and (settings.captions or True)}


def note_unused_captions(settings: Train, source: Source) -> Iterator[str]:
    """Where a folder has captions beside its images, and only images are read."""
    if source.other is not None or source.kind.name != "image":
        return
    folder = Path(settings.data).expanduser()
    for suffix in (".csv", ".jsonl", ".parquet"):
        if (folder / f"captions{suffix}").is_file():
            yield (
                f"captions{suffix} is not used: clip and siglip learn from images with "
                "captions (--method clip)."
            )
            return


def find_tokenizer(settings: Train) -> Any:
    """That of a pretrained model of sentences, which knows no other tokens."""
    if settings.pretrained and settings.encoder.startswith("transformers/"):
        return load_tokenizer(settings.encoder)
    return None


def uses_pairs(method: Method, source: Source) -> bool:
    """Whether both sides of pairs are learned from.

    One encoder sees both where they are alike, and nobody has said how alike. A hidden
    token is looked for in its own sentence alone.
    """
    other = source.other if method.positives != "tokens" else None
    if other is None or method.encoder == "two":
        return other is not None
    scored = getattr(source, "scores", None) is not None
    return other.kind.seen == source.kind.seen and not scored


def check_enough(source: Source, n_batches: int, per_step: int) -> None:
    """Raise where there are fewer samples than one step of so many batches takes."""
    if len(source) >= max(per_step, 2):
        return
    most = 2 ** int(math.log2(max(len(source) // n_batches, 1)))
    advice = f"contrast needs at least two {source.kind.word}s"
    if most > 1:
        advice = f"use --batch-size {most} or less, or more {source.kind.word}s"
    elif n_batches > 1:
        advice = f"{n_batches} batches per step (--optim.accumulate) are too many"
    raise DataError(
        f"{source.name} has {count(len(source), source.kind.word)} to train on, fewer "
        f"than one step of {per_step}: {advice}."
    )


def check_varied(source: Source) -> None:
    """Raise where all samples that are held in memory are equal."""
    for side in (source, source.other):
        if not isinstance(side, Resident) or len(side) < 2:
            continue
        first = side.samples[0]
        # the first rows mostly differ already
        if all(bool((rows == first).all()) for rows in side.samples.split(ROWS)):
            raise DataError(
                f"All {count(len(side), side.kind.word)} of {source.name} to train on "
                "are the same, but contrast needs different ones: check how they were "
                "read or made."
            )


def make_order(
    settings: Train,
    source: Source,
    batch_size: int,
    clients: Clients | None,
    processes: int,
) -> Epochs | Rounds:
    """Which samples each step takes; raises where there are too few for one."""
    accumulate = settings.optim.accumulate
    if clients is None:
        check_enough(source, accumulate, batch_size * accumulate)
        return Epochs(
            len(source),
            batch_size,
            accumulate,
            processes,
            settings.seed,
            settings.epochs,
        )
    rounds = Rounds(
        clients,
        settings.federated,
        batch_size,
        accumulate,
        settings.seed,
        settings.epochs,
    )
    rounds.check(source.kind.word)
    return rounds


def choose_batch(
    settings: Train, source: Source, processes: int, n_places: int = 1
) -> tuple[int, str]:
    """Samples in one contrast, and why so many where nobody asked for a number.

    Small data get the largest power of two that leaves two steps per epoch, where they
    lie in several places in each: with one, most of what is left over would be dropped.
    """
    if settings.batch_size is not None:
        if settings.batch_size % processes:
            raise SettingError(
                f"batch_size {settings.batch_size} is shared by {processes} processes: "
                f"choose a multiple of {processes}, or another number of processes."
            )
        return settings.batch_size, ""
    fits = len(source) // (2 * settings.optim.accumulate * n_places)
    usual, batch = (
        max(2 ** int(math.log2(max(n // processes, 1))) * processes, 2)
        for n in (BATCH, min(BATCH, fits))
    )
    few = f" (not the usual {usual}: there are {count(len(source), source.kind.word)})"
    return batch, few if batch < usual else ""


def check_memories(
    method: Method,
    options: Mapping[str, Any],
    n_samples: int,
    device: torch.device | str,
) -> None:
    """Refuse a queue or a memory bank for which there is no room on the device."""
    size = options.get("size", method.source_settings.get("size", 0))
    if isinstance(size, int | float):  # else the queue itself says what is wrong
        check_room("queue", size, method.width, device)
    if keeps_every_sample(method):
        check_room("memory bank", n_samples, method.width, device)


def describe_parts(source: Source, *, labels: bool = True) -> str:
    """How many samples train, how many are held out, how many classes, and why.

    >>> from invariance.data import load
    >>> describe_parts(load("shapes", n=100))
    '100 to train on, a separate test part, 10 classes by label'
    """
    origin = source.origin
    parts = [f"{len(source):,} to train on"]
    if origin.n_held_out is None:
        parts.append("a separate test part")
    elif origin.own_test:
        parts.append(f"{origin.n_held_out:,} in a separate test part")
    else:
        n_held_out = f"{origin.n_held_out:,}" if origin.n_held_out else "none"
        parts.append(f"{n_held_out} held out")
    n_classes = count_classes(source)
    if source.quantities is not None:
        parts.append("a number each to score by")
    elif n_classes is None:
        parts.append("no labels to score by" if labels else "labels ignored")
    elif source.tags is not None:
        parts.append(f"{n_classes:,} classes, several per {source.kind.word}")
    else:
        parts.append(describe_classes(source))
    return ", ".join(parts)


def describe_classes(source: Source) -> str:
    """How many classes there are, what says so, and their names where they are few.

    >>> from invariance.data import load
    >>> describe_classes(load((torch.zeros(4, 8, 8), ["cat", "dog", "cat", "dog"])))
    '2 classes by label (cat, dog)'
    """
    present = [] if source.labels is None else source.labels.unique().tolist()
    names = [source.class_names[k] for k in present if 0 <= k < len(source.class_names)]
    by = source.origin.classes_by or "label"
    classes = f"{count(len(present), 'class', 'classes')} by {by}"
    worded = names != [str(k) for k in present]  # numbers say nothing
    return (
        f"{classes} ({', '.join(names)})" if len(names) <= FEW and worded else classes
    )


def count_classes(source: Source) -> int | None:
    """How many classes the samples to train on have; None without labels."""
    if source.tags is not None:
        return source.tags.shape[1]
    return None if source.labels is None else len(source.labels.unique())


FEW_STEPS, ENOUGH_STEPS = 200, 500


def describe_few_steps(n_steps: int, per_epoch: int) -> Iterator[str]:
    """A hint where small data make the usual number of epochs a short training.

    >>> print(*describe_few_steps(40, 2))
    few steps: under 200, an encoder rarely learns much; --epochs 250 gives 500
    >>> list(describe_few_steps(200, 10))
    []
    """
    if n_steps < FEW_STEPS:
        epochs = math.ceil(ENOUGH_STEPS / per_epoch)
        yield (
            f"few steps: under {FEW_STEPS}, an encoder rarely learns much; "
            f"--epochs {epochs} gives {epochs * per_epoch}"
        )


def describe_simplex(batch_size: int, width: int) -> Iterator[str]:
    """A hint where a batch is too large for its rows to be equally far apart.

    >>> list(describe_simplex(129, 128))
    []
    >>> print(*describe_simplex(256, 128))
    batch: 256 samples are more than the 129 that can all be equally far apart in \
projections of 128 numbers (a regular simplex): theory about batches of up to \
width + 1 does not apply here, and need not.
    """
    if batch_size > width + 1:
        yield (
            f"batch: {batch_size} samples are more than the {width + 1} that can all "
            f"be equally far apart in projections of {width} numbers (a regular "
            "simplex): theory about batches of up to width + 1 does not apply here, "
            "and need not."
        )
