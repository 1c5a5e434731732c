"""Pictures that cannot be read: named, counted, and too many of them is an error."""

import os

from ..errors import DataError

NAMED = 20
ENOUGH = 20  # of fewer pictures, a share says little


def reason(error: BaseException) -> str:
    """One line for why a picture could not be read."""
    said = error.strerror if isinstance(error, OSError) else None
    text = " ".join(str(said or error).split()) or type(error).__name__
    if "cannot identify image file" in text:
        return "not an image"
    return text if len(text) <= 120 else text[:117] + "..."


def shown(path: str) -> str:
    """A path that any terminal can print, whatever bytes the file system holds."""
    return os.fsencode(path).decode("utf-8", "replace")


def sentence(unreadable: dict[str, str], fate: str) -> tuple[str, ...]:
    """Nothing, or one sentence that counts and names the pictures.

    >>> sentence({"a.png": "empty file"}, "left out")
    ('1 unreadable image was left out: a.png (empty file).',)
    """
    if not unreadable:
        return ()
    n = len(unreadable)
    named = ", ".join(f"{shown(p)} ({why})" for p, why in [*unreadable.items()][:NAMED])
    more = f" and {n - NAMED} more" if n > NAMED else ""
    were = "image was" if n == 1 else "images were"
    return (f"{n} unreadable {were} {fate}: {named}{more}.",)


def check_share(
    name: str,
    unreadable: dict[str, str],
    n: int,
    max_bad_fraction: float,
    *,
    enough: int = 0,
) -> None:
    """Raise when none of n pictures can be read, or of ``enough`` or more too few."""
    n_bad = len(unreadable)
    tolerable = n_bad <= max_bad_fraction * n or (n_bad < n < enough)
    if not n_bad or tolerable:
        return
    path, why = next(iter(unreadable.items()))
    first = f"the first is {shown(path)} ({why})"
    if n_bad >= n:
        raise DataError(
            f"None of the {n} images of {name} can be read; {first}: "
            "check that the files were copied whole."
        )
    raise DataError(
        f"{n_bad} of the {n} images of {name} cannot be read, more than "
        f"max_bad_fraction={max_bad_fraction:g} allows; {first}: "
        "mend or remove them, or allow more."
    )
