"""What went wrong: what was expected, what came, and what to do."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class InvarianceError(ValueError):
    """Any mistake that the caller can fix; the message says how."""


class ShapeError(InvarianceError):
    """A tensor has the wrong number of axes, rows or columns."""


class SettingError(InvarianceError):
    """A setting has a value that cannot work, or an unknown name."""


class NotFiniteError(InvarianceError):
    """Embeddings hold NaN or infinite numbers."""


class DataError(InvarianceError):
    """The data are missing, unreadable or not what their kind promises."""


class TrainingError(InvarianceError):
    """Training cannot start, continue or be resumed."""


def choose(catalogue: Mapping[str, T], name: str, kind: str) -> T:
    """The entry called ``name``, or an error that suggests the nearest one.

    >>> choose({"info_nce": 1, "dcl": 2}, "dcl", "objective")
    2
    >>> choose({"info_nce": 1, "dcl": 2}, "dlc", "objective")
    Traceback (most recent call last):
    invariance.errors.SettingError: Unknown objective 'dlc'. Did you mean 'dcl'?
    """
    if name not in catalogue:
        raise SettingError(unknown(kind, name, catalogue))
    return catalogue[name]


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """The sentence for a name that is not in a list of names."""
    known = sorted(known)
    hint = suggest(name, known) or f"Known: {', '.join(known)}."
    return f"Unknown {kind} {name!r}. {hint}"


def suggest(name: object, known: Iterable[str]) -> str:
    """A question about the known name nearest to this one; empty if none is near.

    >>> suggest("versoin", ["train", "version"]), suggest("foo", ["color", "crop"])
    ("Did you mean 'version'?", '')
    """
    near = difflib.get_close_matches(str(name), sorted(known), n=1, cutoff=0.51)
    return f"Did you mean {near[0]!r}?" if near else ""


def near_path(path: Path) -> str:
    """A question after a path that is not there; empty if nothing like it is beside it.

    >>> near_path(Path("no such folder") / "x")
    ''
    """
    try:
        beside = [p.name for p in path.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.7)
    return f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
