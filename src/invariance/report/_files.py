"""The files of a run, as far as they can be read, and what could not be."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import InvarianceError

FILES = ("config.yaml", "env.json", "metrics.jsonl", "evaluation.json")
BROKEN = (ValueError, RecursionError, yaml.YAMLError)  # JSON's errors are ValueErrors


@dataclass(frozen=True)
class RunFiles:
    """What a run folder says."""

    folder: Path
    config: dict[str, Any]
    env: dict[str, Any]
    readings: list[dict[str, Any]]
    """Oldest first; each has a finite "epoch"."""
    scores: list[dict[str, Any]] | None
    """Of the final evaluation; empty without labels, None where there is no file."""
    finished: bool
    problems: list[str]
    """A sentence for each file that is missing or broken."""

    @property
    def epochs(self) -> float | None:
        """How many were asked for."""
        return number(self.config.get("epochs"))

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

    config = read("config.yaml", yaml.safe_load, dict) or {}
    env = read("env.json", json.loads, dict) or {}
    found = read("metrics.jsonl", _records, list)
    if found == []:
        problems.append("metrics.jsonl is empty: there are no readings yet.")
    readings = [
        record | {"epoch": epoch}
        for record in found or []
        if isinstance(record, dict)
        if (epoch := number(record.get("epoch"))) is not None
    ]
    if broken := len(found or []) - len(readings):
        count = "1 line" if broken == 1 else f"{broken} lines"
        problems.append(f"metrics.jsonl: {count} half written or broken, left out.")
    scores = read("evaluation.json", json.loads, list)
    if scores is not None and not all(isinstance(row, dict) for row in scores):
        problems.append("evaluation.json is half written or broken.")
        scores = None
    finished = (folder / "encoder.safetensors").is_file()
    return RunFiles(folder, config, env, readings, scores, finished, problems)


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


def _records(text: str) -> list[Any]:
    """One value a line, None where a line is broken."""
    records: list[Any] = []
    for line in filter(str.strip, text.split("\n")):
        try:
            records.append(json.loads(line))
        except BROKEN:
            records.append(None)
    return records
