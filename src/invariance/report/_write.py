"""Write a page so that it is whole or not there."""

import contextlib
from pathlib import Path

from ..errors import InvarianceError
from ._html import Html


def write_page(path: Path, text: Html) -> Path:
    """The page under its name; names of files may hold what no encoding can write."""
    half = path.with_name(f"{path.name}.part")
    try:
        half.write_bytes(str(text).encode("utf-8", errors="replace"))
        half.replace(path)
    except OSError as cause:
        with contextlib.suppress(OSError):
            half.unlink(missing_ok=True)
        raise InvarianceError(f"Could not write {path}: {cause.strerror}.") from None
    return path
