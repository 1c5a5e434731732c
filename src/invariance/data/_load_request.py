"""What ``load`` is asked for, and what it says about the data. No torch is needed.

Images that cannot be read are counted and named, and too many of them are an error.
"""

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from ..errors import DataError, SettingError
from ..plain_numbers import check_least

MOST_NAMED = 20
MOST_RESIDENT = 16 << 30  # bytes of images that are ever kept in memory


@dataclass(frozen=True)
class Note:
    """Something to know about the data; ``str(note)`` is the sentence for a log.

    >>> note = Note("size", "image_size=32 was chosen.")
    >>> note.kind, str(note)
    ('size', 'image_size=32 was chosen.')
    """

    kind: Literal["left out", "unreadable", "size", "storage"]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Origin:
    """Which data some images are a part of."""

    fingerprint: str = ""
    """The same for the same data wherever they lie, a plus sign before what depends on
    the labels alone; empty where nobody knows."""
    parent: str = ""
    """What the folder around them is called."""
    n_held_out: int | None = None
    """How many images of the test part there are; None where the data have a test part
    of their own that was not counted."""
    own_test: bool = True
    """Whether the data come with a test part."""
    classes_by: str = ""
    """Where classes come from: "folder" or "label"; empty where there are none, or
    where they were not read."""


@dataclass(frozen=True)
class Request:
    """What ``load`` is asked for, for the reader of each kind of data."""

    split: str = "train"
    image_size: int | None = None
    channels: int | None = None
    n: int | None = None
    data_root: str | Path | None = None
    seed: int = 0
    max_bad_fraction: float = 0.2
    labels: bool = True
    hold_out: str = "auto"
    tokenizer: Any = None
    """That of sentences, where it is not to be trained on them."""
    window: int | None = None
    """Values of time in a window of a sequence."""
    stride: int | None = None
    """Values of time from one window to the next."""
    time_column: str | None = None
    """The column of a table that has the times."""
    text_column: str | None = None
    """The column of a table that has the sentences; two, with a comma, are pairs."""
    target: str | None = None
    """The column of a table that has the classes or numbers, never learned from."""
    columns: tuple[str, ...] = ()
    """The columns of a table to learn from; none are all but the target."""
    kind: Any = None
    """The name of a kind of sample, or the kind itself; None: as the data look."""
    captions: str | Path | None = None
    """A file of captions, or "" for the one that the data come with; None: no captions
    are asked for."""
    image_column: str | None = None
    other_kind: Any = None
    """How the other side of pairs was read before, as of a test part."""

    @property
    def kind_name(self) -> str:
        """What the kind is called; empty where the data decide."""
        return getattr(self.kind, "name", self.kind) or ""

    @property
    def known_kind(self) -> Any:
        """The kind itself where it is known already, as of a test part."""
        return None if isinstance(self.kind, str) else self.kind


def check_shape(image_size: int | None, channels: int | None) -> None:
    """Refuse images that nobody can make."""
    check_least("image_size", image_size, 1)
    if channels not in (None, 1, 3):
        raise SettingError(f"channels is 1 (gray) or 3 (color): got {channels}.")


def find_data_root(asked: str | Path | None = None) -> Path:
    """Where named sets and packed copies are kept."""
    root = asked or os.environ.get("INVARIANCE_DATA") or "~/.cache/invariance"
    return Path(root).expanduser()


def explain_unreadable(error: BaseException) -> str:
    """A few words for why an image could not be read, to stand in brackets.

    >>> explain_unreadable(ValueError("Could be an attack."))
    'Could be an attack'
    """
    from PIL import UnidentifiedImageError  # not by those who open no image

    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    text = error.strerror if isinstance(error, OSError) else None
    text = " ".join(str(text or error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."


def show_path(path: str) -> str:
    """A path that any terminal can print, whatever bytes the file system holds."""
    return os.fsencode(path).decode("utf-8", "replace")


def compose(name: str) -> str:
    r"""A name with its accents composed, as not every file system keeps them.

    >>> compose("e\u0301") == "\u00e9"
    True
    """
    return unicodedata.normalize("NFC", name)


def spell_path(path: str) -> str:
    r"""A path as somebody wrote it into a file, spelled as those of a folder are.

    >>> spell_path(r"box\a.png "), spell_path("./a.png")
    ('box/a.png', 'a.png')
    """
    return compose(PurePosixPath(path.strip().replace("\\", "/")).as_posix())


def describe_unreadable(
    unreadable: dict[str, str], fate: str, kind: Any = None
) -> tuple[str, ...]:
    """One sentence per word of the kind: it counts and names what is unreadable.

    >>> describe_unreadable({"a.png": "empty file"}, "left out")
    ('1 unreadable image was left out: a.png (empty file).',)
    """
    groups: dict[str, list[str]] = {}
    for path, why in unreadable.items():
        word = "image" if kind is None else kind.word_for(path)
        word = "folder" if path.endswith("/") else word  # with all that it holds
        groups.setdefault(word, []).append(f"{show_path(path)} ({why})")
    sentences = []
    for word, names in groups.items():
        n = len(names)
        more = f" and {n - MOST_NAMED} more" if n > MOST_NAMED else ""
        were = f"{word} was" if n == 1 else f"{word}s were"
        listed = ", ".join(names[:MOST_NAMED])
        sentences.append(f"{n} unreadable {were} {fate}: {listed}{more}.")
    return tuple(sentences)


def note_unreadable(
    unreadable: dict[str, str], fate: str, kind: Any
) -> tuple[Note, ...]:
    """The same as notes."""
    sentences = describe_unreadable(unreadable, fate, kind)
    return tuple(Note("unreadable", sentence) for sentence in sentences)


def check_unreadable(
    name: str,
    unreadable: dict[str, str],
    n: int,
    max_bad_fraction: float,
    *,
    at_least: int = 20,
    word: str = "image",
) -> None:
    """Raise when too many of n samples cannot be read.

    Of fewer than ``at_least`` samples a share says little: then only a set without any
    readable one is an error.
    """
    n_bad = len(unreadable)
    tolerable = n_bad <= max_bad_fraction * n or (n_bad < n < at_least)
    if not n_bad or tolerable:
        return
    path, why = next(iter(unreadable.items()))
    first = f"the first is {show_path(path)} ({why})"
    if n == 1:
        word = "folder" if path.endswith("/") else word
        raise DataError(
            f"The only {word} of {name}, {show_path(path)}, cannot be read ({why})."
        )
    if n_bad >= n:
        raise DataError(
            f"None of the {n} {word}s of {name} can be read; {first}: "
            "check how the files were made and copied."
        )
    raise DataError(
        f"{n_bad} of the {n} {word}s of {name} cannot be read, more than "
        f"max_bad_fraction={max_bad_fraction:g} allows; {first}: fix or remove them."
    )
