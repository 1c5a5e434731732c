"""Numbers out of files that anybody may have written, and into words."""

import math
from collections.abc import Mapping
from typing import Any


def number(value: object) -> float | None:
    """A finite number, or None.

    >>> number(3), number(float("nan")), number("3"), number(True)
    (3.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # beyond these bounds the arithmetic of axes would overflow
    return float(value) if abs(value) < 1e100 and math.isfinite(value) else None


def inside(values: object, *path: str) -> Any:
    """The value at the end of a path of names; None where it breaks off."""
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def told(value: float, percent: bool = False) -> str:
    """A value as it is read out.

    >>> told(0.0625, True), told(4.3118), told(12345.6), told(6.63e-07)
    ('6.2 %', '4.31', '12,346', '6.63e-07')
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


def counted(n: int, one: str, many: str = "") -> str:
    """How many of something.

    >>> counted(1, "image"), counted(2000, "image"), counted(2, "class", "classes")
    ('1 image', '2,000 images', '2 classes')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
