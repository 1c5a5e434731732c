"""Sentences to learn from: a file of them, a list, or pairs.

    notes.txt     a sentence per line
    table.csv     a column of sentences, such as "sentence" or "text"; so .tsv, .jsonl
                  and .parquet

A second column (``sentence2``, ``paraphrase``) makes pairs, which are taken to mean the
same; with a column of scores as well (``score``, ``similarity``) they are pairs to be
scored by, and each first sentence is learned from alone. A column of classes
(``label``, ``topic``) is for evaluation only.

A sentence is held out by the hash of its text, so the same sentence is never in both
parts. What cannot be read is left out, counted and named by its line.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from ..errors import DataError, SettingError
from ..words import count
from ._label_numbers import set_labels
from ._load_request import Note, Origin, Request, check_unreadable
from ._marks import Mark
from ._paraphrases import WHO_NAMES, paraphrases
from ._recordings import SERIES
from ._row import to_number
from ._sources import Items, Read
from ._split import count_parts, own_parts, split_names, spread
from ._subset import Subset
from ._tables import READERS, Table, open_table
from ._text import Text, explain_unusable

FIRST = (
    *("sentence", "sentence1", "sentence_1", "text", "text1", "texts", "sentences"),
    *("anchor", "query", "question", "title", "caption", "content", "body"),
)
SECOND = ("sentence2", "sentence_2", "text2", "paraphrase", "positive")
LABELS = ("label", "labels", "class", "category", "topic", "intent")
SCORES = ("score", "similarity", "similarity_score", "relatedness")
MUCH_CUT = 0.02  # a note says so where more sentences than this are cut off
LOOKED_AT = 1000  # sentences


@dataclass
class Lines:
    """Sentences as they were found, and by line why others cannot be read."""

    first: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    n_train: int | None = None
    """How many are to be learned from, those after them being the test part; None
    where the data have no parts of their own."""

    def add(self, place: str, texts: Sequence[Any], label: Any, score: Any) -> None:
        """One line, or the reason why it is left out."""
        why = next(filter(None, map(explain_unusable, texts)), None)
        if why is None and score is not None:
            score = to_number(score)
            why = "its score is not a number" if math.isnan(score) else None
        if why is None and label is not None and not str(label).strip():
            why = "it has no label"
        if why is not None:
            self.broken[place] = why
            return
        for column, text in zip((self.first, self.second), texts, strict=False):
            column.append(text.decode() if isinstance(text, bytes) else text)
        if label is not None:
            self.labels.append(label)
        if score is not None:
            self.scores.append(score)


class Sentences(Items):
    """Sentences of one kind, and the second of each pair where they are pairs."""

    def __init__(self, lines: Lines, name: str, request: Request) -> None:
        self.texts, self.lines, self.request = lines.first, lines, request
        self.title = name
        set_labels(self, lines.labels or None, name)
        if lines.second:
            self.other = Others(self)
        if lines.scores:
            self.scores = torch.tensor(lines.scores)

    @cached_property
    def kind(self) -> Text:  # type: ignore[override]
        """As told, or with a tokenizer trained on the training part."""
        if isinstance(self.request.known_kind, Text):
            return self.request.known_kind
        one = len(self.texts) < 2  # which cannot be split
        part = replace(self.request, split="all" if one else "train")
        rows, _ = self.split(part)
        second = self.lines.second
        texts = [self.texts[i] for i in rows] + [second[i] for i in rows if second]
        return Text.fit(texts, tokenizer=self.request.tokenizer)

    def split(self, request: Request) -> tuple[list[int], int]:
        """The rows of a part, and how many are held out in all."""
        return split_names(
            self.texts,
            request,
            self.title,
            labeled=self.labeled or self.other is not None,
            word="sentence",
            parts=own_parts(self.lines.n_train, len(self)),
        )

    def __len__(self) -> int:
        return len(self.texts)

    def name(self, i: int) -> str:
        """A sentence is what it is called, on one line."""
        return " ".join(self.texts[i].split())

    def read(self, i: int) -> tuple[Int64[Tensor, " length"], int]:
        """The tokens of sentence i and its label."""
        return self.kind.read(self.texts[i]), self.label(i)


class Others(Items):
    """The second sentence of each pair."""

    def __init__(self, firsts: Sentences) -> None:
        self.firsts = firsts

    @property
    def kind(self) -> Text:  # type: ignore[override]
        """As the first ones."""
        return self.firsts.kind

    def __len__(self) -> int:
        return len(self.firsts)

    def read(self, i: int) -> tuple[Int64[Tensor, " length"], int]:
        """The tokens of the second sentence of pair i."""
        return self.kind.read(self.firsts.lines.second[i]), self.label(i)


def are_sentences(data: Any, request: Request) -> bool:
    """Whether data are a file or a list of sentences, or pairs of them.

    >>> are_sentences(["a b", "c d"], Request()), are_sentences([1, 2], Request())
    (True, False)
    """
    if request.kind_name not in ("", Text.name):
        return False
    if isinstance(data, str | Path):
        path = Path(data).expanduser()
        return path.suffix.lower() in READERS and path.is_file()
    first = take_labels(data)[0]
    return (
        isinstance(first, list | tuple)
        and len(first) > 0
        and isinstance(first[0][0] if is_row(first[0]) else first[0], str | bytes)
    )


def read_sentences(data: Any, request: Request) -> Read:
    """One part of a file or a list of sentences."""
    if isinstance(data, str | Path):
        path = Path(data).expanduser()
        lines = read_file(path, request.text_column)
        name, parent = path.name, path.resolve().parent.name
    else:
        name, parent = "the sentences", ""
        texts, labels = take_labels(data)
        lines = read_list(texts, labels)
    return read_lines(lines, name, parent, request)


def read_paraphrases(request: Request) -> Read:
    """The generated corpus: paraphrases to train on, scored pairs to test on."""
    n_train, n_test = count_parts(request, 6000, 1200, one_in=6)
    lines = Lines()
    pairs = paraphrases(n_train, seed=request.seed)
    pairs += paraphrases(n_test, split="test", seed=request.seed)
    for k, pair in enumerate(pairs):
        score = None if request.split == "train" else pair.score
        lines.add(f"pair {k}", pair[:2], WHO_NAMES[pair.who], score)
    # one tokenizer for all parts and sizes
    usual = paraphrases(2000, seed=0)
    kind = request.known_kind
    if not isinstance(kind, Text):
        texts = [text for pair in usual for text in pair[:2]]
        kind = Text.fit(texts, tokenizer=request.tokenizer)
    items = Sentences(lines, "paraphrases", replace(request, kind=kind))
    return Read("paraphrases", items, parallel=False)


def read_lines(lines: Lines, name: str, parent: str, request: Request) -> Read:
    """Some of the lines, as asked for."""
    n = len(lines.first) + len(lines.broken)
    if not n:
        raise DataError(f"{name} has no sentence: give at least two.")
    most = request.max_bad_fraction
    check_unreadable(name, lines.broken, n, most, word="sentence")
    n, different = len(lines.first), len({*lines.first})
    if request.split == "train" and n > different == 1:
        raise DataError(
            f"All {n} sentences of {name} are the same, but contrast needs different "
            "ones: add others."
        )
    items = Sentences(lines, name, request)
    rows, n_held_out = items.split(request)
    part = Subset(items, rows) if len(rows) < len(items) else items
    own_test = lines.n_train is not None
    origin = Origin(mark_lines(lines), parent, n_held_out, own_test=own_test)
    notes = lines.notes
    if request.split == "train" and request.known_kind is None:
        notes += note_cut(items)
    return Read(name, part, lines.broken, notes, parallel=False, origin=origin)


def read_file(path: Path, text_column: str | None) -> Lines:
    """All lines of a file; ``text_column``: one of sentences, or two of pairs."""
    advice = ""
    if path.suffix.lower() in SERIES:
        advice = (
            " To learn from values in time, use --method cpc; from rows of a table, "
            "--method scarf."
        )
    return read_tables([open_table(path)], text_column, advice=advice)


def read_tables(
    tables: Sequence[Table],
    text_column: str | None,
    *,
    label: str | None = None,
    advice: str = "",
) -> Lines:
    """All lines of a table; of two, the second is the test part.

    Args:
        tables: With the same columns.
        text_column: One column of sentences, or two of pairs.
        label: The column of classes; "" is none, None the one of a usual name.
        advice: For who has no column of sentences.
    """
    lines = Lines()
    for table in tables:
        if table is not tables[0]:
            lines.n_train = len(lines.first)
        add_table(lines, table, text_column, label, advice)
    return lines


def add_table(
    lines: Lines,
    table: Table,
    text_column: str | None,
    told_label: str | None,
    advice: str,
) -> None:
    """Add the lines of a table to others."""
    told_first, _, told_second = (text_column or "").partition(",")
    if "," in told_second:
        raise SettingError(
            "text_column names at most two columns, those of the first and the second "
            f"sentences: got {text_column!r}."
        )
    flag = "--text-column"
    first = FIRST, told_first or None, "sentences", flag
    columns = [table.require_column(*first, advice=advice)]
    second = table.find_column(SECOND)
    if told_second:
        wanted = "the second sentences"
        second = table.require_column((), told_second, wanted, flag)
    elif text_column:  # one column, by name: no pairs were asked for
        second = None
    if second is not None:
        columns.append(second)
    label = table.find_column(LABELS, told_label)
    score = table.find_column(SCORES) if second is not None else None
    for place, cells in table:
        texts = [cells[k] for k in columns]
        lines.add(
            place,
            texts,
            None if label is None else "" if cells[label] is None else cells[label],
            None if score is None else "" if cells[score] is None else cells[score],
        )
    lines.broken = table.broken | lines.broken
    lines.notes = describe_columns(table.names, columns, label, score)
    if table.n_blank:
        what = count(table.n_blank, "empty line was", "empty lines were")
        lines.notes += (Note("left out", f"{what} left out."),)


def describe_columns(
    names: Sequence[str], columns: Sequence[int], label: int | None, score: int | None
) -> tuple[Note, ...]:
    """What each column that is used was taken for."""
    if len(names) < 2:
        return ()
    texts = " and ".join(repr(names[k]) for k in columns)
    taken = [f"sentences from {texts}"]
    if len(columns) == 2 and score is None:
        taken[0] += ", two that mean the same"
    if score is not None:
        taken.append(f"how alike they are from {names[score]!r}")
    if label is not None:
        taken.append(f"classes from {names[label]!r}")
    return (Note("size", f"Columns: {', '.join(taken)}."),)


def read_list(texts: Iterable[Any], labels: Any) -> Lines:
    """Sentences, pairs (first, second) or scored pairs (first, second, score)."""
    rows: list[Sequence[Any]] = [row if is_row(row) else (row,) for row in texts]
    width = len(rows[0])
    if width > 3:
        raise DataError(
            "Sentences come one by one, as pairs (first, second), or as scored pairs "
            f"(first, second, score): got rows of {width}."
        )
    given = labels if labels is None or isinstance(labels, list) else list(labels)
    if given is not None and len(given) != len(rows):
        raise DataError(
            f"There are {len(rows)} sentences and {len(given)} labels: give one label "
            "for each sentence."
        )
    lines = Lines()
    for k, row in enumerate(rows):
        place, label = f"sentence {k}", None if given is None else given[k]
        if len(row) != width:
            lines.broken[place] = f"a row of {len(row)} instead of {width}"
        else:
            lines.add(place, row[:2], label, row[2] if width == 3 else None)
    return lines


def take_labels(data: Any) -> tuple[Any, Any]:
    """Sentences and their labels, if they are given as (sentences, labels)."""
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], list):
        return data[0], data[1]
    return data, None


def is_row(value: Any) -> bool:
    """Whether this is a pair, or a scored one."""
    return isinstance(value, list | tuple) and len(value) > 0


def mark_lines(lines: Lines) -> str:
    """A short mark of all sentences, and one of all labels and scores."""
    mark = Mark()
    for column in (lines.first, lines.second):
        mark.add("\0".join(column), b"\1")
    if known := [*map(str, lines.labels), *map(str, lines.scores)]:
        mark.add_labels("\0".join(known))
    return str(mark)


def note_cut(items: Sentences) -> tuple[Note, ...]:
    """A word where many sentences are longer than what is read of them."""
    some = [items.texts[i] for i in spread(len(items), LOOKED_AT)]
    cut = sum(map(items.kind.is_cut, some)) / len(some)
    if cut < MUCH_CUT:
        return ()
    return (
        Note(
            "size",
            f"About {100 * cut:.0f} % of the sentences are longer than "
            f"{items.kind.length} tokens: the rest of them is cut off.",
        ),
    )
