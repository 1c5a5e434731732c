"""Embeddings as .csv: columns name, label, class, f0, f1, ...; nine digits a number.

Nine digits give every float32 back exactly. A CSV file cannot say which encoder made
it, so a search can only compare widths.
"""

import csv
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from ..errors import DataError
from ._embeddings import About, Rows

BLOCK = 1024


def write(path: Path, about: About, rows: Callable[[], Iterator[Rows]]) -> None:
    """All rows, one line each; a name with a comma or a line break is quoted."""
    header = ["name", *(["label", "class"] if about.labelled else [])]
    form = ",".join(["%.9g"] * about.width)
    with path.open("w", encoding="utf-8", newline="") as file:
        columns = (f"f{k}" for k in range(about.width))
        file.write(",".join([*header, *columns]) + "\n")
        for r in rows():
            for name, label, row in zip(r.names, r.labels, r.features, strict=True):
                k = int(label)
                told = [str(k) if k >= 0 else "", about.word(k)]
                words = [quoted(w) for w in [name, *told[: 2 * about.labelled]]]
                file.write(",".join([*words, form % tuple(row.tolist())]) + "\n")


def quoted(text: str) -> str:
    """A field as CSV wants it.

    >>> print(quoted('a,"b".png'))
    "a,""b"".png"
    """
    if any(c in text for c in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def read(path: Path) -> tuple[About, Callable[[], Iterator[Rows]]]:
    """What the header and the lines say, and the rows by the block."""
    wrong = DataError(
        f"{str(path)!r} is not a file of embeddings: expected the columns name, f0, "
        "f1, ... that 'invariance embed' writes."
    )
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file)
            header = next(lines, [])
            words: dict[int, str] = {}
            labelled = "label" in header
            n = 0
            for line in lines:
                n += 1
                if labelled and line[1]:
                    words[int(line[1])] = line[2]
    except (OSError, ValueError, IndexError, csv.Error):
        raise wrong from None
    first = 3 if labelled else 1
    width = len(header) - first
    if header[:1] != ["name"] or header[first:] != [f"f{k}" for k in range(width)]:
        raise wrong
    names = tuple(words.get(k, str(k)) for k in range(max(words, default=-1) + 1))
    about = About(n, width, labelled, class_names=names)

    def rows() -> Iterator[Rows]:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file)
            next(lines)
            while some := list(islice(lines, BLOCK)):
                labels = [int(s[1]) if labelled and s[1] else -1 for s in some]
                try:
                    numbers = np.array([s[first:] for s in some], np.float32)
                except ValueError:
                    raise wrong from None
                yield Rows([s[0] for s in some], np.array(labels), numbers)

    return about, rows
