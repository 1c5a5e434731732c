"""Values out of files that anybody may have written, and numbers into words."""

from collections.abc import Mapping, Sequence
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


def count(n: int, one: str, many: str = "") -> str:
    """How many of something.

    >>> count(1, "image"), count(2000, "image"), count(2, "class", "classes")
    ('1 image', '2,000 images', '2 classes')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def join_words(words: Sequence[str]) -> str:
    """Words joined as a person would.

    >>> join_words(["a", "b", "c"]), join_words(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
