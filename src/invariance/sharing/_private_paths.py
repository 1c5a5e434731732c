"""What must not leave this machine: where its files are.

Of a path only the last name is shared. Settings that are places are cut to it, and so
is every other text that looks like a path from the root. A last look goes through the
files themselves.
"""

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from ..errors import InvarianceError

PLACES = {"data", "data_root", "captions", "start_from", "resume", "out", "assignment"}
WEIGHTS = ".safetensors"


def last_name(place: object) -> str:
    r"""What a folder or file is called, wherever it is.

    >>> last_name("/home/ada/photos/"), last_name("C:\\ada\\photos"), last_name("x")
    ('photos', 'photos', 'x')
    """
    return PureWindowsPath(str(place)).name or str(place)  # takes both kinds of slashes


def cut_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings, however they are nested, with last names only.

    >>> cut_paths({"data": "a/b", "encoder": "timm/x", "optim": {"name": "~/c/d"}})
    {'data': 'b', 'encoder': 'timm/x', 'optim': {'name': 'd'}}
    """

    def cut(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return cut_paths(value)
        if isinstance(value, list | tuple):
            return [cut(name, one) for one in value]
        if isinstance(value, str) and (name in PLACES or is_rooted(value)):
            return last_name(value)
        return value

    return {str(name): cut(str(name), value) for name, value in settings.items()}


def is_rooted(text: str) -> bool:
    """Whether a text says where something is on this machine.

    >>> is_rooted("/data/x"), is_rooted("~/x"), is_rooted("D:/x"), is_rooted("timm/x")
    (True, True, True, False)
    """
    return text.startswith(("/", "~", "\\")) or bool(PureWindowsPath(text).drive)


def refuse_paths(folder: Path, places: Iterable[object]) -> None:
    """Raise if a file tells one of these places; of weights, what they say is read."""
    words = {str(place) for place in places if place}
    words = {word for word in words if is_rooted(word) and len(word) > 1}
    for path in sorted(folder.iterdir()):
        text = read_words(path)
        for word in words:
            # as JSON and YAML write it, too
            if any(form in text for form in (word, json.dumps(word)[1:-1])):
                raise InvarianceError(
                    f"{path.name} would tell others that you have {word!r}: nothing "
                    "was shared. Rename whatever has this name in the settings of "
                    "the run."
                )


def read_words(path: Path) -> str:
    """A text file, or the head of a file of weights."""
    with path.open("rb") as file:
        data = file.read() if path.suffix != WEIGHTS else read_head(file)
    return data.decode("utf-8", errors="replace")


def read_head(file: Any) -> bytes:
    """What a .safetensors file says before its numbers."""
    (length,) = struct.unpack("<Q", file.read(8))
    head: bytes = file.read(length)
    return head
