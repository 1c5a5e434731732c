"""The objectives of CONTRIBUTING.md, taken from the page and put through the contract.

What the page tells a contributor to do is done here by monkeypatching: the files appear
in the folder of objectives, their names in the package, their lines in the catalogue,
their twins among the references and their cases among the cases.
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
import torch
from tests import reference
from tests.contracts import cases, test_objectives
from tests.reference._scalars import dot, mean, rows

import invariance as inv
from invariance import objectives

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## Adding an objective\n")[1].split("\n## ")[0]
*BLOCKS, CATALOGUE_LINES, CASE_LINES = (
    textwrap.dedent(block)
    for _, block in re.findall(r"^( *)```python\n(.*?)^\1```$", SECTION, re.M | re.S)
)
CASES = [eval(line, {"Case": cases.Case}) for line in CASE_LINES.splitlines()]


def slow_spectral(u, v):
    """mean over i != j of c_ij^2, minus 2 mean over i of c_ii."""
    u, v = rows(u), rows(v)
    pairs = itertools.permutations(range(len(u)), 2)
    others = mean([dot(u[i], v[j]) ** 2 for i, j in pairs])
    return others - 2 * mean([dot(u[i], v[i]) for i in range(len(u))])


def slow_view_spread(z):
    """mean over views and samples of |z_ai - mean_b z_bi|^2."""
    views = [rows(view) for view in z]
    distances = []
    for sample in zip(*views, strict=True):
        middle = mean(list(sample))
        distances += [dot(row - middle, row - middle) for row in sample]
    return mean(distances)


TWINS = {"spectral": slow_spectral, "view_spread": slow_view_spread}


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
    """The new modules, as if their files and lines were in the package."""
    monkeypatch.setattr(objectives, "__path__", [*objectives.__path__, str(tmp_path)])
    names, modules = [case.name for case in CASES], {}
    for name, block in zip(names, BLOCKS, strict=True):
        (tmp_path / f"_{name}.py").write_text(block, encoding="utf-8")
        importlib.invalidate_caches()
        modules[name] = importlib.import_module(f"invariance.objectives._{name}")
        monkeypatch.setattr(inv, name, getattr(modules[name], name), raising=False)
        monkeypatch.setattr(reference, name, TWINS[name], raising=False)
    known = {k: v for module in modules.values() for k, v in vars(module).items()}
    for name, entry in eval(f"{{{CATALOGUE_LINES}}}", known).items():
        monkeypatch.setitem(inv.OBJECTIVES, name, entry)
    monkeypatch.setattr(test_objectives, "CASES", [*cases.CASES, *CASES])
    yield modules
    for name in names:
        del sys.modules[f"invariance.objectives._{name}"]
        delattr(objectives, f"_{name}")


EVERYTHING = [
    pytest.param(case, *parameters.values, id=f"{case.name}-{parameters.id}")
    for case in CASES
    for parameters in contract(case)
]


@pytest.mark.parametrize(("case", "test", "parameters", "fixtures"), EVERYTHING)
def test_it_passes_the_contract(case, test, parameters, fixtures, contributed, request):
    for fixture in fixtures:
        request.getfixturevalue(fixture)
    needed = {
        name: case if name == "case" else request.getfixturevalue(name)
        for name in inspect.signature(test).parameters
        if name not in parameters
    }
    test(**needed, **parameters)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_in_it_would_be_found(case, contributed, monkeypatch):
    right = getattr(inv, case.name)
    monkeypatch.setattr(inv, case.name, lambda *inputs: 1.001 * right(*inputs))
    with pytest.raises(AssertionError):
        test_objectives.test_it_equals_its_slow_twin_in_value_and_gradient(case, 6, 4)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_its_example_is_right(case, contributed):
    outcome = doctest.testmod(contributed[case.name])
    assert outcome.attempted
    assert not outcome.failed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_learner_takes_it(case, contributed):
    """What it says of itself is enough for a method of that objective."""
    method = inv.Method(objective=case.name, head="linear", width=4)
    learner = inv.build(method, torch.nn.Conv2d(3, 4, 3))
    step = learner([torch.rand(6, 3, 32, 32) for _ in range(3)])
    step.loss.backward()
    assert step.loss.isfinite()


def test_a_whole_objective_is_under_50_lines():
    assert all(len(block.splitlines()) < 50 for block in BLOCKS)
