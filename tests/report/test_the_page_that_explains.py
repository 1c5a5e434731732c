"""docs/report.md explains every name that report, terminal and ``diagnose`` show."""

import ast
import re
from functools import cache

import pytest
from tests.snippets import ROOT

from invariance.folder import PROTOCOL_NAMES

PAGE = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "invariance"
EXPLAINED = {name.lower() for name in re.findall(r"\*\*(.+?)\*\*", PAGE)}
PARTS = {
    part.splitlines()[0]: part for part in re.split("^## ", PAGE, flags=re.MULTILINE)
}


@cache
def parse(name):
    """A file of the package as a syntax tree."""
    return ast.parse((SOURCE / name).read_text(encoding="utf-8"))


def table(name, file):
    """A dict that stands in a file."""
    for node in parse(file).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{file} has no {name}")


def calls(kind):
    """The arguments by place wherever a ``kind`` is made."""
    for path in SOURCE.rglob("*.py"):
        if f"{kind}(" in path.read_text(encoding="utf-8"):
            for node in ast.walk(parse(path.relative_to(SOURCE))):
                made = isinstance(node, ast.Call) and getattr(node.func, "id", "")
                if made == kind:
                    yield node.args


def words(kind, place):
    """Words given at this place; of an f-string its beginning."""
    for given in calls(kind):
        word = given[place] if len(given) > place else None
        word = word.values[0] if isinstance(word, ast.JoinedStr) else word
        if isinstance(word, ast.Constant):
            yield word.value


READINGS = set(words("Reading", 0))
VERDICTS = set(words("Finding", 2))
ALONE = table("ALONE", "report/_curves.py")
CHARTS = {
    ALONE.get(key, [title.value])[0]
    for title, keys, *_ in calls("Curve")
    for key in ast.literal_eval(keys)
}
TITLES = {*words("Column", 1), "per s"}
KEPT = {"batch_nats", "pool_nats", *table("NAMES", "runs/_diagnose_kept.py")}
METRICS = table("METRIC_NAMES", "folder/_tabulate.py")
SCORES = {*PROTOCOL_NAMES.values(), *METRICS.values()} - {""}


def test_there_is_something_to_explain():
    assert {"uniformity", "mutual information", "class kept"} <= READINGS
    assert {"Collapsed", "It learned", "Unfinished"} <= VERDICTS
    assert len(CHARTS) > 12 and len(SCORES) > 12 and len(TITLES) > 12


@pytest.mark.parametrize("names", [READINGS, VERDICTS, CHARTS, TITLES, SCORES, KEPT])
def test_every_name_is_explained(names):
    assert not sorted(name for name in names if name.lower() not in EXPLAINED)


@pytest.mark.parametrize(
    "part", ["Curves of training", "Readings of the embeddings", "Scores"]
)
def test_every_reading_has_an_equation_a_healthy_range_and_advice(part):
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in PARTS[part].splitlines()
        if line.startswith("| **")
    ]
    assert len(rows) > 10
    for row in rows:
        assert len(row) == 4, row[0]
        assert all(row) or row[0] in ("**epoch**", "**supervised**"), row[0]
