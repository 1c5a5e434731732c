"""The private interfaces of PyTorch, torchvision and Fabric in use, each with a check.

A private interface may change in any release. When one does, the test that fails has
its name, so that nobody has to find it behind a failing training run. Those of Triton
belong to ``partition``, whose own tests watch them.
"""

import ast
import inspect
import re
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchvision import datasets

SOURCE = Path(__file__).parents[1] / "src" / "invariance"
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit"}  # private by name only


def foreach(name, expected, *others, **settings):
    """What torch's function for lists makes of 2 and the rest; "_" changes the 2."""

    def check():
        values = [torch.tensor([2.0])]
        result = getattr(torch, name)(values, *others, **settings)
        assert (values if name.endswith("_") else result)[0].item() == expected

    return check


def fabric_precision():
    precision = Fabric(accelerator="cpu", devices=1)._precision
    assert precision.state_dict() == {}
    assert [*inspect.signature(precision.load_state_dict).parameters] == ["state_dict"]


def ignored_buffers():
    name = "_set_params_and_buffers_to_ignore_for_model"
    ignore, network = getattr(DistributedDataParallel, name), nn.BatchNorm1d(2)
    ignore(network, ["running_mean"])
    # what DistributedDataParallel reads when it is built around the network
    assert network._ddp_params_and_buffers_to_ignore == ["running_mean"]


def functorch_level():
    level = torch._C._functorch.maybe_current_level
    assert level() is None
    assert torch.func.grad(lambda x: x * bool(level()))(torch.ones(())) == 1


def torchvision_files():
    for kind in (datasets.Flowers102, datasets.SUN397):
        source = inspect.getsource(kind.__init__)
        assert "self._image_files" in source and "self._labels" in source


def inductor_deterministic():
    from torch._inductor import config  # late, for it is slow

    assert config.deterministic in (True, False)


ONE = [torch.tensor([1.0])]
INTERFACES = {
    "_C": functorch_level,
    "_functorch": functorch_level,
    "_foreach_copy_": foreach("_foreach_copy_", 3.0, [torch.tensor([3.0])]),
    "_foreach_add": foreach("_foreach_add", 5.0, ONE, alpha=3),
    "_foreach_add_": foreach("_foreach_add_", 5.0, ONE, alpha=3),
    "_foreach_lerp_": foreach("_foreach_lerp_", 1.75, ONE, 0.25),
    "_foreach_mul": foreach("_foreach_mul", 6.0, 3.0),
    "_foreach_mul_": foreach("_foreach_mul_", 6.0, 3.0),
    "_foreach_norm": foreach("_foreach_norm", 2.0),
    "_foreach_sub": foreach("_foreach_sub", 1.0, ONE),
    "_image_files": torchvision_files,
    "_inductor": inductor_deterministic,
    "_labels": torchvision_files,
    "_precision": fabric_precision,
    "_set_params_and_buffers_to_ignore_for_model": ignored_buffers,
}


def private_names(source, ours=frozenset()):
    """The private attributes and modules of others that a file uses, by last name."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in ("self", "cls"):
                names.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names |= {*node.module.split("."), *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {part for alias in node.names for part in alias.name.split(".")}
    private = {name for name in names if re.match("_(?!_)", name)}
    return private - PUBLIC - ours


def defined_names(source):
    """The private names that a file itself defines, as functions or attributes."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def used_in_source():
    """Each private name of others, with the files that use it."""
    files = [f for f in SOURCE.rglob("*.py") if "partition" not in f.parts]
    texts = {f: f.read_text(encoding="utf-8") for f in files}
    ours = {f.stem for f in files}.union(*map(defined_names, texts.values()))
    used = {}
    for file, text in texts.items():
        for name in private_names(text, ours):
            used.setdefault(name, []).append(str(file.relative_to(SOURCE)))
    return used


@pytest.mark.parametrize("name", INTERFACES)
def test_the_private_interface_is_as_it_was(name):
    try:
        INTERFACES[name]()
    except Exception as cause:
        pytest.fail(
            f"{name}, a private interface of torch {torch.__version__} or "
            f"lightning-fabric {version('lightning-fabric')}, has changed ({cause!r}). "
            f"It is used in {', '.join(used_in_source().get(name, ['no file']))}."
        )


def test_every_private_interface_that_is_used_is_watched():
    used = used_in_source()
    assert {name: used[name] for name in used.keys() - INTERFACES.keys()} == {}


def test_every_interface_that_is_watched_is_used():
    assert set(INTERFACES) - set(used_in_source()) == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("torch._foreach_add(a, b)", {"_foreach_add"}),
        ("self.fabric._precision.state_dict()", {"_precision"}),
        ("from torch.utils._python_dispatch import Mode", {"_python_dispatch"}),
        ("import torch._dynamo", {"_dynamo"}),
        ("from torch._dynamo import config", {"_dynamo"}),
        ("self._weights(); row._replace(a=1); x.__dict__", set()),
        ("from ._rows import rows", set()),
    ],
)
def test_the_walker_finds_what_is_private(source, names):
    assert private_names(source) == names
