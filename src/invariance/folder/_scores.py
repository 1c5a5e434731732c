"""Scores of a run: rows of ``evaluation.jsonl``, and the table made of them.

A row says which features were scored by which protocol on which data, with which
settings, and what came out. Two rows that ask the same question have the same
``identity``: the later one replaces the earlier. Rows that ask the same question with
another seed or draw are one cell of the table, their mean and standard deviation. Rows
that differ in anything else, such as a limit on the training images, are never
averaged: they are lines of their own. Data are known by their fingerprint, not by their
name; the rows of older runs have none, and there the name has to do.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ._files import SCORES, finite_number, write_whole
from ._lock import hold_files

Row = dict[str, Any]

TRAINED = "trained encoder"
UNTRAINED = "untrained encoder"
CHANCE = "chance"
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
# settings that came out of the data rather than being asked for
RESULTS = {"l2", "n_train", "n_labels", "validation_accuracy", "validation_map"}
RESULTS |= {"ceiling", "certified", "n_classes", "n_first", "n_other"}
REPEATS = ("draw", "seed")  # settings that repeat one question


def keep_rows(
    folder: Path,
    rows: Sequence[Row],
    *,
    step: int | None = None,
    own_data: bool = False,
    advice: str = "",
) -> None:
    """Add rows to the scores of a run, one process after the other.

    Args:
        folder: Of the run.
        rows: Each replaces the row that asks the same question, if there is one.
        step: After which the trained encoder was scored; those of other steps are not
            averaged with it.
        own_data: Whether they are about the data of the run itself. Then rows of the
            same name that an older version wrote, without a fingerprint, are as well.
        advice: What to do when the disk fails; unless given, go on with the run.
    """
    marks = {row.get("data"): row.get("fingerprint") for row in rows if own_data}
    about = {} if step is None else {"step": step}
    rows = [row | about if row.get("features") == TRAINED else row for row in rows]
    with hold_files(folder):
        path = folder / SCORES
        before = [
            {"fingerprint": marks[row.get("data")], **row}
            if row.get("data") in marks
            else row
            for row in read_rows(path)
        ]
        kept = latest([*before, *rows])
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
        write_whole(path, text.encode("utf-8", errors="replace"), advice=advice)


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a file, only the later of two answers; half a line is no loss.

    >>> read_rows("no such file")
    []
    """
    path = Path(path)
    # a disk that failed may leave any bytes; what can be read is kept
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    rows = []
    for line in text.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return latest(row for row in rows if isinstance(row, dict))


def latest(rows: Iterable[Row]) -> list[Row]:
    """The rows without those that a later one answers anew."""
    newest: dict[str, Row] = {}
    for row in rows:
        newest.pop(identity(row), None)
        newest[identity(row)] = row
    return list(newest.values())


def drop_earlier_encoders(rows: Sequence[Row]) -> list[Row]:
    """The rows without those of an encoder that has been trained further since.

    >>> rows = [{"seed": 0, "step": 5}, {"seed": 1, "step": 5}, {"seed": 0, "step": 9}]
    >>> drop_earlier_encoders(latest(rows))
    [{'seed': 0, 'step': 9}]
    >>> drop_earlier_encoders([{"protocol": "knn", "step": 5}, {"step": 9}])
    [{'step': 9}]
    """
    newest = {_question(row): _encoder_of(row) for row in rows}  # later rows are newer
    # rows of an older version do not say which encoder they are about
    known = {_subject(row): _encoder_of(row) for row in rows if row.get("step")}
    return [
        row
        for row in rows
        if newest[_question(row)] == _encoder_of(row)
        and (not row.get("step") or known[_subject(row)] == _encoder_of(row))
    ]


def _subject(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """Whose features were scored."""
    return row.get("run"), row.get("features")


def _encoder_of(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """Which of a run's encoders was scored: rows before 0.1.0 have no step."""
    return row.get("step"), row.get("epoch")


def identity(row: Mapping[str, Any]) -> str:
    """What was asked; two rows of one identity answer the same question."""
    repeats = {key: _read_question(row).get(key) for key in REPEATS}
    return json.dumps([_question(row), row.get("seed"), repeats], default=str)


def _question(row: Mapping[str, Any]) -> str:
    """What was asked, whatever the seed or draw."""
    keys = ("run", "features", "protocol", "metric")
    asked = {key: v for key, v in _read_question(row).items() if key not in REPEATS}
    whole = [*(row.get(key) for key in keys), _data_of(row), asked]
    return json.dumps(whole, sort_keys=True, default=str)


def split_by_data(
    rows: Iterable[Row], beside: Iterable[Row] = ()
) -> dict[str, list[Row]]:
    """Rows by what their data are called; two of one name are told apart.

    Data of ``beside``, the rows of other runs, are told apart from them as well.

    >>> rows = [{"data": "train", "fingerprint": "5e", "parent": "cats"},
    ...         {"data": "train", "fingerprint": "a7", "parent": "dogs"},
    ...         {"data": "shapes"}]
    >>> list(split_by_data(rows))
    ['cats/train', 'dogs/train', 'shapes']
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(_data_of(row), []).append(row)
    first = {_data_of(row): row for row in beside}
    first |= {mark: group[0] for mark, group in groups.items()}
    spellings = {mark: _spell_data(row) for mark, row in sorted(first.items())}
    counts = Counter(name for names in spellings.values() for name in names)
    called = {
        mark: next((name for name in names if counts[name] == 1), names[-1])
        for mark, names in spellings.items()
    }
    return {called[mark]: group for mark, group in groups.items()}


def _spell_data(row: Mapping[str, Any]) -> list[str]:
    """What to call the data of a row, from short to unmistakable."""
    name, parent, mark = (row.get(key) for key in ("data", "parent", "fingerprint"))
    names = [name if isinstance(name, str) else "?"]
    names += [f"{parent}/{name}"] if parent else []
    return names + ([f"{name} ({str(mark)[:6]})"] if mark else [])


def _data_of(row: Mapping[str, Any]) -> str:
    """What tells the data of a row from others."""
    mark, name = row.get("fingerprint"), row.get("data")
    return f"mark:{mark}" if mark and mark != name else f"name:{name}"


def _settings(row: Mapping[str, Any]) -> dict[str, Any]:
    settings = row.get("settings")
    return settings if isinstance(settings, dict) else {}


def _read_question(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in _settings(row).items() if key not in RESULTS}


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
            asked = {k: v for k, v in _read_question(row).items() if k not in REPEATS}
            what = [_word(row, "protocol"), _word(row, "metric"), name]
            key = json.dumps(
                [*what, row.get("setting"), asked], sort_keys=True, default=str
            )
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
    counts = [_settings(row).get("n_first", row.get("n_test")) for row in own_rows]
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
    asked = {k: v for k, v in _read_question(first).items() if k not in REPEATS}
    by_features: dict[str, list[Row]] = {}
    for row in rows:
        by_features.setdefault(_word(row, "features"), []).append(row)
    return Line(
        protocol=_word(first, "protocol"),
        metric=_word(first, "metric"),
        data=data,
        asked=tuple(sorted((key, str(value)) for key, value in asked.items())),
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
    settings, metric = _settings(row), _word(row, "metric")
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
