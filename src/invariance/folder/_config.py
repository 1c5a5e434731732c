"""Settings as plain values: to YAML and back, and by dotted names.

Settings are dataclasses; every mistake in a file of them is named in words.
"""

import contextlib
import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ..errors import SettingError, unknown
from ..plain_numbers import plain_number

T = TypeVar("T")


def to_dict(settings: Any) -> dict[str, Any]:
    """Nested plain values, ready for YAML."""
    return dataclasses.asdict(settings)


def settings_from(kind: type[T], values: Any, where: str = "settings") -> T:
    """Settings from plain values; unknown names and wrong types are refused in words.

    >>> from invariance.training import Train
    >>> settings_from(Train, {"epochs": 3}).epochs
    3
    >>> settings_from(Train, {"epoch": 3})
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


def check_settings(kind: type[T], settings: Any, example: str) -> T:
    """Settings given in Python, each of its type, or a sentence; None is the defaults.

    >>> from invariance.training import Train
    >>> check_settings(Train, "shapes", "Train(data='photos')")
    Traceback (most recent call last):
    invariance.errors.SettingError: Settings come as Train(data='photos'): got 'shapes'.
    """
    if settings is None:
        return kind()
    if not isinstance(settings, kind):
        raise SettingError(f"Settings come as {example}: got {settings!r}.")
    return settings_from(kind, _plain(to_dict(settings)), kind.__name__)


def _plain(value: Any) -> Any:
    """Paths as text and numbers as Python's own, as a file can keep them."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, Path):
        return str(value)
    return plain_number(value)


def read_yaml(kind: type[T], path: str | Path) -> T:
    """Settings from a file of what ``to_yaml`` or a person wrote."""
    path = Path(path)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingError(f"There is no settings file {str(path)!r}.") from None
    except OSError as cause:
        raise SettingError(f"{path} cannot be read: {cause.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as cause:
        why = " ".join(str(cause).split())  # the parser draws over several lines
        raise SettingError(f"{path} is not readable as YAML: {why}") from None
    return settings_from(kind, values or {}, str(path))


def to_yaml(settings: Any) -> str:
    """All settings, in their order."""
    return yaml.safe_dump(to_dict(settings), sort_keys=False, allow_unicode=True)


def flatten(values: Mapping[Any, Any], before: str = "") -> dict[str, Any]:
    """Nested settings by dotted names.

    >>> flatten({"seed": 0, "optim": {"lr": 0.1}, "options": {}})
    {'seed': 0, 'optim.lr': 0.1, 'options': {}}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{before}{key}.")
        else:  # YAML has no tuples
            flat[f"{before}{key}"] = list(value) if isinstance(value, tuple) else value
    return flat


def differing_settings(settings: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    """What differs, by dotted name: (this value, the other's)."""
    ours, theirs = flatten(to_dict(settings)), flatten(to_dict(other))
    names = dict.fromkeys([*ours, *theirs])
    pairs = {name: (ours.get(name), theirs.get(name)) for name in names}
    return {
        name: (value, default)
        for name, (value, default) in pairs.items()
        if value != default and {} not in (value, default)  # its entries are named
    }


def show_value(value: object) -> str:
    """A setting as a person would write it.

    >>> show_value(None), show_value(True), show_value([1, 2]), show_value({})
    ('not set', 'yes', '1, 2', 'none')
    """
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value == {} else str(value)


def _read(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        options = typing.get_args(hint)
        if value is None and type(None) in options:
            return None
        *words, hint = sorted(
            (o for o in options if o is not type(None)),
            key=lambda o: typing.get_origin(o) is not typing.Literal,
        )
        if any(value in typing.get_args(choices) for choices in words):
            return value  # a word that stands for a number, such as "learned"
        return _read(hint, value, where)
    if origin is typing.Literal:
        choices = typing.get_args(hint)
        value = str(value)
        if value not in choices:
            raise SettingError(f"{where}: {unknown('value', value, choices)}")
        return value
    if dataclasses.is_dataclass(hint):
        return settings_from(typing.cast(type, hint), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise SettingError(f"{where} must be a list: got {value!r}.")
        return tuple(_read(typing.get_args(hint)[0], v, where) for v in value)
    if origin is dict:
        if not isinstance(value, dict):
            raise SettingError(f"{where} must be names with values: got {value!r}.")
        numbers = typing.get_args(hint)[1] is float
        read = partial(_read, float) if numbers else _scalar
        return {str(k): read(v, f"{where}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str):  # YAML takes 1e-3 for a word
        with contextlib.suppress(ValueError):
            return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise SettingError(f"{where} must be {hint.__name__}: got {value!r}.")
    return value


def _scalar(value: Any, where: str) -> bool | int | float | str | None:
    """A number, a word or a truth value; 1 is a count where 1.0 is a share of all."""
    if isinstance(value, str):
        if value in ("true", "false"):
            return value == "true"
        for kind in (int, float):  # YAML takes 1e-3 for a word
            with contextlib.suppress(ValueError):
                return kind(value)
    elif not isinstance(value, bool | int | float | None):
        raise SettingError(
            f"{where} must be a number, a word, or true or false: got {value!r}."
        )
    return value
