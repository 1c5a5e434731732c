"""Numbers as people hand them over: numpy's, fractions and 0-d arrays count too."""

import numbers
from typing import Any


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
