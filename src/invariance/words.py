"""Counts, lists, lengths of time and tables, as a person would write them."""

from collections.abc import Collection, Sequence


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


def join_most(words: Sequence[str], most: int = 8) -> str:
    """The first few of some words, and how many more there are.

    >>> join_most(["a", "b", "c", "d"], most=2)
    'a, b and 2 more'
    """
    n_more = len(words) - most
    return join_words([*words[:most], *([f"{n_more:,} more"] if n_more > 0 else [])])


def show_duration(seconds: float) -> str:
    """A length of time as a person would say it.

    >>> show_duration(7.2), show_duration(125.0), show_duration(7300.0)
    ('7 s', '2 min 5 s', '2 h 1 min')
    """
    whole = max(round(seconds), 1)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def align(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """A table as lines: words begin at the left of their column, numbers end right.

    Args:
        rows: Cells, in every row one per column.
        left: The columns that hold words.

    >>> align([["run", "kNN"], ["a", "9.5"], ["bcd", ""]])
    ['run  kNN', 'a    9.5', 'bcd']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
