"""The objective of CONTRIBUTING.md, taken from the page and put through the contract.

What the page tells a contributor to do is done here by monkeypatching: the file appears
in the folder of objectives, its names in the package, its line in the catalogue, its
twin among the references and its case among the cases.
"""

import doctest
import importlib
import inspect
import itertools
import re
import sys
import textwrap
from pathlib import Path

import pytest
from tests import reference
from tests.contracts import cases, test_objectives
from tests.reference._scalars import dot, mean, rows

import invariance as inv
from invariance import objectives

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK, CATALOGUE_LINE, CASE_LINE = (
    textwrap.dedent(block)
    for _, block in re.findall(r"^( *)```python\n(.*?)^\1```$", PAGE, re.M | re.S)
)
CASE = eval(CASE_LINE, {"Case": cases.Case})


def slow_spectral(u, v):
    """mean over i != j of c_ij^2, minus 2 mean over i of c_ii."""
    u, v = rows(u), rows(v)
    pairs = itertools.permutations(range(len(u)), 2)
    others = mean([dot(u[i], v[j]) ** 2 for i, j in pairs])
    return others - 2 * mean([dot(u[i], v[i]) for i in range(len(u))])


def contract(case):
    """Every test of the contract that applies to the case, with its parameters."""
    for name, test in vars(test_objectives).items():
        if not name.startswith("test_"):
            continue
        marks = getattr(test, "pytestmark", [])
        if test_objectives.softmax_cases.mark in marks and not case.softmax:
            continue
        axes = [
            [named(mark.args[0], value) for value in mark.args[1]]
            for mark in marks
            if mark.name == "parametrize" and mark.args[0] != "case"
        ]
        fixtures = [f for m in marks if m.name == "usefixtures" for f in m.args]
        for choice in itertools.product(*axes):
            parameters = {k: v for part in choice for k, v in part.items()}
            label = "-".join([name, *map(str, parameters.values())])
            yield pytest.param(test, parameters, fixtures, id=label)


def named(names, values):
    """One set of parameters, as pytest.mark.parametrize spells them."""
    if isinstance(names, str):
        return {names: values}
    return dict(zip(names, values, strict=True))


@pytest.fixture
def contributed(tmp_path, monkeypatch):
    """The new module, as if its file and the lines it needs were in the package."""
    (tmp_path / f"_{CASE.name}.py").write_text(BLOCK, encoding="utf-8")
    monkeypatch.setattr(objectives, "__path__", [*objectives.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    full_name = f"invariance.objectives._{CASE.name}"
    module = importlib.import_module(full_name)
    for name, entry in eval(f"{{{CATALOGUE_LINE}}}", vars(module)).items():
        monkeypatch.setitem(inv.OBJECTIVES, name, entry)
    monkeypatch.setattr(inv, CASE.name, getattr(module, CASE.name), raising=False)
    monkeypatch.setattr(reference, CASE.name, slow_spectral, raising=False)
    monkeypatch.setattr(test_objectives, "CASES", [*cases.CASES, CASE])
    yield module
    del sys.modules[full_name]
    delattr(objectives, f"_{CASE.name}")


@pytest.mark.parametrize(("test", "parameters", "fixtures"), contract(CASE))
def test_it_passes_the_contract(test, parameters, fixtures, contributed, request):
    for fixture in fixtures:
        request.getfixturevalue(fixture)
    needed = {
        name: CASE if name == "case" else request.getfixturevalue(name)
        for name in inspect.signature(test).parameters
        if name not in parameters
    }
    test(**needed, **parameters)


def test_a_mistake_in_it_would_be_found(contributed, monkeypatch):
    right = contributed.spectral
    monkeypatch.setattr(inv, "spectral", lambda u, v: 1.001 * right(u, v))
    with pytest.raises(AssertionError):
        test_objectives.test_it_equals_its_slow_twin_in_value_and_gradient(CASE, 6, 4)


def test_its_example_is_right(contributed):
    outcome = doctest.testmod(contributed)
    assert outcome.attempted
    assert not outcome.failed


def test_a_whole_objective_is_under_40_lines():
    assert len(BLOCK.splitlines()) < 40
