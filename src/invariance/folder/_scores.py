"""Scores of a run: rows of ``evaluation.jsonl``.

A row says which features were scored by which protocol on which data, with which
settings, and what came out. Two rows that ask the same question have the same
``identity``: the later one replaces the earlier. Data are known by their fingerprint,
not by their name; the rows of older runs have none, and there the name has to do.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._files import SCORES, parse_lines, write_lines
from ._lock import hold_files

Row = dict[str, Any]

TRAINED = "trained encoder"
UNTRAINED = "untrained encoder"
CHANCE = "chance"
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
        write_lines(path, kept, advice=advice)


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a file, only the later of two answers; half a line is no loss.

    >>> read_rows("no such file")
    []
    """
    path = Path(path)
    # a disk that failed may leave any bytes; what can be read is kept
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    return latest(row for row in parse_lines(text) if isinstance(row, dict))


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
    repeats = {key: read_settings_of(row).get(key) for key in REPEATS}
    return json.dumps([_question(row), row.get("seed"), repeats], default=str)


def _question(row: Mapping[str, Any]) -> str:
    """What was asked, whatever the seed or draw."""
    keys = ("run", "features", "protocol", "metric")
    whole = [*(row.get(key) for key in keys), _data_of(row), read_asked(row)]
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


def read_settings_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """How a row came about."""
    settings = row.get("settings")
    return settings if isinstance(settings, dict) else {}


def read_asked(row: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for: settings that neither repeat a question nor come of data."""
    settings = read_settings_of(row)
    return {k: v for k, v in settings.items() if k not in RESULTS and k not in REPEATS}
