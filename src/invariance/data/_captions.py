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

Captions make pairs of images: the first side is the image, the other its captions. They
are read only where they are asked for (``request.captions``); otherwise the same data
are images like any others. The part to be scored on is held out by image, so that all
captions of an image are on one side.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..words import count
from ._file_items import Files
from ._folder import find_images, walk_folder
from ._load_request import MOST_NAMED, Note, Request, compose, show_path, spell_path
from ._sources import Items, Listed, Read
from ._tables import READERS, open_table
from ._text import Captions, Text, explain_unusable

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
MOST_CAPTIONS = 16  # of one image that are used


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
        name = spell_path(image)
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
    table: CaptionTable,
    captions: Container[str],
    strangers: Iterable[str],
    images: Sequence[str],
    name: str,
    max_bad_fraction: float,
) -> tuple[Note, ...]:
    """What was left out, in notes; too much of it is an error.

    Args:
        table: The captions as they were read.
        captions: The images that have any.
        strangers: Images that have captions and are not there.
        images: All images that are there.
        name: What the data are called.
        max_bad_fraction: How large a part may be left out.
    """
    notes, alone = [], [image for image in images if image not in captions]
    for things, of, one, many, advice in (
        (
            table.broken,
            table.n,
            "caption that cannot be used",
            "captions that cannot be used",
            "Mend them",
        ),
        (
            dict.fromkeys(strangers, ""),
            len(table.of),
            "captioned image that does not exist",
            "captioned images that do not exist",
            "Name images by their paths from the folder",
        ),
        (
            dict.fromkeys(alone, ""),
            len(images),
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


def add_captions(
    items: Items,
    sentences: Sequence[tuple[str, ...]],
    request: Request,
) -> tuple[Note, ...]:
    """Make pairs of images by giving them captions, and say what is left out.

    Tokens are those of the request's text, where the data are another part of some
    that were read before; otherwise a tokenizer is trained on these captions.
    """
    text = getattr(request.other_kind, "seen", request.other_kind)
    if text is None:
        text = Text.fit([one for several in sentences for one in several])
    longest = max((len(several) for several in sentences), default=1)
    kind = Captions(text, min(longest, MOST_CAPTIONS))
    items.other = Listed(sentences, kind)
    if longest <= MOST_CAPTIONS:
        return ()
    of = f"of {MOST_CAPTIONS} captions per image; the longest list has {longest}"
    return (Note("left out", f"Not all captions are used, but the first {of}."),)


# ---------------------------------------------------------------- a folder of images


def read_captioned_folder(root: Path, request: Request) -> Read:
    """The images of one part, those without captions left out."""
    table_path = find_table(root, request)
    table = read_caption_file(table_path, request.image_column, request.text_column)
    walk = walk_folder(root)
    captions, strangers = match_captions(table, walk.files, base_of(table_path, root))
    name, most = repr(str(root)), request.max_bad_fraction
    notes = judge_captions(table, captions, strangers, walk.files, name, most)
    # neither the images without a caption nor the table itself are part of the data
    walk.files = [path for path in walk.files if path in captions]
    if table_path.resolve().is_relative_to(root.resolve()):
        walk.others[table_path.suffix.lower()] -= 1
        walk.others += Counter()  # drops what there is none of
    files = find_images(root, score_by_captions(request), walk)
    items = Files(files)
    notes += add_captions(items, [captions[path] for path in files.paths], request)
    return Read(
        root.resolve().name,
        items,
        files.unreadable,
        (*files.notes, *notes),
        origin=files.origin,
    )


def find_table(root: Path, request: Request) -> Path:
    """The file of captions that was named, or that lies in the folder."""
    if request.captions:
        path = Path(request.captions).expanduser()
        return path if path.exists() or path.is_absolute() else root / path
    if (table := find_caption_file(root)) is not None:
        return table
    raise DataError(
        f"The folder {str(root)!r} has no captions.csv, captions.jsonl or "
        "captions.parquet: put one there, or name the file with --captions."
    )


def base_of(table: Path, root: Path) -> str:
    """The folder of a table as paths below the folder of images begin."""
    parent, root = table.resolve().parent, root.resolve()
    inside = parent != root and parent.is_relative_to(root)
    return f"{parent.relative_to(root).as_posix()}/" if inside else ""


def score_by_captions(request: Request) -> Request:
    """A tenth is held out, labels or not: partners can be looked for."""
    held = "tenth" if request.hold_out == "auto" else request.hold_out
    return replace(request, hold_out=held)


def match_exactly(
    table: CaptionTable, names: list[str]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The captions by image, and what has captions and no image."""
    known = {*names}
    captions = {name: tuple(table.of[name]) for name in names if name in table.of}
    return captions, [name for name in table.of if name not in known]
