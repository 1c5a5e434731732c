"""What went wrong: what was expected, what came, and what to do."""

import dataclasses
import difflib
import functools
import inspect
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

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


def suggest_fields(kind: type[T]) -> type[T]:
    """Have a dataclass of named fields answer an unknown name with the nearest one.

    It stays a ``TypeError``, as Python's own.

    >>> @suggest_fields
    ... @dataclasses.dataclass(kw_only=True)
    ... class Optim:
    ...     momentum: float = 0.9
    >>> Optim(momentun=0.5)
    Traceback (most recent call last):
    TypeError: Unknown setting 'momentun' of Optim. Did you mean 'momentum'?
    """
    make: Any = kind.__init__

    @functools.wraps(make)
    def __init__(self: Any, *unnamed: Any, **values: Any) -> None:  # noqa: N807
        fields = {f.name: f for f in dataclasses.fields(self) if f.init}
        if unnamed:
            example = f"{type(self).__name__}({next(iter(fields))}={unnamed[0]!r})"
            raise TypeError(
                f"Settings of {type(self).__name__} have names, as in {example}: got "
                f"{len(unnamed)} without one."
            )
        for name in (name for name in values if name not in fields):
            advice = suggest(name, fields) or f"Known: {', '.join(sorted(fields))}."
            for field in fields.values():  # or is it a setting of one of its parts?
                part: Any = field.default_factory
                if name in getattr(part, "__dataclass_fields__", {}):
                    inner = f"{part.__name__}({name}=...)"
                    advice = f"It belongs to {field.name}: {field.name}={inner}."
            raise TypeError(
                f"Unknown setting {name!r} of {type(self).__name__}. {advice}"
            )
        make(self, **values)

    kind.__init__ = __init__  # type: ignore[method-assign]
    return kind


def warn_caller(message: str) -> None:
    """Warn at the caller's line: the nearest that is not of this package or torch.

    However many functions lie between, so that each line of a program warns once.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.split(".")[0] in ("invariance", "torch", "jaxtyping")


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
