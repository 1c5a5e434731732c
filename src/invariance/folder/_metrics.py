"""The readings of a run, one JSON object per line."""

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import TrainingError
from ._files import parse_lines, resume_command


class Metrics:
    """An append-only file of readings that knows how long it is.

    A checkpoint keeps ``position``; going on from there cuts off what was written
    after it, so that an interrupted run ends up with the file of an uninterrupted one.
    """

    def __init__(self, path: Path, position: int = 0) -> None:
        self.file = path.open("ab")
        self.file.truncate(position)
        self.file.seek(position)

    @property
    def position(self) -> int:
        """Length in bytes of all that is safely written."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.file.tell()

    def write(self, record: Mapping[str, Any]) -> None:
        """Add one line."""
        try:
            self.file.write(json.dumps(record).encode() + b"\n")
            self.file.flush()
        except OSError as cause:
            raise TrainingError(
                f"Could not write {self.file.name}: {cause.strerror}. What was saved "
                "before is intact; free some space or fix the disk, then continue "
                f"with: {resume_command(Path(self.file.name).parent)}"
            ) from None

    def close(self) -> None:
        """Write no more lines."""
        self.file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a run killed while writing leaves half a line, which is no loss.

    >>> read_metrics(Path("no such file"))
    []
    """
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    whole = itertools.takewhile(lambda record: record is not None, parse_lines(text))
    return [record for record in whole if isinstance(record, dict)]
