"""Values out of files that anybody may have written, and numbers into words."""

from collections.abc import Mapping
from typing import Any


def inside(values: object, *path: str) -> Any:
    """The value at the end of a path of names; None where it breaks off."""
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def show_number(value: float, percent: bool = False) -> str:
    """A value as a person would read it out.

    >>> show_number(0.0625, True), show_number(4.3118), show_number(12345.6)
    ('6.2 %', '4.31', '12,346')
    """
    if percent:
        return minus(f"{100 * value:.1f} %")
    return minus(f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}")


def minus(text: str) -> str:
    """A number with a sign as long as a plus.

    >>> minus("-2.6"), minus("6e-07")
    ('−2.6', '6e-07')
    """
    return f"−{text[1:]}" if text.startswith("-") else text
