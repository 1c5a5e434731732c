"""The table of scores: a line per protocol and metric, a cell per kind of features.

Rows that ask the same question with another seed or draw are one cell, their mean and
standard deviation. Rows that differ in anything else, such as a limit on the training
images, are never averaged: they are lines of their own.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ._files import finite_number
from ._scores import (
    CHANCE,
    TRAINED,
    UNTRAINED,
    Row,
    drop_earlier_encoders,
    latest,
    read_asked,
    read_settings_of,
    split_by_data,
)

FEATURES = (
    *(CHANCE, "raw pixels", UNTRAINED, TRAINED),
    *("best epoch", "supervised twin"),
)
PROTOCOL_NAMES = {
    "zero_shot": "zero-shot",
    "pairs": "partners",
    "rank_correlation": "rank correlation",
    "partner": "partner found",
    "knn": "kNN",
    "linear": "linear probe",
    "linear_sgd": "linear probe by SGD",
    "fine_tune": "fine-tuned",
    "supervised": "supervised",
    "few_labels_linear": "linear probe",
    "few_labels_fine_tune": "fine-tuned",
    "attacked": "linear probe attacked",
    "ridge": "ridge regression",
    "knn_regression": "kNN regression",
    "retrieval": "retrieval",
    "clustering": "clusters",
    "steps_ahead": "ahead",
}
METRIC_NAMES = {
    "accuracy": "",
    "top5": "top-5",
    "clean": "before the attack",
    "map": "MAP",
    "map11": "MAP of 11 points",
    "nmi": "NMI",
    "ari": "ARI",
    "nats": "nats",
    "spearman": "",
    "r2": "R²",
    "mae": "mean absolute error",
}
NOT_SHARES = {"nmi", "ari", "nats", "spearman", "r2", "mae"}


@dataclass(frozen=True)
class Cell:
    """What one kind of features scored."""

    values: tuple[float, ...]
    interval: tuple[float, float] | None
    repeated: str = "draw"
    """What there are several of: draws (or seeds), or runs."""
    epoch: int | None = None
    """Of the encoder, where it is not that of the last epoch."""

    @property
    def mean(self) -> float:
        """Over draws, seeds or runs."""
        return fmean(self.values)

    @property
    def spread(self) -> float | None:
        """Standard deviation over draws, seeds or runs; None of one."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def ends(self) -> tuple[float, float]:
        """Where the value may well be: the interval, or two deviations either way."""
        if self.interval is not None:
            return self.interval
        half = 2 * (self.spread or 0.0)
        return self.mean - half, self.mean + half


@dataclass(frozen=True)
class Line:
    """One protocol and metric on one data set, of one setting where there are more."""

    protocol: str
    metric: str
    data: str
    asked: tuple[tuple[str, Any], ...]
    """Settings of the protocol, without those that only repeat it."""
    setting: str
    """What tells the runs apart; empty where they are seeds of one setting."""
    detail: str
    """Metric and settings in words."""
    cells: dict[str, Cell]
    """By kind of features."""
    usual: bool = True
    """Whether the protocol has its usual settings, not a preset's or others."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What two lines have in common that measure the same."""
        return self.protocol, self.metric, self.data, self.asked

    @property
    def name(self) -> str:
        """What was done."""
        return PROTOCOL_NAMES.get(self.protocol, self.protocol.replace("_", " ") or "?")

    @property
    def share(self) -> bool:
        """Whether the value is a part of a whole, shown in per cent."""
        return self.metric not in NOT_SHARES


@dataclass(frozen=True)
class Scores:
    """A table of scores."""

    features: list[str]
    lines: list[Line]
    data: str
    """The run's own."""
    n_test: int | None
    notes: list[str]
    word: str = "image"
    """What a sample is called."""

    def cell(self, features: str, protocol: str) -> Cell | None:
        """The main metric on the run's own data, of the line fitted on most samples.

        That is the first one of a protocol: the accuracy, or the mean average precision
        where images may show several classes; the first of several steps ahead. The
        usual settings go before others.
        """
        part = [x for x in self.lines if (x.protocol, x.data) == (protocol, self.data)]
        lines = [x for x in part if x.metric == part[0].metric and features in x.cells]
        best = max(lines, key=lambda x: (x.usual, _limit(x)), default=None)
        return None if best is None else best.cells[features]


def tabulate(
    rows: Iterable[Row],
    data: object = "",
    fingerprint: str | None = None,
    beside: Iterable[Row] = (),
) -> Scores:
    """Rows as a table: protocols in their order, the run's own data first.

    Args:
        rows: Of evaluation.jsonl, each with a finite "value".
        data: What the run was trained on, a name or a path. Where no row names it,
            the set that most rows are about counts as the run's own.
        fingerprint: Of what the run was trained on; where it is known, it decides.
        beside: Rows of runs shown with it, whose data may have the same names.
    """
    kept = drop_earlier_encoders(latest(rows))
    by_data = split_by_data(kept, beside)
    groups: dict[str, tuple[str, list[Row]]] = {}
    for name, about in by_data.items():
        for row in about:
            what = [_word(row, "protocol"), _word(row, "metric"), name]
            asked = [*what, row.get("setting"), read_asked(row)]
            key = json.dumps(asked, sort_keys=True, default=str)
            groups.setdefault(key, (name, []))[1].append(row)
    lines = _with_details([_line(name, group) for name, group in groups.values()])
    own_data = _find_own(by_data, data, fingerprint)
    order = {name: k for k, name in enumerate(PROTOCOL_NAMES)}
    # of several settings, the lines of one measure stand together
    measures = {key: k for k, key in enumerate(dict.fromkeys(x.key for x in lines))}
    lines.sort(
        key=lambda x: (
            x.data != own_data,
            order.get(x.protocol, len(order)),
            measures[x.key],
        )
    )
    seen = dict.fromkeys(name for line in lines for name in line.cells)
    plain = {str(row.get("features")) for row in kept if row.get("plain")}
    before = FEATURES.index(UNTRAINED)
    ordered = (*FEATURES[:before], *sorted(plain), *FEATURES[before:], *seen)
    features = list(dict.fromkeys(name for name in ordered if name in seen))
    own_rows = by_data.get(own_data, [])
    # an image may have several captions, which are looked for in turn
    counts = [read_settings_of(r).get("n_first", r.get("n_test")) for r in own_rows]
    notes = [
        str(note)
        for row in kept
        if isinstance(row.get("notes"), list)
        for note in row["notes"]
    ]
    n_test = max((int(n) for n in map(finite_number, counts) if n), default=None)
    word = next((str(row["word"]) for row in own_rows if row.get("word")), "image")
    return Scores(features, lines, own_data, n_test, list(dict.fromkeys(notes)), word)


def _find_own(
    by_data: Mapping[str, list[Row]], data: object, fingerprint: str | None
) -> str:
    """What the run's own data are called in a table."""
    marks = {name: rows[0].get("fingerprint") for name, rows in by_data.items()}
    if fingerprint:
        for name, mark in marks.items():
            if mark == fingerprint:
                return name
    given = {str(data), Path(str(data)).name, Path(str(data)).stem}
    known = [n for n, rows in by_data.items() if _word(rows[0], "data") in given]
    unmarked = [name for name in known if not marks[name]]
    if unmarked or fingerprint:  # rows on other data are never taken for its own
        return unmarked[0] if unmarked else Path(str(data)).name
    most = max(by_data, key=lambda name: len(by_data[name]), default="")
    return known[0] if known else most


def _line(data: str, rows: list[Row]) -> Line:
    first = rows[0]
    by_features: dict[str, list[Row]] = {}
    for row in rows:
        by_features.setdefault(_word(row, "features"), []).append(row)
    return Line(
        protocol=_word(first, "protocol"),
        metric=_word(first, "metric"),
        data=data,
        asked=tuple(sorted((k, str(v)) for k, v in read_asked(first).items())),
        setting=str(first.get("setting") or ""),
        detail=_detail(first),
        cells={name: _cell(group) for name, group in by_features.items()},
        usual=not (first.get("preset") or first.get("changed")),
    )


def _detail(row: Row) -> str:
    """Metric and telling settings of a row in words.

    >>> _detail({"protocol": "knn", "metric": "accuracy",
    ...          "settings": {"k": 20, "temperature": 0.1, "limit": 500}})
    'k = 20, T = 0.1, fitted on at most 500 images'
    """
    settings, metric = read_settings_of(row), _word(row, "metric")
    parts = [METRIC_NAMES.get(metric, metric)]
    if row.get("protocol") in ("knn", "knn_regression"):
        parts += [
            f"{name} = {settings[key]}"
            for key, name in (("k", "k"), ("temperature", "T"))
            if key in settings
        ]
    if "ahead" in settings:
        parts.append(f"{settings['ahead']} ahead, at most {settings['ceiling']:.2f}")
    if row.get("protocol") == "attacked" and "epsilon" in settings:
        parts.append(
            f"{settings['steps']} steps within {settings['epsilon']:.3g} "
            f"({settings['norm']})"
        )
    share = finite_number(settings.get("share"))
    if share is not None:
        labels = f"{settings['n_labels']:,} labels" if "n_labels" in settings else ""
        parts.append(
            f"{labels} ({100 * share:g} %)" if labels else f"{100 * share:g} %"
        )
    if row.get("preset"):
        parts.append(f"as {row['preset']}")
    changed = row.get("changed")
    if isinstance(changed, dict):
        known = {"k", "temperature", "shares", "draws"}  # said already
        known |= {"epsilon", "steps", "norm"} if "epsilon" in settings else set()
        parts += [
            f"{key} {value}" for key, value in changed.items() if key not in known
        ]
    if "limit" in settings:
        word = row.get("word") or "image"
        parts.append(f"fitted on at most {settings['limit']:,} {word}s")
    return ", ".join(filter(None, parts))


def _with_details(lines: list[Line]) -> list[Line]:
    """Lines that would read alike, with the settings that tell them apart added."""
    alike: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        key = (line.protocol, line.metric, line.data, line.setting, line.detail)
        alike.setdefault(key, []).append(line)
    described = []
    for line in lines:
        key = (line.protocol, line.metric, line.data, line.setting, line.detail)
        shared = set.intersection(*(set(other.asked) for other in alike[key]))
        more = [
            f"{name} {value}"
            for name, value in line.asked
            if (name, value) not in shared
        ]
        detail = ", ".join(filter(None, [line.detail, *more]))
        described.append(dataclasses.replace(line, detail=detail))
    return described


def _cell(rows: list[Row]) -> Cell:
    """A value for each run where there are several, else for each draw and seed."""
    by_run: dict[Any, list[float]] = {}
    for row in rows:
        by_run.setdefault(row.get("run"), []).append(row["value"])
    epochs = {row.get("epoch") for row in rows}
    epoch = epochs.pop() if len(epochs) == 1 else None
    if len(by_run) > 1:
        means = tuple(fmean(values) for values in by_run.values())
        return Cell(means, None, "run")
    ends, interval = rows[0].get("interval"), None
    if len(rows) == 1 and isinstance(ends, list) and len(ends) == 2:
        low, high = map(finite_number, ends)
        if low is not None and high is not None:
            interval = (low, high)
    return Cell(tuple(row["value"] for row in rows), interval, epoch=epoch)


def _limit(line: Line) -> float:
    """On how many images at most a line was fitted."""
    limit = dict(line.asked).get("limit")
    return float("inf") if limit is None else float(limit)


def _word(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else "?"
