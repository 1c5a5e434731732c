"""Images with captions: pairs whose first side is an image and whose other is text.

They come from a folder with a file of captions, from encoded images that have any
(shards, data sets), or are generated. Captions
are read only where they are asked for (``request.captions``); otherwise the same data
are images like any others. The part to be scored on is held out by image, so that all
captions of an image are on one side.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from ..errors import DataError
from ._captioned_shapes import NAMES, CaptionedShapes
from ._captions import (
    CaptionTable,
    find_caption_file,
    judge_captions,
    match_captions,
    read_caption_file,
)
from ._file_items import Files
from ._folder import Walk, find_images, walk_folder
from ._generated import count_parts
from ._kind import Kind
from ._load_request import Note, Request
from ._sources import Items, Listed, Read
from ._text import Text

MOST_CAPTIONS = 16  # of one image that are used
NO_CAPTION = -1  # in place of every token of a caption that an image does not have


class Captions(Kind):
    """Several sentences about one thing, of which a view shows one.

    Args:
        text: How a sentence is read.
        most: Sentences per sample; those that one has not are NO_CAPTION throughout.

    >>> captions = Captions(Text.fit(["a dog", "a cat"]), most=2)
    >>> tokens = captions.read(["a dog"])
    >>> tokens.shape, captions.show(tokens)
    (torch.Size([2, 16]), 'a dog')
    """

    name = "captions"
    word = "caption"
    baseline = "bag of words"
    dtype = torch.long
    views = "one_caption"

    def __init__(self, text: Text | Mapping[str, Any], most: int) -> None:
        if not isinstance(text, Text):
            text = Text(**{k: v for k, v in text.items() if k != "name"})
        super().__init__((most, text.length))
        self.text, self.most = text, most
        self.encoder = text.encoder

    @property
    def seen(self) -> Text:
        """One sentence."""
        return self.text

    @property
    def shape_words(self) -> str:
        """The length of one in sentences to people, and how many there are."""
        each = f", {self.most} of each image at most" if self.most > 1 else ""
        return f"{self.text.shape_words}{each}"

    def read(self, raw: Any) -> Int64[Tensor, "most length"]:
        """A sentence, or the first few of several."""
        several = [raw] if isinstance(raw, str) else list(raw)[: self.most]
        if not several:
            raise DataError("no caption")
        tokens = torch.full(self.shape, NO_CAPTION)
        tokens[: len(several)] = torch.stack([self.text.read(one) for one in several])
        return tokens

    def plain(self, batch: Int64[Tensor, "n most length"]) -> Float[Tensor, "n e"]:
        """A bag of the words of all sentences."""
        n, most, length = batch.shape
        present = (batch[:, :, :1] != NO_CAPTION).float()
        rows = batch.masked_fill(batch == NO_CAPTION, self.text.pad).view(-1, length)
        return (self.text.plain(rows).view(n, most, -1) * present).sum(1)

    def show(self, sample: Int64[Tensor, "..."]) -> str:
        """All sentences, or the one of a view."""
        rows = sample.view(-1, sample.shape[-1])
        return " / ".join(self.text.show(row) for row in rows if row[0] != NO_CAPTION)

    def describe(self) -> dict[str, Any]:
        """How a sentence is read, and how many there are."""
        return {"name": self.name, "text": self.text.describe(), "most": self.most}


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


# ------------------------------------------------------------------ a folder of images


def read_captioned_folder(root: Path, request: Request) -> Read:
    """The images of one part, those without captions left out."""
    table_path = find_table(root, request)
    table = read_caption_file(table_path, request.image_column, request.text_column)
    walk = walk_folder(root)
    n_images = len(walk.files)
    captions, strangers = match_captions(table, walk.files, base_of(table_path, root))
    alone = [path for path in walk.files if path not in captions]
    notes = judge_captions(
        table,
        strangers,
        alone,
        n_images,
        name=repr(str(root)),
        max_bad_fraction=request.max_bad_fraction,
    )
    leave_out(walk, alone, table_path, root)
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
    path_there = find_caption_file(root)
    if path_there is None:
        raise DataError(
            f"The folder {str(root)!r} has no captions.csv, captions.jsonl or "
            "captions.parquet: put one there, or name the file with --captions."
        )
    return path_there


def base_of(table: Path, root: Path) -> str:
    """The folder of a table as paths below the folder of images begin."""
    parent, root = table.resolve().parent, root.resolve()
    inside = parent != root and parent.is_relative_to(root)
    return f"{parent.relative_to(root).as_posix()}/" if inside else ""


def leave_out(walk: Walk, alone: list[str], table: Path, root: Path) -> None:
    """Take images without a caption, and the table itself, out of what was found."""
    without = {*alone}
    walk.files = [path for path in walk.files if path not in without]
    if table.resolve().is_relative_to(root.resolve()):
        walk.others[table.suffix.lower()] -= 1
        walk.others += type(walk.others)()  # drops what there is none of


def score_by_captions(request: Request) -> Request:
    """A tenth is held out, labels or not: partners can be looked for."""
    held = "tenth" if request.hold_out == "auto" else request.hold_out
    return dataclasses.replace(request, hold_out=held)


def match_exactly(
    table: CaptionTable, names: list[str]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The captions by image, and what has captions and no image."""
    known = {*names}
    captions = {name: tuple(table.of[name]) for name in names if name in table.of}
    return captions, [name for name in table.of if name not in known]


# --------------------------------------------------------------------------- generated


def read_captioned_shapes(request: Request) -> Read:
    """One part of the generated set; "all" is six sevenths train, then test."""
    if request.channels == 1:
        raise DataError("captioned_shapes is told apart by color: use 3 channels.")
    size = request.image_size or 32
    counts = count_parts(request, 6000, 1000, one_in=7)
    items = CaptionedShapes(*counts, size=size, seed=request.seed)
    if request.captions is not None:
        sentences = [items.captions(i) for i in range(len(items))]
        add_captions(items, sentences, request)
        assert items.other is not None
        items.other.labels = torch.from_numpy(items.combinations)
        items.other.class_names = NAMES
    return Read("captioned_shapes", items)
