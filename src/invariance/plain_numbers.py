"""Numbers as people hand them over: numpy's, fractions and 0-d arrays count too."""

import math
import numbers
from typing import Any

from .errors import SettingError


def plain_number(value: Any) -> Any:
    """An int or a float for anything that is one real number; else the value itself.

    A truth value stays one, and so does a word: whoever asks for a number refuses them.

    >>> from fractions import Fraction
    >>> plain_number(Fraction(1, 4)), plain_number(3), plain_number("3")
    (0.25, 3, '3')
    """
    if type(value) in (int, float, bool, str):  # nearly always, and torch.compile
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    return value


def check_number(name: str, value: Any) -> None:
    """Raise unless the setting is a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SettingError(f"{name} must be a number: got {value!r}.")
    if not -math.inf < value < math.inf:  # the compiler knows no math.isfinite
        raise SettingError(f"{name} must be finite: got {value}.")


def check_truth(name: str, value: Any) -> None:
    """Raise unless the setting is true or false; a word would be true, whatever it is.

    >>> check_truth("symmetric", "no")
    Traceback (most recent call last):
    invariance.errors.SettingError: symmetric must be True or False: got 'no'.
    """
    if value not in (True, False):
        raise SettingError(f"{name} must be True or False: got {value!r}.")


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise unless the setting is a whole number and large enough.

    >>> check_whole("micro_batch", 2.5, 1)
    Traceback (most recent call last):
    invariance.errors.SettingError: micro_batch is a whole number, 1 or more: got 2.5.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingError(f"{name} is a whole number, {least} or more: got {value!r}.")


def check_positive_number(name: str, value: Any) -> None:
    """Raise unless the setting is a positive, finite number."""
    check_number(name, value)
    if value <= 0:
        raise SettingError(f"{name} must be a positive number: got {value}.")


def check_share(name: str, value: Any) -> None:
    """Raise unless the setting is a part of a whole.

    >>> check_share("max_bad_fraction", 2)
    Traceback (most recent call last):
    invariance.errors.SettingError: max_bad_fraction is a share from 0 to 1: got 2.
    """
    check_number(name, value)
    if not 0 <= value <= 1:
        raise SettingError(f"{name} is a share from 0 to 1: got {value}.")


def check_least(name: str, value: float | int | None, least: int) -> None:
    """Raise if the setting is given and too small.

    >>> check_least("limit", None, 1)
    >>> check_least("limit", 0, 1)
    Traceback (most recent call last):
    invariance.errors.SettingError: limit is 1 or more: got 0.
    """
    if value is not None and not value >= least:
        raise SettingError(f"{name} is {least} or more: got {value}.")
