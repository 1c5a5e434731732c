"""Rows of the evaluation as a table: a line a protocol, a column a kind of features.

Lines of the file that differ in nothing but seed or draw are one cell: their mean and
standard deviation. A later line replaces an earlier one that says the same.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ._numbers import inside, number

FEATURES = (
    *("raw pixels", "untrained encoder", "trained encoder", "best epoch"),
    "supervised twin",
)
PROTOCOLS = {
    "knn": "kNN",
    "linear": "Linear probe",
    "linear_sgd": "Linear probe by SGD",
    "fine_tune": "Fine-tuned",
    "supervised": "Supervised",
    "few_labels_linear": "Few labels, linear probe",
    "few_labels_fine_tune": "Few labels, fine-tuned",
    "retrieval": "Retrieval",
    "clustering": "Clustering",
}
METRICS = {"map": "mean average precision", "nmi": "NMI", "ari": "ARI"}
NOT_SHARES = {"nmi", "ari"}
TELLING = ("k", "temperature", "n_labels", "share")  # settings that name a line
FOUND = {"l2", "n_train", "n_labels", "validation_accuracy"}  # not asked for


@dataclass(frozen=True)
class Cell:
    """What one kind of features scored."""

    values: tuple[float, ...]
    interval: tuple[float, float] | None
    each: str = "draw"
    """What a value is of, where there are several."""

    @property
    def mean(self) -> float:
        """Over seeds and draws."""
        return fmean(self.values)

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds and draws; None of one."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def ends(self) -> tuple[float, float]:
        """Where the value may well be: the interval, or two deviations either way."""
        if self.interval is not None:
            return self.interval
        room = 2 * (self.spread or 0.0)
        return self.mean - room, self.mean + room


@dataclass(frozen=True)
class Line:
    """One protocol and metric on one data set."""

    protocol: str
    metric: str
    data: str
    settings: tuple[tuple[str, Any], ...]
    cells: dict[str, Cell]

    @property
    def title(self) -> str:
        """What was done."""
        plain = self.protocol.replace("_", " ") or "?"
        return PROTOCOLS.get(self.protocol, plain[:1].upper() + plain[1:])

    @property
    def share(self) -> bool:
        """Whether the value is a part of a whole, told in per cent."""
        return self.metric not in NOT_SHARES


@dataclass(frozen=True)
class Scores:
    """The whole table."""

    features: list[str]
    lines: list[Line]
    data: str
    """The run's own."""
    n_test: int | None
    notes: list[str]

    def cell(self, features: str, protocol: str) -> Cell | None:
        """The accuracy on the run's own data."""
        for line in self.lines:
            own = line.data == self.data and line.metric == "accuracy"
            if own and line.protocol == protocol and features in line.cells:
                return line.cells[features]
        return None


def tabulated(rows: Iterable[dict[str, Any]], data: object = "") -> Scores:
    """Lines in the order of ``PROTOCOLS``, the run's own data first.

    Args:
        rows: Of evaluation.jsonl, each with a finite "value".
        data: What the run was trained on, a name or a path. Where no row names it,
            the set that most rows are about counts as the run's own.
    """
    newest: dict[str, dict[str, Any]] = {}
    for row in rows:
        keys = ("features", "protocol", "metric", "data", "seed")
        given = row.get("settings")
        asked = given if isinstance(given, dict) else {}
        asked = {key: value for key, value in asked.items() if key not in FOUND}
        asking = [*(row.get(key) for key in keys), asked]
        same = json.dumps(asking, sort_keys=True, default=str)
        newest.pop(same, None)
        newest[same] = row
    groups: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    for row in newest.values():
        telling = tuple(
            (key, found)
            for key in TELLING
            if isinstance(found := inside(row, "settings", key), int | float | str)
        )
        what = tuple(_word(row, key) for key in ("protocol", "metric", "data"))
        group = groups.setdefault((*what, telling), {})
        group.setdefault(_word(row, "features"), []).append(row)
    lines = []
    for (protocol, metric, on, telling), group in groups.items():
        cells = {name: _cell(found) for name, found in group.items()}
        lines.append(Line(protocol, metric, on, telling, cells))
    seen = list(dict.fromkeys(name for line in lines for name in line.cells))
    features = [name for name in FEATURES if name in seen]
    features += [name for name in seen if name not in FEATURES]
    sets = [_word(row, "data") for row in newest.values()]
    named = {str(data), Path(str(data)).name, Path(str(data)).stem}
    own = next((name for name in sets if name in named), None)
    own = own or max(sets, key=sets.count, default="")
    order = {name: k for k, name in enumerate(PROTOCOLS)}
    lines.sort(key=lambda x: (x.data != own, order.get(x.protocol, len(order))))
    counts = [
        row["n_test"]
        for row in newest.values()
        if number(row.get("n_test")) and row.get("data") == own
    ]
    notes = [
        str(note)
        for row in newest.values()
        if isinstance(row.get("notes"), list)
        for note in row["notes"]
    ]
    n_test = int(counts[0]) if counts else None
    return Scores(features, lines, own, n_test, list(dict.fromkeys(notes)))


def _cell(rows: list[dict[str, Any]]) -> Cell:
    ends = rows[0].get("interval")
    interval = None
    if len(rows) == 1 and isinstance(ends, list) and len(ends) == 2:
        low, high = map(number, ends)
        if low is not None and high is not None:
            interval = (low, high)
    return Cell(tuple(row["value"] for row in rows), interval)


def _word(row: dict[str, Any], key: str) -> str:
    found = row.get(key)
    return found if isinstance(found, str) else "?"
