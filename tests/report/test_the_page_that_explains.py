"""docs/report.md explains every name that report, terminal and ``diagnose`` show."""

import ast
import re

import pytest
from tests.snippets import ROOT

from invariance.folder import PROTOCOL_NAMES
from invariance.folder._scores import METRIC_NAMES
from invariance.report._curves import ALONE, CURVES
from invariance.runs._diagnose_kept import COLUMNS as KEPT
from invariance.training._watch import COLUMNS

PAGE = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "invariance"
EXPLAINED = {name.lower() for name in re.findall(r"\*\*(.+?)\*\*", PAGE)}
PARTS = {
    part.splitlines()[0]: part for part in re.split("^## ", PAGE, flags=re.MULTILINE)
}


def literals(kind, place):
    """Words given there wherever a ``kind`` is made; of an f-string its start."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if f"{kind}(" in text else ():
            if not isinstance(node, ast.Call) or len(node.args) <= place:
                continue
            if getattr(node.func, "id", None) != kind:
                continue
            word = node.args[place]
            word = word.values[0] if isinstance(word, ast.JoinedStr) else word
            if isinstance(word, ast.Constant):
                found.add(word.value)
    return found


READINGS = literals("Reading", 0)
VERDICTS = literals("Finding", 2)
CHARTS = {
    ALONE.get(key, (curve.title, ""))[0] for curve in CURVES for key in curve.keys
}
TITLES = {title for c in COLUMNS for title in (c.title, c.other_title) if title}
SCORES = {*PROTOCOL_NAMES.values(), *METRIC_NAMES.values()} - {""}


def test_there_is_something_to_explain():
    assert {"uniformity", "mutual information", "class kept"} <= READINGS
    assert {"Collapsed", "It learned", "Unfinished"} <= VERDICTS
    assert len(CHARTS) > 12 and len(SCORES) > 12


@pytest.mark.parametrize(
    "names", [READINGS, VERDICTS, CHARTS, TITLES, SCORES, set(KEPT)]
)
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
