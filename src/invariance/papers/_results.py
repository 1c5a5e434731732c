"""The result of a claim on disk, and what is made of it.

    reproduced/<claim>.jsonl    a line about the run, then a line per finished cell
               <claim>.png      the figure; it carries a fingerprint of rows and drawing
               <claim>.md       verdict and table

Lines are added one by one, so a run that was stopped goes on after the last of them.
"""

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from ..errors import DataError
from ..folder import describe_environment, write_whole
from ._claim import Claim, Row, Rows, Size, Verdict
from ._spread import Spread

ADVICE = "Free some space or choose another --out, then run the same command again."


@dataclass(frozen=True)
class Result:
    """The finished rows of a claim."""

    claim: Claim
    size: Size
    rows: Rows
    seconds: float
    """That measuring took, over all cells."""
    environment: Mapping[str, Any]

    @property
    def verdict(self) -> Verdict:
        """Computed from the rows."""
        return self.claim.judge(self.rows)

    @property
    def is_toy(self) -> bool:
        """Whether it is of a training far smaller than the paper's."""
        return self.size in self.claim.toy

    @property
    def outcome(self) -> str:
        """That of the verdict, marked where it is of a toy size."""
        return f"{self.verdict.outcome}{' (toy size)' if self.is_toy else ''}"

    @property
    def fingerprint(self) -> str:
        """Of rows and drawing code: a figure with another one is out of date."""
        rows = [[dict(row.settings), dict(row.values)] for row in self.rows]
        text = json.dumps(rows, sort_keys=True) + inspect.getsource(self.claim.draw)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def table(self) -> list[list[str]]:
        """Headings, then a line per setting: mean ± standard deviation over seeds."""
        return tabulate_rows(self.rows, self.claim.columns)


def tabulate_rows(rows: Rows, columns: Mapping[str, str]) -> list[list[str]]:
    """Cells of the table as text; lists and what has no column are left out.

    >>> rows = Rows(Row({"n": 8, "seed": s}, {"error": 0.1 * s}) for s in (1, 2))
    >>> tabulate_rows(rows, {})
    [['n', 'error'], ['8', '0.150 ± 0.071']]
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        settings = {k: v for k, v in row.settings.items() if k != "seed"}
        groups.setdefault(json.dumps(settings), []).append(row)
    if not columns:
        names = dict.fromkeys(
            name
            for row in rows
            for name in (*row.settings, *row.values)
            if name != "seed" and not isinstance(row[name], list | dict)
        )
        columns = {name.replace("_", " "): name for name in names}
    lines = [list(columns)]
    for group in groups.values():
        lines.append([_show_cell(group, name) for name in columns.values()])
    return lines


def _show_cell(group: Sequence[Row], name: str) -> str:
    given = [row[name] for row in group if name in row.settings or name in row.values]
    if not given:
        return ""
    if name in group[0].settings or isinstance(given[0], str | bool):
        return ", ".join(dict.fromkeys(_show_setting(value) for value in given))
    return str(Spread.of(given))


def _show_setting(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.6g}" if isinstance(value, int | float) else str(value)


def path_of(claim: Claim, out: Path) -> Path:
    """Where its rows are."""
    return out / f"{claim.name}.jsonl"


def begin(claim: Claim, size: Size, out: Path) -> None:
    """The first line, with what a reader of the numbers needs to know."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise DataError(f"Cannot make the folder {out}: {cause}.") from None
    environment = describe_environment("cpu")
    for private in ("command", "platform"):  # results are for others to read
        del environment[private]
    about = {"claim": claim.name, "size": size, **environment}
    line = json.dumps(about, ensure_ascii=False) + "\n"
    write_whole(path_of(claim, out), line.encode(), advice=ADVICE)


def add_row(claim: Claim, out: Path, row: Row, seconds: float) -> None:
    """One finished cell."""
    line = {
        "settings": dict(row.settings),
        "values": dict(row.values),
        "seconds": round(seconds, 2),
    }
    with path_of(claim, out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_result(claim: Claim, out: Path) -> Result:
    """What is there, whole or in part, in the order of the claim's cells."""
    path = path_of(claim, out)
    if not path.is_file():
        raise DataError(
            f"There is no result of {claim.name!r} in {str(out)!r}: "
            f"'invariance reproduce {claim.name}' makes it."
        )
    lines = _read_lines(path)
    if not lines or lines[0].get("size") not in get_args(Size):
        raise DataError(
            f"{str(path)!r} is no result of 'invariance reproduce': delete it."
        )
    about, *rest = lines
    # measured in any order, by several processes; verdicts compare seed with seed
    measured = {_name_cell(line["settings"]): line for line in rest}
    names = map(_name_cell, claim.sizes[about["size"]])
    known = [measured[name] for name in names if name in measured]
    rows = Rows(Row(line["settings"], line["values"]) for line in known)
    seconds = sum((line.get("seconds", 0.0) for line in known), 0.0)
    return Result(claim, about["size"], rows, seconds, about)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """All but a last one that was cut off when the process was killed."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


def _name_cell(settings: Mapping[str, Any]) -> str:
    return json.dumps(dict(settings), sort_keys=True)


def drop_cut_line(claim: Claim, out: Path) -> None:
    """So that the next line starts anew."""
    path = path_of(claim, out)
    lines = path.read_text(encoding="utf-8").splitlines()[: len(_read_lines(path))]
    text = "".join(f"{line}\n" for line in lines)
    write_whole(path, text.encode(), advice=ADVICE)


def find_missing(result: Result) -> list[Mapping[str, Any]]:
    """Cells of its size that have no row yet."""
    done = {_name_cell(row.settings) for row in result.rows}
    return [c for c in result.claim.sizes[result.size] if _name_cell(c) not in done]


def require_whole(result: Result) -> None:
    """Raise a sentence for a result that is half finished."""
    missing, n = find_missing(result), len(result.claim.sizes[result.size])
    if missing:
        flag = "" if result.size == "quick" else f" --{result.size}"
        raise DataError(
            f"The result of {result.claim.name!r} is half finished: {n - len(missing)} "
            f"of {n} measurements are there. 'invariance reproduce "
            f"{result.claim.name}{flag}' goes on with it."
        )
