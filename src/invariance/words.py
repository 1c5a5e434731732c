"""Counts and lists as a person would say them."""

from collections.abc import Sequence


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
