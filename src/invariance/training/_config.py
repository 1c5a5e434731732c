"""Settings to YAML and back, with every mistake named."""

import contextlib
import dataclasses
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ..errors import SettingError, unknown
from ._settings import Train

T = TypeVar("T")


def to_dict(settings: Any) -> dict[str, Any]:
    """Nested plain values, ready for YAML."""
    return dataclasses.asdict(settings)


def from_dict(kind: type[T], values: Any, where: str = "settings") -> T:
    """Settings from plain values; unknown names and wrong types are refused in words.

    >>> from invariance.training import Train
    >>> from_dict(Train, {"epochs": 3}).epochs
    3
    >>> from_dict(Train, {"epoch": 3})
    Traceback (most recent call last):
    invariance.errors.SettingError: Unknown setting 'epoch' in settings. Did you mean \
'epochs'?
    """
    if not isinstance(values, dict):
        raise SettingError(f"{where} must be names with values: got {values!r}.")
    hints = typing.get_type_hints(kind)
    fields = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            sentence = unknown("setting", name, fields)
            raise SettingError(sentence.replace(". ", f" in {where}. ", 1))
    read = {n: _read(hints[n], v, f"{where}.{n}") for n, v in values.items()}
    return kind(**read)


def checked(settings: Any) -> Train:
    """Settings given in Python, each of its kind, or a sentence; None is the defaults.

    >>> checked("shapes")
    Traceback (most recent call last):
    invariance.errors.SettingError: Settings come as Train(data='photos', \
method='dcl'): got 'shapes'.
    """
    if settings is None:
        return Train()
    if not isinstance(settings, Train):
        raise SettingError(
            f"Settings come as Train(data='photos', method='dcl'): got {settings!r}."
        )
    return from_dict(Train, plain(to_dict(settings)), "Train")


def plain(value: Any) -> Any:
    """Paths as text and numbers of numpy as Python's, as a file can keep them."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, Path):
        return str(value)
    return value.item() if hasattr(value, "item") else value


def read_yaml(kind: type[T], path: str | Path) -> T:
    """Settings from a file of what ``to_yaml`` or a person wrote."""
    path = Path(path)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingError(f"There is no settings file {str(path)!r}.") from None
    except OSError as cause:
        raise SettingError(f"{path} cannot be read: {cause.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as cause:
        why = " ".join(str(cause).split())  # the parser draws over several lines
        raise SettingError(f"{path} is not readable as YAML: {why}") from None
    return from_dict(kind, values or {}, str(path))


def to_yaml(settings: Any) -> str:
    """All settings, in their order."""
    return yaml.safe_dump(to_dict(settings), sort_keys=False, allow_unicode=True)


def differences(settings: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    """What differs, by dotted name: (this value, the other's)."""
    found: dict[str, tuple[Any, Any]] = {}
    for f in dataclasses.fields(settings):
        a, b = getattr(settings, f.name), getattr(other, f.name)
        if dataclasses.is_dataclass(a):
            inner = differences(a, b)
            found |= {f"{f.name}.{name}": pair for name, pair in inner.items()}
        elif a != b:
            found[f.name] = (a, b)
    return found


def _read(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        options = typing.get_args(hint)
        if value is None and type(None) in options:
            return None
        (hint,) = [o for o in options if o is not type(None)]
        return _read(hint, value, where)
    if origin is typing.Literal:
        choices = typing.get_args(hint)
        value = str(value)
        if value not in choices:
            raise SettingError(f"{where}: {unknown('value', value, choices)}")
        return value
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(type, hint), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise SettingError(f"{where} must be a list: got {value!r}.")
        return tuple(_read(typing.get_args(hint)[0], v, where) for v in value)
    if origin is dict:
        if not isinstance(value, dict):
            raise SettingError(f"{where} must be names with values: got {value!r}.")
        return {str(k): _number(v, f"{where}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str):  # YAML takes 1e-3 for a word
        with contextlib.suppress(ValueError):
            return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise SettingError(f"{where} must be {hint.__name__}: got {value!r}.")
    return value


def _number(value: Any, where: str) -> int | float:
    """A whole number stays one: 1 is a count where 1.0 is a share of all."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number: float = _read(float, value, where)
    return number
