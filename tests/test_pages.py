"""Files that pages name exist, and pages say what the catalogue says: none rots."""

import re
from collections import Counter

import pytest
import torch
from tests.snippets import ROOT, python_blocks, run_page

import invariance as inv
from invariance.cli import COMMANDS, list_flags
from invariance.methods import METHODS

PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("CONTRIBUTING.md", "docs/coverage.md")
}
METHODS_PAGE = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
TO_BE_WRITTEN = {"src/invariance/objectives/_spectral.py"}  # by who follows the recipe
MADE = {"metrics.jsonl", ".venv", ".venv/bin/pytest"}  # by the package, by make


@pytest.mark.parametrize("name", METHODS)
def test_the_page_of_methods_has_what_the_catalogue_says(name):
    method = METHODS[name]
    assert method.source and method.released
    row = f"| `{name}` | `{method.objective}` | {method.source} | {method.released} |"
    assert row in METHODS_PAGE.splitlines()


def named_files(text):
    """Whatever stands in backticks and looks like a file or a folder."""
    words = {word for span in re.findall(r"`([^`\n]+)`", text) for word in span.split()}
    file = r"(?!-)[\w./-]*\w(\.[a-z]+|/[\w.-]*)"  # --views.drop is a flag
    return {word for word in words if re.fullmatch(file, word)}


def exists(name):
    """Whether there is such a file; a name without a folder may be in any."""
    source = ROOT / "src"
    places = (ROOT / name, source / name, source / "invariance" / name)
    if any(place.exists() for place in places):
        return True
    bare = "/" not in name and name.endswith(".py")
    return bare and any(source.rglob(name))


@pytest.mark.parametrize(
    ("page", "name"),
    [
        (page, name)
        for page, text in PAGES.items()
        for name in sorted(named_files(text) - TO_BE_WRITTEN - MADE)
    ],
)
def test_the_file_exists(page, name):
    assert exists(name) or is_code(name)


def test_flags_with_a_point_are_flags_of_a_command():
    kinds = [kind for name, kind in COMMANDS.items() if name != "sweep"]  # has train's
    flags = [flag for kind in kinds for flag in list_flags(kind)]
    known = {name for flag in flags for name in flag.names}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = set(re.findall(r"--[a-z-]+\.[a-z][a-z-]*", text))
    assert "--machine.no-deterministic" in named
    assert not named - known


def is_code(name):
    """Whether it is a dotted name of Python, as inv.partition.explain."""
    return name.split(".")[0] in ("inv", "invariance", "torch")


def test_files_are_told_from_other_words():
    text = "`objectives/_dcl.py`, `a.py and b/`, `u, v`, `make test`, `x / y`, `--a.b`"
    assert named_files(text) == {"objectives/_dcl.py", "a.py", "b/"}


def test_a_file_that_is_gone_is_noticed():
    assert not exists("objectives/_gone.py")
    assert not exists("_gone.py")
    assert exists("objectives/_dcl.py")


def test_the_map_has_every_room():
    doors = (ROOT / "src" / "invariance").glob("*/__init__.py")
    rooms = {door.parent.name for door in doors}
    page = PAGES["CONTRIBUTING.md"]
    assert {room for room in rooms if f"`{room}/`" not in page} == set()


def test_the_index_of_measurements_has_every_page_and_names_their_scripts():
    index = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    results = {path.name for path in (ROOT / "benchmarks" / "results").glob("*.md")}
    assert set(re.findall(r"/benchmarks/results/([\w.]+)", index)) == results
    scripts = set(re.findall(r"`(\w+\.py)`", index))
    assert {s for s in scripts if not (ROOT / "benchmarks" / s).exists()} == set()


def table_rows(text):
    """The cells of the rows of all tables, heads and rules left out."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if "|" in line]
    return [row for row in rows if row[0] not in ("text", "section")]


def test_the_counts_of_the_coverage_are_those_of_its_rows():
    top, *sections = PAGES["docs/coverage.md"].split("\n## ")
    stated = {
        name: [int(n) for n in numbers]
        for name, *numbers in table_rows(top)
        if not name.startswith("---")
    }
    total = Counter()
    for section in sections:
        title, body = section.split("\n", 1)
        rows = [row for row in table_rows(body) if not row[0].startswith("---")]
        assert all(len(row) == 4 and row[3] for row in rows)
        counts = Counter(row[2] for row in rows)
        assert set(counts) <= {"a", "b", "c"}
        assert stated.pop(title) == [*(counts[s] for s in "abc"), len(rows)]
        total += counts
    assert stated == {"all": [*(total[s] for s in "abc"), total.total()]}


# Pages whose code has a test of its own, which looks at what comes of it.
OWN_TESTS = {
    "docs/any_samples.md",
    "docs/many_devices.md",
    "docs/robust.md",
    "docs/tables.md",
}
WITH_CODE = [
    name
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if python_blocks(path.read_text(encoding="utf-8"))
    and (name := path.relative_to(ROOT).as_posix()) not in OWN_TESTS
]


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(page)


def test_the_loss_of_open_clip_on_the_page_is_ours():
    page = (ROOT / "docs" / "coming_from.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.M | re.S)
    (theirs,) = [block for block in blocks if "import open_clip" in block]
    names = {}
    exec(theirs, names)
    ours = inv.info_nce(names["image"], names["text"], temperature=0.07)
    torch.testing.assert_close(ours, names["loss"])
