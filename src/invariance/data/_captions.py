"""Captions of images, from a table or from the files of a shard. No torch is needed.

    captions.csv        image,caption           a line per caption
    captions.jsonl      {"image": ..., "caption": ...}, or "captions": a list
    captions.parquet    the same columns

Such a file lies in the folder of images (``metadata.*`` is taken too), or anywhere if
it is named. Columns go by their usual names, or by those that one tells. An image may
have several captions, in one list or on several lines. Images are named by their path
from the folder, or by the file's name alone where only one image has it.

What cannot be used is counted and named: lines that are broken, empty or not UTF-8,
captions of no image, images without a caption. The rest is used.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import DataError
from ..words import count
from ._folder import compose
from ._load_request import MOST_NAMED, Note, show_path

STEMS = ("captions", "metadata")
SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
IMAGE_COLUMNS = (
    *("image", "file", "filename", "file_name", "path", "filepath", "file_path"),
    *("image_path", "image_file", "img"),
)
CAPTION_COLUMNS = (
    *("caption", "captions", "text", "texts", "title", "sentence", "sentences"),
    *("description", "descriptions"),
)
FEW = 20  # of fewer things a share says little
Cell = tuple[str, Any, Any]  # which line it is, and what it says of image and caption


@dataclass
class Captions:
    """Sentences by image, and by line why others cannot be used."""

    of: dict[str, list[str]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    n: int = 0
    """Captions that were read, broken ones included."""

    def add(self, image: str, caption: Any, line: str) -> None:
        """One caption, or a list of them; what is none is remembered as broken."""
        several = caption if isinstance(caption, list | tuple) else [caption]
        for one in several or [""]:
            self.n += 1
            try:
                text = clean(one)
            except DataError as cause:
                self.broken.setdefault(line, str(cause))
            else:
                self.of.setdefault(image, []).append(text)


def clean(caption: Any) -> str:
    r"""A sentence on one line, or why there is none.

    >>> clean(" a  red\ncircle ")
    'a red circle'
    """
    if caption is None:
        raise DataError("no caption")
    if not isinstance(caption, str):
        raise DataError(f"a {type(caption).__name__} instead of a caption")
    if any("\ud800" <= letter <= "\udfff" for letter in caption):
        raise DataError("not UTF-8")
    text = " ".join(caption.split())
    if not text:
        raise DataError("an empty caption")
    return text


# ------------------------------------------------------------------ files of captions


def find_caption_file(folder: Path) -> Path | None:
    """The file of captions in a folder of images; None where there is none."""
    names = [stem + suffix for stem in STEMS for suffix in SUFFIXES]
    present = [folder / name for name in names if (folder / name).is_file()]
    stem = present[0].stem if present else ""
    rivals = [path.name for path in present if path.stem == stem]
    if len(rivals) > 1:
        raise DataError(
            f"{str(folder)!r} holds {' and '.join(rivals)}: say with --captions which "
            "of them has the captions."
        )
    return present[0] if present else None


def read_caption_file(
    path: Path, image_column: str | None = None, caption_column: str | None = None
) -> Captions:
    """All captions of a file, by what it calls the images."""
    if not path.is_file():
        raise DataError(f"There is no file of captions {str(path)!r}: check the path.")
    readers = {".csv": read_csv, ".tsv": read_csv, ".parquet": read_parquet}
    readers |= {".jsonl": read_jsonl, ".ndjson": read_jsonl}
    read = readers.get(path.suffix.lower())
    if read is None:
        raise DataError(
            f"Captions come from a .csv, .tsv, .jsonl or .parquet file: got "
            f"{str(path)!r}."
        )
    captions = Captions()
    for line, image, caption in read(path, image_column, caption_column, captions):
        if not isinstance(image, str) or not image.strip():
            captions.n += 1
            captions.broken[line] = "no image is named"
        else:
            captions.add(image.strip(), caption, line)
    if not captions.of:
        first = next(iter(captions.broken.items()), None)
        why = f" ({first[0]}: {first[1]})" if first else ""
        raise DataError(f"{str(path)!r} holds no caption that can be used{why}.")
    return captions


def read_csv(
    path: Path, image: str | None, caption: str | None, captions: Captions
) -> Iterator[Cell]:
    """Lines below a header; those of another number of columns are broken."""
    mark = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        quotes = sum(line.count('"') for line in file)
        file.seek(0)
        lines = csv.reader(file, delimiter=mark)
        head = next(lines, [])
        columns = find_columns(head, image, caption, path)
        begun = lines.line_num + 1
        while (line := next_line(lines)) is not None:
            spans_several = lines.line_num > begun
            if isinstance(line, str) or len(line) not in (0, len(head)):
                captions.n += 1
                wrong = f"{count(len(line), 'column')} instead of {len(head)}"
                why = line if isinstance(line, str) else wrong
                captions.broken[f"line {begun}"] = why
            elif line:
                yield f"line {begun}", line[columns[0]], line[columns[1]]
            last, begun = begun, lines.line_num + 1
        if quotes % 2 and spans_several:
            raise DataError(
                f"A quotation mark in line {last} of {str(path)!r} is never closed, so "
                "nobody knows where its caption ends: close it, or double it if it is "
                "meant."
            )


def next_line(lines: Any) -> list[str] | str | None:
    """The next line of a table, why it cannot be read, or None after the last."""
    try:
        return next(lines, None)
    except csv.Error as cause:
        return str(cause)


def read_jsonl(
    path: Path, image: str | None, caption: str | None, captions: Captions
) -> Iterator[Cell]:
    """An object on each line."""
    columns: tuple[str, str] | None = None
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            line = f"line {number}"
            try:
                item = json.loads(text)
                problem = "" if isinstance(item, dict) else "no object of JSON"
            except ValueError as cause:
                problem = f"not JSON: {cause}"
            if problem:
                captions.n += 1
                captions.broken[line] = problem
                continue
            if columns is None:
                names = list(item)
                first, second = find_columns(names, image, caption, path)
                columns = names[first], names[second]
            yield line, item.get(columns[0]), item.get(columns[1])


def read_parquet(
    path: Path, image: str | None, caption: str | None, captions: Captions
) -> Iterator[Cell]:
    """A row per image or caption."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            columns = [names[k] for k in find_columns(names, image, caption, path)]
            number = 0
            for batch in file.iter_batches(columns=columns):
                cells = (batch.column(name).to_pylist() for name in columns)
                for cell in zip(*cells, strict=True):
                    number += 1
                    yield (f"row {number}", *cell)
    except (arrow.ArrowInvalid, UnicodeDecodeError, OSError) as cause:
        raise DataError(f"{str(path)!r} cannot be read: {cause}.") from None


def find_columns(
    names: Iterable[str], image: str | None, caption: str | None, path: Path
) -> tuple[int, int]:
    """Where the images and the captions are among columns."""
    names = [name.strip() for name in names]
    place = {name.lower(): k for k, name in reversed([*enumerate(names)])}
    found = []
    for told, usual, what, flag in (
        (image, IMAGE_COLUMNS, "images", "--image-column"),
        (caption, CAPTION_COLUMNS, "captions", "--text-column"),
    ):
        wanted = usual if told is None else (told.lower(),)
        column = next((place[name] for name in wanted if name in place), None)
        if column is None:
            asked = f"called {told!r}" if told else f"such as {', '.join(usual[:3])}"
            raise DataError(
                f"{str(path)!r} has no column of {what} {asked}: it has "
                f"{', '.join(map(repr, names)) or 'none'}. Name it with {flag}."
            )
        found.append(column)
    return found[0], found[1]


# ------------------------------------------------------------------ images and captions


def match_captions(
    captions: Captions, files: Iterable[str], base: str = ""
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The captions of each file, and the images named that are not among the files.

    Args:
        captions: By what a table calls the images.
        files: Paths below the folder of images.
        base: The folder of the table, seen from there, with a slash at its end.

    >>> captions = Captions({"a.png": ["a dog"], "box/b.png": ["a cat"], "c": ["?"]})
    >>> match_captions(captions, ["a.png", "all/box/b.png"])
    ({'a.png': ('a dog',)}, ['box/b.png', 'c'])
    >>> match_captions(Captions({"b.png": ["a cat"]}), ["all/box/b.png"])
    ({'all/box/b.png': ('a cat',)}, [])
    """
    files = list(files)
    by_path = {compose(path): path for path in files}
    by_name: dict[str, str | None] = {}
    for path in by_path:
        name = path.rpartition("/")[2]
        by_name[name] = None if name in by_name else by_path[path]
    matched: dict[str, list[str]] = {}
    strangers: list[str] = []
    for image, sentences in captions.of.items():
        name = compose(PurePosixPath(image.replace("\\", "/")).as_posix())
        file = by_path.get(base + name) or by_path.get(name)
        if file is None and "/" not in name:
            file = by_name.get(name)
        if file is None:
            strangers.append(image)
        else:
            matched.setdefault(file, []).extend(sentences)
    ordered = {path: tuple(matched[path]) for path in files if path in matched}
    return ordered, strangers


def judge_captions(
    captions: Captions,
    strangers: list[str],
    alone: list[str],
    n_images: int,
    *,
    name: str,
    max_bad_fraction: float,
) -> tuple[Note, ...]:
    """What was left out, in notes; too much of it is an error.

    Args:
        captions: As they were read.
        strangers: Images that have captions and are not there.
        alone: Images that are there and have no caption.
        n_images: How many there are, those among them.
        name: What the data are called.
        max_bad_fraction: How large a part may be left out.
    """
    notes = []
    for things, of, one, many, advice in (
        (
            captions.broken,
            captions.n,
            "caption that cannot be used",
            "captions that cannot be used",
            "Mend them",
        ),
        (
            dict.fromkeys(strangers, ""),
            len(captions.of),
            "captioned image that is not there",
            "captioned images that are not there",
            "Name images by their paths from the folder",
        ),
        (
            dict.fromkeys(alone, ""),
            n_images,
            "image without a caption",
            "images without a caption",
            "Caption them, or move them out",
        ),
    ):
        if not things:
            continue
        first = list(things.items())[:MOST_NAMED]
        names = [show_path(k) + (f" ({why})" if why else "") for k, why in first]
        more = f" and {len(things) - MOST_NAMED:,} more" * (len(things) > MOST_NAMED)
        listed = f"{', '.join(names)}{more}"
        if len(things) > max_bad_fraction * of and (of >= FEW or len(things) == of):
            raise DataError(
                f"{name} has {count(len(things), one, many)}, of {of:,}, more than "
                f"max_bad_fraction={max_bad_fraction:g} allows: {listed}. "
                f"{advice}, or allow more."
            )
        notes.append(
            Note("unreadable", f"{count(len(things), one, many)} left out: {listed}.")
        )
    return tuple(notes)
