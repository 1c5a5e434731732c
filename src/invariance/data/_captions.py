"""Captions of images, from a table or from the files of a shard.

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

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import DataError
from ..words import count
from ._folder import compose
from ._load_request import MOST_NAMED, Note, show_path
from ._tables import READERS, open_table
from ._text import explain_unusable

STEMS = ("captions", "metadata")
SUFFIXES = tuple(suffix for suffix in READERS if suffix != ".txt")
IMAGES = (
    *("image", "file", "filename", "file_name", "path", "filepath", "file_path"),
    *("image_path", "image_file", "img"),
)
TEXTS = (
    *("caption", "captions", "text", "texts", "title", "sentence", "sentences"),
    *("description", "descriptions"),
)
FEW = 20  # of fewer things a share says little


@dataclass
class CaptionTable:
    """Sentences by image, and by line why others cannot be used."""

    of: dict[str, list[str]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    n: int = 0
    """Captions that were read, broken ones included."""

    def refuse(self, line: str, why: str) -> None:
        """A caption that cannot be used."""
        self.n += 1
        self.broken.setdefault(line, why)

    def add(self, image: str, caption: Any, line: str) -> None:
        """One caption, or a list of them; what is none is remembered as broken."""
        several = caption if isinstance(caption, list | tuple) else [caption]
        for one in several or [""]:
            why = explain_unusable(one)
            if why is not None:
                self.refuse(line, why)
            else:
                self.n += 1
                self.of.setdefault(image, []).append(" ".join(one.split()))


# ------------------------------------------------------------------ files of captions


def find_caption_file(folder: Path) -> Path | None:
    """The file of captions in a folder of images; None where there is none."""
    names = [stem + suffix for stem in STEMS for suffix in SUFFIXES]
    present = [folder / name for name in names if (folder / name).is_file()]
    stem = present[0].stem if present else ""
    rivals = [path.name for path in present if path.stem == stem]
    if len(rivals) > 1:
        raise DataError(
            f"{str(folder)!r} holds {' and '.join(rivals)}: name the one that has "
            "the captions with --captions."
        )
    return present[0] if present else None


def read_caption_file(
    path: Path, image_column: str | None = None, caption_column: str | None = None
) -> CaptionTable:
    """All captions of a file, by what it calls the images."""
    table = open_table(path)
    names = table.require_column(IMAGES, image_column, "the images", "--image-column")
    texts = table.require_column(TEXTS, caption_column, "the captions", "--text-column")
    captions = CaptionTable()
    for line, cells in table:
        image = cells[names]
        if isinstance(image, str) and image.strip():
            captions.add(image.strip(), cells[texts], line)
        else:
            captions.refuse(line, "no image is named")
    for line, why in table.broken.items():
        captions.refuse(line, why)
    if not captions.of:
        first = next(iter(captions.broken.items()), None)
        why = f" ({first[0]}: {first[1]})" if first else ""
        raise DataError(f"{str(path)!r} holds no caption that can be used{why}.")
    return captions


# ------------------------------------------------------------------ images and captions


def match_captions(
    captions: CaptionTable, files: Iterable[str], base: str = ""
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The captions of each file, and the images named that are not among the files.

    Args:
        captions: By what a table calls the images.
        files: Paths below the folder of images.
        base: The folder of the table, seen from there, with a slash at its end.

    >>> table = CaptionTable({"a.png": ["a dog"], "box/b.png": ["a cat"], "c": ["?"]})
    >>> match_captions(table, ["a.png", "all/box/b.png"])
    ({'a.png': ('a dog',)}, ['box/b.png', 'c'])
    >>> match_captions(CaptionTable({"b.png": ["a cat"]}), ["all/box/b.png"])
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
    captions: CaptionTable,
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
            "captioned image that does not exist",
            "captioned images that do not exist",
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
                f"{advice}."
            )
        notes.append(
            Note("unreadable", f"{count(len(things), one, many)} left out: {listed}.")
        )
    return tuple(notes)
