"""What the columns of a data set of Hugging Face are: images, sentences or a table.

A column of images goes first, then one that is called as sentences are, then numbers.
Classes are those of a column called label, else of the first that the set itself calls
one of classes (a ClassLabel), or of the one that ``target`` names.

Rows stay where they are, mapped from the disk, and an image is decoded by ourselves
when it is its turn, so that a broken one costs one.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import DataError
from ._captions import TEXTS, CaptionTable
from ._encoded import EncodedFiles, EncodedSet, read_encoded
from ._hugging_face import (
    HubSet,
    describe_features,
    import_library,
    open_hub,
    require_hub_column,
)
from ._kind import Image
from ._load_request import Note, Request
from ._marks import Mark
from ._row import Row, clean, to_category, to_number
from ._sentences import FIRST, LABELS, read_lines, read_tables
from ._sources import Read
from ._split import spread
from ._table_rows import TARGETS, Cells, explain_no_classes, read_cells
from ._tables import Line, Table
from ._text import Text

IMAGES = ("image", "img", "picture", "photo", "pixel_values", "jpg", "png")
CLASSES = tuple(dict.fromkeys((*LABELS, *TARGETS, "fine_label", "cls")))
MARKED = 256  # rows that stand for all
TAKEN = frozenset({"target", "image_column"})  # settings that these data know


@dataclass(frozen=True)
class Columns:
    """The names of the columns by what they hold, in their order."""

    images: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    """Of texts."""
    numbers: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def plain(self) -> tuple[str, ...]:
        """Those that a table can have."""
        return (*self.texts, *self.numbers, *self.classes)


def sort_columns(features: Mapping[str, Any]) -> Columns:
    """What each column holds; lists of other things than texts count as nothing."""
    library = import_library("a data set")
    groups: dict[str, list[str]] = {}
    for name, feature in features.items():
        several = feature if isinstance(feature, list) else None
        inner = several[0] if several else getattr(feature, "feature", feature)
        dtype = str(getattr(inner, "dtype", ""))
        if isinstance(feature, library.Image):
            groups.setdefault("images", []).append(name)
        elif isinstance(feature, library.ClassLabel):
            groups.setdefault("classes", []).append(name)
        elif isinstance(inner, library.Value) and "string" in dtype:
            group = "texts" if inner is feature else "lists"
            groups.setdefault(group, []).append(name)
        elif isinstance(feature, library.Value) and is_number(dtype):
            groups.setdefault("numbers", []).append(name)
    return Columns(**{group: tuple(names) for group, names in groups.items()})


def is_number(dtype: str) -> bool:
    """Whether values of this type are numbers.

    >>> is_number("int64"), is_number("bool"), is_number("timestamp[s]")
    (True, True, False)
    """
    return dtype.startswith(("int", "uint", "float", "bool", "decimal"))


def read_hub(data: Any, request: Request) -> Read:
    """One part of a data set, as what its columns are or what is asked for."""
    hub = open_hub(data)
    columns = sort_columns(hub.features)
    reader = choose_reader(hub, columns, request)
    return replace(reader(hub, columns, request), takes=TAKEN)


def choose_reader(
    hub: HubSet, columns: Columns, request: Request
) -> Callable[[HubSet, Columns, Request], Read]:
    """What reads such columns, or is asked for."""
    kind = request.kind_name
    as_images = bool(columns.images) or asks_for_images(request)
    if kind == Image.name or (not kind and as_images):
        return read_hub_images
    if kind == Text.name or (not kind and request.text_column):
        return read_hub_sentences
    if kind == Row.name or (not kind and request.columns):
        return read_hub_table
    if not kind and has_sentences(columns):
        return read_hub_sentences
    if not kind and columns.plain:
        return read_hub_table
    what = f"for samples of the kind {kind}" if kind else "of images, texts or numbers"
    raise DataError(
        f"{hub.title} has no column {what}: it has {describe_features(hub)}."
    )


def asks_for_images(request: Request) -> bool:
    """Whether a setting speaks of images."""
    return request.captions is not None or request.image_column is not None


def has_sentences(columns: Columns) -> bool:
    """Whether a column is called as sentences are, or is the only one that can be."""
    usual = any(name.lower() in FIRST for name in columns.texts)
    return usual or (len(columns.texts) == 1 and not columns.numbers)


def have_hub_captions(data: Any) -> bool:
    """Whether images come with texts."""
    columns = sort_columns(open_hub(data).features)
    return bool(columns.images and (columns.texts or columns.lists))


# ------------------------------------------------------------------------------ images


class HubImages(EncodedFiles):
    """A column of images, that of one split after that of the other."""

    def __init__(self, hub: HubSet, column: str) -> None:
        library = import_library(hub.title)
        self.column, self.names = column, [name for name, _ in hub.splits]
        self.splits = [
            split.with_format(None)
            .select_columns([column])
            .cast_column(column, library.Image(decode=False))
            for _, split in hub.splits
        ]

    def __len__(self) -> int:
        return sum(map(len, self.splits))

    def find(self, i: int) -> tuple[int, int]:
        """The split that image i is in, and its number there."""
        n = len(self.splits[0])
        return (0, i) if i < n else (1, i - n)

    def name(self, i: int) -> str:
        """Its split and its number there."""
        split, k = self.find(i)
        return f"{self.names[split]}/{k}"

    def read(self, i: int) -> bytes | Path:
        """Its bytes, or where the file lies that the set points at."""
        split, k = self.find(i)
        cell = self.splits[split][k][self.column] or {}
        if cell.get("bytes"):
            return bytes(cell["bytes"])
        if cell.get("path"):
            return Path(cell["path"])
        raise DataError("no image in this row")

    def mark(self) -> Mark:
        """The same for the same images: how many there are, and some of them."""
        mark = Mark()
        mark.add(repr([len(split) for split in self.splits]))
        for i in spread(len(self), MARKED):
            try:
                content = self.read(i)
                content = (
                    content if isinstance(content, bytes) else content.read_bytes()
                )
            except (DataError, OSError):
                content = b"unreadable"
            mark.add(hashlib.blake2b(content, digest_size=8).digest())
        return mark


def read_hub_images(hub: HubSet, columns: Columns, request: Request) -> Read:
    """Images, with captions where they are asked for."""
    column = choose_image_column(hub, columns, request.image_column)
    files, taken = HubImages(hub, column), [f"images from {column!r}"]
    captions = None
    if request.captions is not None:
        text = choose_caption_column(hub, columns, request)
        captions = CaptionTable()
        for i, cell in enumerate(read_column(hub, text)):
            captions.add(files.name(i), cell, files.name(i))
        taken.append(f"captions from {text!r}")
    label = choose_label_column(hub, columns, request) if request.labels else None
    labels: list[int | str | None] = []
    if label is not None:
        labels = read_labels(hub, columns, label, required=request.target is not None)
        rivals = [name for name in columns.classes if name != label]
        more = f" (--target {rivals[0]} takes others)" if rivals else ""
        taken.append(f"classes from {label!r}{more if request.target is None else ''}")
    parts: list[str] = []
    if hub.test is not None:
        parts = ["train"] * len(hub.train) + ["test"] * len(hub.test)
    encoded = EncodedSet(
        hub.title,
        files,
        files.mark(),
        parts=parts,
        labels=labels,
        class_names=tuple(getattr(hub.features.get(label or ""), "names", None) or ()),
        classes_by="label" if labels else "",
        captions=captions,
        notes=(*hub.notes, Note("size", f"Columns: {', '.join(taken)}.")),
    )
    return read_encoded(encoded, request)


def choose_image_column(hub: HubSet, columns: Columns, column: str | None) -> str:
    """The column of images: the one told, the only one, or the one of a usual name."""
    if column is not None:
        require_hub_column(hub, column, "the images")
        if column not in columns.images:
            raise DataError(
                f"The column {column!r} of {hub.title} holds no images: it has "
                f"{describe_features(hub)}."
            )
        return column
    if not columns.images:
        raise DataError(
            f"{hub.title} has no column of images: it has {describe_features(hub)}."
        )
    usual = [name for name in columns.images if name.lower() in IMAGES]
    if len(columns.images) > 1 and len(usual) != 1:
        raise DataError(
            f"Which column of {hub.title} has the images? It has "
            f"{', '.join(columns.images)}: name it with --image-column."
        )
    return (usual or columns.images)[0]


def choose_caption_column(hub: HubSet, columns: Columns, request: Request) -> str:
    """The column of captions: the one told, that of a usual name, or the only one."""
    if request.text_column is not None:
        return require_hub_column(hub, request.text_column, "the captions")
    candidates = (*columns.texts, *columns.lists)
    usual = [name for name in candidates if name.lower() in TEXTS]
    if usual or len(candidates) == 1:
        return (usual or candidates)[0]
    raise DataError(
        f"Which column of {hub.title} has the captions? It has "
        f"{describe_features(hub)}: name it with --text-column."
    )


def choose_label_column(hub: HubSet, columns: Columns, request: Request) -> str | None:
    """The column of classes, for evaluation only; None where there is none."""
    if request.target is not None:
        return require_hub_column(hub, request.target, "the classes")
    plain = {name.lower(): name for name in columns.plain}
    usual = [plain[name] for name in CLASSES if name in plain]
    known = [name for name in usual if name in columns.classes]
    return next(iter((*known, *columns.classes, *usual)), None)


def read_labels(
    hub: HubSet, columns: Columns, column: str, *, required: bool
) -> list[int | str | None]:
    """The class of each row, None where it has none; nothing if they are no classes.

    Where one was told to take them, that is an error.
    """
    cells = [*read_column(hub, column)]
    if column not in columns.classes:
        values = [value for value in map(clean, cells) if value is not None]
        if why := explain_no_classes(values):
            if not required:
                return []
            raise DataError(
                f"The target {column!r} {why}, but scores tell classes apart: name a "
                f"column of classes, or use --no-labels. {hub.title} has "
                f"{describe_features(hub)}."
            )
    labels = [to_class(cell) for cell in cells]
    return labels if any(label is not None for label in labels) else []


def to_class(cell: Any) -> int | str | None:
    """A class as a number or a word; None where there is none, or -1 stands for it.

    >>> to_class(3), to_class(2.0), to_class("cat "), to_class(-1), to_class(None)
    (3, 2, 'cat', None, None)
    """
    value = clean(cell)
    if value is None:
        return None
    number = to_number(value)
    if number.is_integer():
        return int(number) if number >= 0 else None
    return to_category(value)


def read_column(hub: HubSet, column: str) -> Iterator[Any]:
    """The cells of a column, of one split after the other."""
    for _, split in hub.splits:
        rows = split.with_format("arrow").select_columns([column])
        for batch in rows.iter(batch_size=1000):
            yield from batch.column(column).to_pylist()


# ----------------------------------------------------------------- sentences and tables


def open_split(hub: HubSet, name: str, split: Any, columns: Columns) -> Table:
    """A split as a table, with classes by their names."""
    names = columns.plain
    spelled = {column: getattr(hub.features[column], "names", None) for column in names}

    def read() -> Iterator[Line]:
        number = 0
        for batch in split.with_format("arrow").select_columns([*names]).iter(1000):
            cells = [spell(batch.column(c).to_pylist(), spelled[c]) for c in names]
            for row in zip(*cells, strict=True):
                yield f"{name} {number}", row
                number += 1

    return Table(Path(hub.title), names, read())


def spell(cells: list[Any], names: list[str] | None) -> list[Any]:
    """Classes by their names, nothing in place of a missing one.

    >>> spell([1, 0, -1], ["no", "yes"]), spell([1.5], None)
    (['yes', 'no', None], [1.5])
    """
    if not names:
        return cells
    return [names[k] if k is not None and k >= 0 else None for k in cells]


def read_hub_sentences(hub: HubSet, columns: Columns, request: Request) -> Read:
    """Sentences, or pairs of them."""
    tables = [open_split(hub, name, split, columns) for name, split in hub.splits]
    text_column = request.text_column
    if text_column is None and len(columns.texts) == 1:
        text_column = columns.texts[0]
    label = choose_label_column(hub, columns, request)
    usual = label is not None and label.lower() in LABELS
    if not usual and label not in columns.classes and request.target is None:
        label = None
    lines = read_tables(tables, text_column, label=label or "")
    lines.notes += hub.notes
    return read_lines(lines, hub.title, "", request)


def read_hub_table(hub: HubSet, columns: Columns, request: Request) -> Read:
    """Rows of numbers and categories."""
    tables = [open_split(hub, name, split, columns) for name, split in hub.splits]
    lines = [line for table in tables for line in table]
    cells = Cells(
        hub.title,
        {name: [row[k] for _, row in lines] for k, name in enumerate(columns.plain)},
        [place for place, _ in lines],
        n_train=None if hub.test is None else len(hub.train),
    )
    target = choose_label_column(hub, columns, request)
    if request.target is None and target not in columns.classes:
        target = None  # then a usual name tells
    part = read_cells(cells, replace(request, target=target))
    return replace(part, notes=(*part.notes, *hub.notes))
