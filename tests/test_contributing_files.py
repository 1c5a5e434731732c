"""Every file that CONTRIBUTING.md names exists, so that the page cannot rot."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TO_BE_WRITTEN = {"src/invariance/objectives/_spectral.py"}  # by who follows the recipe
MADE = {"metrics.jsonl", ".venv", ".venv/bin/pytest"}  # by the package, by make


def named_files(text):
    """Whatever stands in backticks and looks like a file or a folder."""
    words = {word for span in re.findall(r"`([^`\n]+)`", text) for word in span.split()}
    return {w for w in words if re.fullmatch(r"[\w./-]*\w(\.[a-z]+|/[\w.-]*)", w)}


def exists(name):
    """Whether there is such a file; a name without a folder may be in any."""
    source = ROOT / "src"
    places = (ROOT / name, source / name, source / "invariance" / name)
    if any(place.exists() for place in places):
        return True
    bare = "/" not in name and name.endswith(".py")
    return bare and any(source.rglob(name))


@pytest.mark.parametrize("name", sorted(named_files(PAGE) - TO_BE_WRITTEN - MADE))
def test_the_file_exists(name):
    assert exists(name) or is_code(name)


def is_code(name):
    """Whether it is a dotted name of Python, as inv.partition.explain."""
    return name.split(".")[0] in ("inv", "invariance", "torch")


def test_files_are_told_from_other_words():
    text = "`objectives/_dcl.py`, `a.py and b/`, `u, v`, `make test`, `Step`, `x / y`"
    assert named_files(text) == {"objectives/_dcl.py", "a.py", "b/"}


def test_a_file_that_is_gone_is_noticed():
    assert not exists("objectives/_gone.py")
    assert not exists("_gone.py")
    assert exists("objectives/_dcl.py")


def test_the_map_has_every_room():
    doors = (ROOT / "src" / "invariance").glob("*/__init__.py")
    rooms = {door.parent.name for door in doors}
    assert {room for room in rooms if f"`{room}/`" not in PAGE} == set()
