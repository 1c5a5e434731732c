"""The package as a whole: what it exports, what it loads, and which way imports go."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from tools import house

import invariance as inv
from invariance import objectives
from invariance.objectives import Objective

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "invariance"
PACKAGES = [m.name for m in pkgutil.iter_modules(inv.__path__) if m.ispkg]

# Which rooms each room may import. The modules beside the rooms are open to all, but
# what needs torch is not for the rooms that go without. "invariance" is the package
# itself, whose __init__ finds every public name: only what nothing imports may use it.
PLAIN = {"errors", "late_imports", "markup", "plain_numbers", "readings"}
PLAIN |= {"thresholds", "words"}
BESIDE = PLAIN | {"checked_rows", "devices", "processes", "progress", "randomness"}
WITHOUT_TORCH = {"folder", "report"}
LEARNING = {"partition", "diagnostics", "objectives", "negatives"}
LEARNING |= {"views", "encoders", "data"}
MEASURING = {"critics", "estimators", "diagnostics", "evaluation"}
LIBRARY = LEARNING | MEASURING
LIBRARY |= {"methods", "training", "folder", "runs", "report", "sharing"}
ROOMS: dict[str, set[str]] = {
    "partition": set(),
    "diagnostics": {"partition"},
    "objectives": {"partition", "diagnostics"},
    "negatives": {"partition"},
    "views": set(),
    "encoders": {"data", "folder"},
    "data": {"folder"},
    "folder": set(),
    "critics": {"partition"},
    "estimators": {"partition", "critics", "diagnostics"},
    "evaluation": {"partition", "diagnostics", "views", "data", "encoders", "folder"},
    "report": {"folder"},
    "methods": LEARNING | {"critics"},
    "sharing": {"data", "encoders", "folder", "methods"},
    "training": LEARNING | {"methods", "evaluation", "folder", "report", "sharing"},
    "runs": LIBRARY - {"runs"},
    "bench": LEARNING | {"training", "folder"},
    "invariance": LIBRARY,
    "papers": LIBRARY | {"invariance"},
    "cli": LIBRARY | {"bench", "invariance", "papers"},
    "__main__": {"cli"},
}
ARROWS = {
    room: rooms | (PLAIN if room in WITHOUT_TORCH else BESIDE)
    for room, rooms in ROOMS.items()
} | {module: {"errors"} - {module} for module in BESIDE}
ARROWS["checked_rows"] |= {"plain_numbers", "randomness"}
ARROWS["devices"] |= {"plain_numbers"}
ARROWS["progress"] |= {"markup", "words"}
ARROWS["readings"] |= {"markup"}
ARROWS["processes"] |= {"devices"}


def test_importing_and_listing_the_package_loads_nothing_but_itself():
    """No torch, nothing else that is installed, and no other part: in 0.02 s."""
    program = (
        "import sys; before = {*sys.modules}; import invariance; dir(invariance); "
        "invariance.__version__; print(*(sys.modules.keys() - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    standard = sys.stdlib_module_names
    loaded = [n for n in done.stdout.split() if n.split(".")[0] not in standard]
    assert loaded == ["invariance"]


def test_training_does_not_load_torchmetrics(tmp_path):
    """Fabric knows its version all the same, and it can be imported afterwards."""
    (tmp_path / "torchmetrics.py").write_text("print('loaded')\n__version__ = '1.9'\n")
    about = tmp_path / "torchmetrics-1.9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torchmetrics\nVersion: 1.9\n"
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from invariance.training import train\n"
        "from lightning_fabric.utilities import imports\n"
        "print(imports._TORCHMETRICS_GREATER_EQUAL_1_0_0)\n"
        "import torchmetrics"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "loaded"]


@pytest.mark.parametrize("room", sorted(WITHOUT_TORCH))
def test_the_run_on_disk_is_read_without_torch(room):
    files = sorted((SOURCE / room).rglob("*.py"))
    names = [".".join(file.relative_to(SOURCE.parent).parts)[:-3] for file in files]
    assert names
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *(n.removesuffix(".__init__") for n in names)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False"]


@pytest.mark.parametrize("name", inv.__all__)
def test_every_public_name_resolves(name):
    assert getattr(inv, name) is not None
    assert name in dir(inv)


def test_a_misspelt_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="info_nec"):
        _ = inv.info_nec


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_class_and_function_has_a_docstring(package):
    module = importlib.import_module(f"invariance.{package}")
    assert module.__doc__
    bare = [name for name in module.__all__ if not documented(getattr(module, name))]
    assert bare == []


def documented(thing):
    """Whether a class or function has a docstring of its own; other values need none.

    The signature that a dataclass writes for itself is none.
    """
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return True
    doc = thing.__doc__ or ""
    return bool(doc) and not doc.startswith(f"{thing.__name__}(")


def test_a_missing_docstring_is_noticed():
    class Parent:
        """A docstring that a child does not inherit."""

    class Child(Parent):
        pass

    assert documented(Parent)
    assert not documented(Child)


def test_every_public_objective_is_in_the_catalogue():
    found = set()
    for info in pkgutil.iter_modules(objectives.__path__):
        module = importlib.import_module(f"invariance.objectives.{info.name}")
        found |= {
            thing
            for name, thing in vars(module).items()
            if inspect.isclass(thing) and issubclass(thing, Objective)
            if name[0] != "_" and thing is not Objective
        }
    assert found == set(inv.OBJECTIVES.values())
    assert {c.__name__ for c in found} <= set(objectives.__all__) & set(inv.__all__)


# ---------------------------------------------------------------- arrows


def part_of(module: str) -> str:
    """The part a dotted module name belongs to; the package itself is a part too."""
    return [*module.split("."), ""][1] or "invariance"


def imported_parts(source: str, package: str) -> set[str]:
    """The parts that a file imports, wherever in the file; ``package`` is its own."""
    parts = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            home = package.split(".")[: -(node.level - 1) or None] if node.level else []
            base = ".".join([*home, *([node.module] if node.module else [])])
            # what comes from the package itself may be one of its parts
            names = [
                f"{base}.{alias.name}" if alias.name in ARROWS else base
                for alias in node.names
                if base != "invariance" or alias.name != "__version__"
            ]
        else:
            continue
        parts |= {part_of(n) for n in names if n.split(".")[0] == "invariance"}
    return parts


def back_arrows(source: str, package: str, own: str = "") -> set[str]:
    """The parts that a file imports and should not; ``own`` is what it belongs to."""
    own = own or part_of(package)
    assert own in ARROWS, f"say in ARROWS what invariance.{own} may import"
    return imported_parts(source, package) - ARROWS[own] - {own}


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_no_import_points_back(path):
    package = ".".join(path.relative_to(SOURCE.parent).parent.parts)
    alone = package == "invariance" and path.stem != "__init__"  # as errors.py is
    own = path.stem if alone else part_of(package)
    assert back_arrows(path.read_text(encoding="utf-8"), package, own) == set()


def test_the_table_of_arrows_has_no_circle():
    order = list(TopologicalSorter(ARROWS).static_order())
    assert order[0] == "errors"
    assert order[-2:] == ["cli", "__main__"]


def test_no_import_opens_another_room_s_private_file():
    assert house.private_imports(ROOT) == []


@pytest.mark.parametrize(
    ("source", "package", "back"),
    [
        ("from ..methods import SimCLR", "invariance.objectives", {"methods"}),
        ("from .. import training", "invariance.methods", {"training"}),
        ("from invariance.cli._run import f", "invariance.training", {"cli"}),
        ("import invariance.objectives as o", "invariance.partition", {"objectives"}),
        ("import invariance as inv", "invariance.training", {"invariance"}),
        ("from .. import nt_xent", "invariance.training", {"invariance"}),
        ("def f():\n    from ..methods import x", "invariance.evaluation", {"methods"}),
        ("from ...data import load", "invariance.views.deep", {"data"}),
        ("from ..objectives import dcl", "invariance.diagnostics", {"objectives"}),
        ("from ..training import train", "invariance.report", {"training"}),
        ("from ..devices import find_device", "invariance.folder", {"devices"}),
        ("from ..diagnostics import as_rows", "invariance.objectives", set()),
        ("from ..progress import Progress", "invariance.data", set()),
        ("from ..folder import read_metrics", "invariance.report", set()),
        ("from ..errors import InvarianceError", "invariance.partition", set()),
        ("from ._rows import unit_rows", "invariance.objectives", set()),
        ("from . import _dense", "invariance.partition", set()),
        ("import torch\nfrom torch import nn", "invariance.errors", set()),
        ("from .. import __version__", "invariance.training", set()),
        ("from .data import load", "invariance", set()),
        ("from .methods import x", "invariance.methods", set()),
    ],
)
def test_the_walker_finds_what_points_back(source, package, back):
    assert back_arrows(source, package) == back
