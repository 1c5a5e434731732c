"""The files of a run, as far as they can be read, and what could not be."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import InvarianceError
from ._gallery import Gallery, read_gallery
from ._numbers import number

FILES = ("config.yaml", "env.json", "metrics.jsonl", "evaluation.jsonl")
BROKEN = (ValueError, RecursionError, yaml.YAMLError)  # JSON's errors are ValueErrors
LATE = ("evaluation.jsonl", "diagnostics.json", "gallery/")  # of a finished run


@dataclass(frozen=True)
class RunFiles:
    """What a run folder says."""

    folder: Path
    config: dict[str, Any]
    env: dict[str, Any]
    readings: list[dict[str, Any]]
    """Oldest first; each has a finite "epoch"."""
    scores: list[dict[str, Any]] | None
    """Rows of the evaluation, each with a finite "value"; None without a file."""
    diagnostics: dict[str, Any] | None
    gallery: Gallery | None
    finished: bool
    problems: list[str]
    """A sentence for each file that is missing or broken."""

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.folder.resolve().name

    @property
    def epochs(self) -> float | None:
        """How many were asked for."""
        return number(self.config.get("epochs"))

    @property
    def labelled(self) -> bool | None:
        """Whether the data have labels; None where nothing tells."""
        if self.scores:
            return True
        if self.gallery is not None:
            return self.gallery.labels is not None
        return None if self.scores is None else False

    def points(self, key: str) -> list[tuple[float, float]]:
        """(epoch, value) of every reading that has a finite value."""
        pairs = [(r["epoch"], number(r.get(key))) for r in self.readings]
        return [(epoch, value) for epoch, value in pairs if value is not None]

    def last(self, key: str) -> float | None:
        """The value in the very last reading; None if it has none."""
        return number(self.readings[-1].get(key)) if self.readings else None


def read_run(folder: Path) -> RunFiles:
    """Read what is there; a folder with none of the files is no run."""
    if not any((folder / name).is_file() for name in FILES):
        what = "no run in" if folder.is_dir() else "no folder"
        raise InvarianceError(
            f"There is {what} {str(folder)!r}: a run folder holds {', '.join(FILES)}. "
            "'invariance list runs' shows the runs there are."
        )
    problems: list[str] = []

    def read(name: str, parse: Callable[[str], Any], kind: type) -> Any:
        try:
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
            value = parse(text)
        except FileNotFoundError:
            problems.append(f"{name} is missing.")
        except OSError as cause:
            problems.append(f"{name} cannot be read: {cause.strerror}.")
        except BROKEN:
            problems.append(f"{name} is half written or broken.")
        else:
            if isinstance(value, kind):
                return value
            problems.append(f"{name} is empty or not what a run writes.")
        return None

    def rows(name: str, key: str) -> list[dict[str, Any]] | None:
        """Lines that are objects with a finite number called ``key``."""
        found = read(name, _records, list)
        kept = [
            record | {key: value}
            for record in found or []
            if isinstance(record, dict)
            if (value := number(record.get(key))) is not None
        ]
        if broken := len(found or []) - len(kept):
            count = "1 line" if broken == 1 else f"{broken} lines"
            problems.append(f"{name}: {count} half written or broken, left out.")
        return None if found is None else kept

    config = read("config.yaml", yaml.safe_load, dict) or {}
    env = read("env.json", json.loads, dict) or {}
    readings = rows("metrics.jsonl", "epoch")
    if readings == [] and not any("metrics.jsonl:" in p for p in problems):
        problems.append("metrics.jsonl is empty: there are no readings yet.")
    scores = rows("evaluation.jsonl", "value")
    diagnostics = read("diagnostics.json", json.loads, dict)
    gallery, more = read_gallery(folder / "gallery")
    problems += more
    finished = (folder / "encoder.safetensors").is_file()
    if not finished or config.get("evaluate") is False:  # then it was never written
        problems = [
            p
            for p in problems
            if not (p.startswith(LATE) and p.endswith(" is missing."))
        ]
    return RunFiles(
        folder,
        config,
        env,
        readings or [],
        scores,
        diagnostics,
        gallery,
        finished,
        problems,
    )


def _records(text: str) -> list[Any]:
    """One value a line, None where a line is broken."""
    records: list[Any] = []
    for line in filter(str.strip, text.split("\n")):
        try:
            records.append(json.loads(line))
        except BROKEN:
            records.append(None)
    return records
