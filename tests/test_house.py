"""The rules of the house, each a test, on the source as it is.

``tools/house.py`` measures them; here its walkers are tried on made-up files too.
"""

import ast
import json
from pathlib import Path

import pytest
from tools import house

ROOT = Path(__file__).parents[1]


def test_no_room_imports_another_room_s_private_file():
    assert house.private_imports(ROOT) == []


def test_one_room_reads_the_run_folder():
    assert [line.split(":")[0] for line in house.readers(ROOT)] == ["folder"]


def test_no_module_is_over_500_lines():
    assert house.long_modules(ROOT) == []


def test_no_private_file_name_is_in_two_rooms():
    assert house.repeated_names(ROOT) == []


def test_no_module_is_called_utils():
    assert house.utils(ROOT) == []


def test_nobody_outside_the_objectives_tests_their_types():
    assert house.type_tests(ROOT) == []


def test_no_variable_is_called_after_an_act():
    assert house.vague_names(ROOT) == []


def test_few_test_files_import_private_modules():
    assert len(house.private_tests(ROOT)) <= 15


def test_a_test_file_that_imports_private_modules_says_why():
    assert [name for name, why in house.private_tests(ROOT).items() if not why] == []


def test_these_are_all_the_rules():
    rules = {name for name, measure in house.MEASURES.items() if measure.rule}
    assert rules == {
        "imports of another room's private file",
        "rooms that read a run folder",
        "modules over 500 lines",
        "private file names in two rooms",
        "modules called utils",
        "isinstance on objectives outside objectives/",
        "variables called own, found, told, said or there",
        "test files that import private modules",
        "of these, without a reason in a comment",
    }


# ---------------------------------------------------------------- the walkers


@pytest.fixture
def checkout(tmp_path):
    """A package of a few made-up files: their paths and their text."""

    def make(**files):
        for name, text in files.items():
            top = "" if name.startswith("tests") else "src/invariance/"
            path = tmp_path / f"{top}{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("line", "package", "private"),
    [
        ("from ..data._load import load", "invariance.runs", True),
        ("from ...data._load import load", "invariance.runs.deep", True),
        ("from ..data import _load", "invariance.runs", True),
        ("from ..data import load, _load", "invariance.runs", True),
        ("import invariance.data._load", "invariance.runs", True),
        ("from invariance.data._load import load", "tests", True),
        ("from .data._load import load", "invariance", True),
        ("from ..data import load", "invariance.runs", False),
        ("from ._load import load", "invariance.data", False),
        ("from . import _load", "invariance.data", False),
        ("from .._layout import rows", "invariance.partition.triton", False),
        ("from .. import __version__", "invariance.runs", False),
        ("from torch._dynamo import config", "invariance.runs", False),
    ],
)
def test_an_import_of_a_private_file_is_seen(line, package, private):
    node = ast.parse(line).body[0]
    assert house.opens_private_file(node, package.split(".")) is private


def test_readers_evaluators_verdicts_and_planners_are_counted(checkout):
    root = checkout(
        runs___one="open('config.yaml')\ndef verdict(run): ...",
        runs___two="path / 'env.json'\nprint('config.yaml is missing')",
        report___three="NAME = 'metrics.jsonl'\ntable = [knn, linear_probe]",
        partition___four="def why_not_fused(): ...\ndef explain(): ...",
    )
    assert sorted(house.readers(root)) == [
        "report: _three.py",
        "runs: _one.py, _two.py",
    ]
    assert house.evaluators(root) == ["src/invariance/report/_three.py"]
    assert house.defining(house.VERDICT)(root) == ["src/invariance/runs/_one.py"]
    planners = house.defining(house.PLANNER, "partition")(root)
    assert planners == ["src/invariance/partition/_four.py"]


def test_tests_of_type_are_counted(checkout):
    root = checkout(
        objectives___dcl="class DCL(Objective): ...\nisinstance(x, DCL)",
        methods___build="isinstance(x, DCL | int)\nisinstance(x, int)\nDCL()",
    )
    assert house.type_tests(root) == [
        "src/invariance/methods/_build.py:1: isinstance(x, DCL | int)"
    ]


def test_vague_names_are_counted(checkout):
    root = checkout(
        runs___one="def read(told, *, own=None): ...\nfor found in told: print(found)",
        runs___two="scores.there = 1\nread(own=said)\nfindings = told_flags = 2",
    )
    assert house.vague_names(root) == [
        "src/invariance/runs/_one.py:2: found",
        "src/invariance/runs/_one.py:1: told",
        "src/invariance/runs/_one.py:1: own",
    ]


def test_files_are_counted(checkout):
    root = checkout(
        data___rows="a = 1\n" * 501,
        views___rows="",
        views__deep___rows="",
        cli___load="",
        data___load="",
        utils="",
    )
    assert house.long_modules(root) == ["src/invariance/data/_rows.py"]
    assert house.repeated_names(root) == ["_rows: data, views"]
    assert house.utils(root) == ["src/invariance/utils.py"]


@pytest.mark.parametrize(
    ("line", "parses"),
    [
        ("'labels,' in note", True),
        ("note.startswith('Epoch of ')", True),
        ("name.split(', batches of ')", True),
        ("'best epoch' in ('best epoch', 'last epoch')", False),
        ("path.split(',')", False),
        ("name.endswith('.npy')", False),
        ("key in names", False),
    ],
)
def test_parsing_of_english_is_guessed_at(line, parses):
    assert house.parses_english(ast.parse(line).body[0].value) is parses


def test_a_reason_is_a_comment_beside_the_import(checkout):
    root = checkout(
        tests__test_a="import os\n# the door is closed\nfrom invariance.data import _x",
        tests__test_b="# about os\nimport os\n\nfrom invariance.data import _x",
        tests__test_c="from invariance.data import _x  # noqa: F401",
        tests__test_d="from invariance.data import load",
    )
    said = {"tests/test_a.py": True, "tests/test_b.py": False, "tests/test_c.py": False}
    assert house.private_tests(root) == said


def test_the_table_names_what_breaks_a_rule(checkout, capsys, monkeypatch):
    still = {name: m for name, m in house.MEASURES.items() if "visited" not in name}
    monkeypatch.setattr(house, "MEASURES", still)  # the others run the package
    root = checkout(utils="", folder___run="'config.yaml'")
    assert house.main(["--root", str(root)]) == 1
    table = capsys.readouterr().out
    assert "| modules called utils* | 0 | 1 | 0 |" in table
    assert "src/invariance/utils.py" in table
    (root / "src/invariance/utils.py").unlink()
    assert house.main(["--root", str(root)]) == 0
    capsys.readouterr()
    assert house.main(["--root", str(root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["modules"] == 1


def test_every_measure_was_taken_before():
    assert set(house.BEFORE) == set(house.MEASURES)


def test_the_files_that_a_loss_visits_are_seen():
    files = house.visits("loss", "cpu")(ROOT)
    assert "objectives/_dcl.py" in files
    assert any(file.startswith("partition/") for file in files)
    assert not any(file.startswith(("training/", "methods/")) for file in files)
