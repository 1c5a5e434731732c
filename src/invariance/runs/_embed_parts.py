"""A large set embedded in parts, on machines that know nothing of each other.

    invariance embed RUN DATA -o part1.npz --shard 1/2     on one machine
    invariance embed RUN DATA -o part2.npz --shard 2/2     on another
    invariance embed --merge part1.npz part2.npz -o all.npz

A shard is a contiguous share of the batches, so each batch is that of a single process
and the merged file is the same to the bit. Every part says what it is a part of; what
is missing, there twice, or made otherwise is refused.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import DataError, SettingError
from ..folder import refuse_file, write_whole
from ..words import count, join_words
from ._embedding_files import (
    About,
    Blocks,
    EmbeddingFile,
    Part,
    Rows,
    choose_writer,
    open_embeddings,
)

ADVICE = "Free some space or fix the disk, and merge again: the parts are unchanged."


@dataclass(frozen=True)
class Shard:
    """One of several shares of the samples, counted from 1.

    >>> Shard.parse("2/3").span(1000, batch_size=256)
    (256, 512)
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """From how it is written: "2/8"."""
        number, _, of = text.partition("/")
        if not (number.strip().isdecimal() and of.strip().isdecimal()):
            raise SettingError(
                "A shard is written as its number and how many there are, such as 2/8: "
                f"got {text!r}."
            )
        shard = cls(int(number), int(of))
        if not 1 <= shard.number <= shard.of:
            raise SettingError(
                "Shards are counted from 1, so of 8 the first is 1/8 and the last 8/8: "
                f"got {text!r}."
            )
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def span(self, n: int, batch_size: int) -> tuple[int, int]:
        """The samples of this shard, from one number up to another."""
        n_batches = -(-n // batch_size)
        if n_batches < self.of:
            raise SettingError(
                f"{count(n, 'sample')} in batches of {batch_size} are "
                f"{count(n_batches, 'batch', 'batches')}, too few for {self.of} shards "
                "of whole batches: use fewer shards or a smaller --batch-size."
            )
        start, stop = (
            k * n_batches // self.of * batch_size
            for k in (self.number - 1, self.number)
        )
        return start, min(stop, n)


def check_part_name(file: str | Path) -> None:
    """Refuse a format that cannot say which shard it holds."""
    if Path(file).suffix.lower() == ".csv":
        raise SettingError(
            "A .csv file cannot say which shard it is: write shards as .npz or "
            ".parquet files, and --merge makes one .csv file of them."
        )


def merge_embeddings(
    parts: Sequence[str | Path],
    file: str | Path,
    *,
    overwrite: bool = False,
    max_bad_fraction: float | None = None,
) -> EmbeddingFile:
    """One file out of the parts that ``write_embeddings(shard=...)`` wrote.

    It is the file of a single process, to the bit, and a few thousand rows are held at
    a time. The first part says where the data are.

    Args:
        parts: files, in any order.
        file: where to; the ending says in which format, whatever that of the parts.
        overwrite: replace an existing file.
        max_bad_fraction: more unreadable samples than this share of all are an error;
            None is what the parts were made with.

    >>> import tempfile
    >>> from invariance.encoders import build_encoder
    >>> from invariance.runs import write_embeddings
    >>> encoder, few = build_encoder("tiny"), {"limit": 10, "batch_size": 5}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = [Path(folder, f"part{i}.npz") for i in (1, 2)]
    ...     for i, part in enumerate(parts, 1):  # on one machine each
    ...         _ = write_embeddings(encoder, "shapes", part, shard=f"{i}/2", **few)
    ...     merge_embeddings(parts, Path(folder, "shapes.npz")).n
    10
    """
    began = time.monotonic()
    path, write = choose_writer(file)
    paths = [Path(part).expanduser() for part in parts]
    refuse_file(path, overwrite=overwrite)
    if any(path.resolve() == part.resolve() for part in paths):
        raise SettingError(f"{str(path)!r} is one of the parts: name another file.")
    opened = [open_part(part) for part in paths]
    opened.sort(key=lambda part: part.about.part.start)  # type: ignore[union-attr]
    check_parts(opened)
    about = describe_whole(opened, max_bad_fraction)

    def blocks() -> Iterator[Rows]:
        for part in opened:
            yield from part.blocks()

    write_whole(path, lambda file: write(file, about, blocks), advice=ADVICE)
    seconds = time.monotonic() - began
    return EmbeddingFile(path, about.n, about.width, seconds, 0, about.unreadable)


@dataclass(frozen=True, eq=False)
class OpenPart:
    """A part's file."""

    path: Path
    about: About
    blocks: Blocks

    @property
    def part(self) -> Part:
        """Which one it is."""
        assert self.about.part is not None
        return self.about.part


def open_part(path: Path) -> OpenPart:
    """A part; a file that is not one, or not finished, is refused."""
    work = path.with_name(path.name + ".part")
    if path.suffix == ".part" or (work.is_dir() and not path.exists()):
        name = path.stem if path.suffix == ".part" else path.name
        raise DataError(
            f"The part {name!r} is not finished: give its command again, which "
            "continues where it stopped."
        )
    about, blocks = open_embeddings(path)
    if about.part is None:
        raise DataError(
            f"{str(path)!r} is not a part: parts are what 'invariance embed --shard' "
            "writes."
        )
    return OpenPart(path, about, blocks)


def check_parts(parts: Sequence[OpenPart]) -> None:
    """Refuse parts that do not make up one whole."""
    if not parts:
        raise SettingError("Name the parts to merge.")
    first, seen = parts[0], dict[int, OpenPart]()
    for each in parts:
        compare(first, each)
        part, about = each.part, each.about
        if (twin := seen.get(part.number)) is not None:
            raise DataError(
                f"{str(twin.path)!r} and {str(each.path)!r} are both shard "
                f"{part.number}/{part.of}: leave one of them out."
            )
        seen[part.number] = each
        n_bad = len(about.unreadable) - part.n_known_bad
        if about.n + n_bad != part.stop - part.start:
            raise DataError(
                f"{str(each.path)!r} is inconsistent: {about.n:,} rows and {n_bad:,} "
                f"unreadable samples of {part.stop - part.start:,}. Embed shard "
                f"{part.number}/{part.of} again."
            )
    missing = [str(k) for k in range(1, first.part.of + 1) if k not in seen]
    if missing:
        which = "Shard" if len(missing) == 1 else "Shards"
        are = "is" if len(missing) == 1 else "are"
        raise DataError(
            f"{which} {join_words(missing)} of {first.part.of} {are} missing: name all "
            "parts, or embed what is not there yet."
        )


def compare(one: OpenPart, other: OpenPart) -> None:
    """Refuse parts of two different wholes."""
    for what, a, b in (
        ("number of shards", one.part.of, other.part.of),
        ("encoder", one.about.encoder, other.about.encoder),
        ("split", one.about.split, other.about.split),
        ("limit", one.about.limit, other.about.limit),
        ("batch size", one.part.batch_size, other.part.batch_size),
        ("data", one.part.source, other.part.source),
    ):
        if a != b:
            values = f" ({a} and {b})" if what not in ("encoder", "data") else ""
            raise DataError(
                f"{str(one.path)!r} and {str(other.path)!r} do not belong together: "
                f"they differ in their {what}{values}. Embed one of them again as the "
                "other was."
            )


def describe_whole(parts: Sequence[OpenPart], max_bad_fraction: float | None) -> About:
    """What the file of a single process says about itself."""
    first = parts[0]
    bad = {name: why for each in parts for name, why in each.about.unreadable.items()}
    if bad:
        from ..data import check_unreadable  # which needs torch

        allowed = max_bad_fraction
        if allowed is None:
            allowed = max(each.part.max_bad_fraction for each in parts)
        n = first.part.n_images + first.part.n_known_bad
        title = Path(first.about.data or "the data").name
        check_unreadable(title, bad, n, allowed)
    class_names = next((p.about.class_names for p in parts if p.about.labelled), ())
    return replace(
        first.about,
        n=sum(each.about.n for each in parts),
        labelled=any(each.about.labelled for each in parts),
        class_names=class_names,
        unreadable=bad,
        part=None,
    )
