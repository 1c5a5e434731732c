"""Scores as rows of ``evaluation.jsonl``: one JSON object a line, one score a line.

A row says which features were scored by which protocol on which data. Several draws or
seeds are several rows; a later row of the same asking replaces an earlier one.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ._score import Score

NAME = "evaluation.jsonl"
FOUND = {"l2", "n_train", "n_labels", "validation_accuracy"}
"""Settings that came out of the data rather than being asked for."""

Row = dict[str, Any]


def as_row(score: Score, *, features: str, data: str, seed: int = 0) -> Row:
    """A score as a plain row.

    >>> score = Score("clustering", 0.5, 10, None, {"k": 3}, metric="nmi")
    >>> row = as_row(score, features="raw pixels", data="shapes")
    >>> row["protocol"], row["metric"], row["value"], row["interval"]
    ('clustering', 'nmi', 0.5, None)
    """
    return {
        "features": features,
        "protocol": score.name,
        "metric": score.metric,
        "data": data,
        "value": score.value,
        "interval": None if score.interval is None else list(score.interval),
        "n_test": score.n_test,
        "seed": seed,
        "settings": dict(score.settings),
        "notes": list(score.notes),
    }


def identity(row: Mapping[str, Any]) -> str:
    """What was asked; two rows of one identity answer the same question."""
    keys = ("features", "protocol", "metric", "data", "seed")
    asked = {k: v for k, v in (row.get("settings") or {}).items() if k not in FOUND}
    return json.dumps([*(row.get(key) for key in keys), asked], sort_keys=True)


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a file, the later of two answers only; half a line is no loss.

    >>> read_rows("no such file")
    []
    """
    path = Path(path)
    found: dict[str, Row] = {}
    # a disk that failed may leave any bytes; what can be read is kept
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            key = identity(row)
            found.pop(key, None)
            found[key] = row
    return list(found.values())


def with_rows(path: str | Path, rows: Iterable[Row]) -> bytes:
    """What the file should hold once these rows are added."""
    kept = {identity(row): row for row in read_rows(path)}
    for row in rows:
        kept.pop(identity(row), None)
        kept[identity(row)] = row
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept.values())
    return text.encode()
