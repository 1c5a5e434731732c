"""``labels.csv`` in a folder of images: which classes each image shows.

    file,person,dog
    park.jpg,1,1
    more/street.jpg,1,0

The first column is called file and names an image below the folder; the others are
classes, 1 where the image shows the class and 0 where not. Every image has a line. Such
a file goes before class folders; a labels.csv of another kind is left alone.
"""

import csv
from pathlib import Path

from ..errors import DataError
from ..words import count
from ._load_request import compose, show_path, spell_path

LABEL_FILE = "labels.csv"


def is_label_file(path: Path) -> bool:
    """Whether it is called so and begins with a column of files and two classes."""
    if path.name != LABEL_FILE or not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        head = next(csv.reader(file), [])
    return len(head) > 2 and head[0].strip().lower() == "file"


def read_label_file(
    path: Path, files: list[str]
) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]]]:
    """The classes, and for each of these files a 0 or 1 per class."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        head, *lines = csv.reader(file)
    names = tuple(name.strip() for name in head[1:])
    tags: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(lines, 2):
        if not line:
            continue
        values = tuple(value.strip() for value in line[1:])
        if len(values) != len(names) or not {*values} <= {"0", "1"}:
            raise DataError(
                f"Line {number} of {str(path)!r} needs a file and {len(names)} numbers "
                f"that are 0 or 1: got {','.join(line)!r}."
            )
        tags[spell_path(line[0])] = tuple(map(int, values))
    missing = [name for name in files if compose(name) not in tags]
    if missing:
        are = count(len(missing), "image is", "images are")
        raise DataError(
            f"{are} not in {str(path)!r}, the first is {show_path(missing[0])}: give "
            "each a line, all 0 where it shows none of the classes."
        )
    return names, {name: tags[compose(name)] for name in files}
