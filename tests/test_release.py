"""What is handed out: the wheel, the sdist, their version, and what they ask for."""

import ast
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from tools import house, lowest

import invariance as inv

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
EXTRAS = PROJECT["optional-dependencies"]
SOURCES = ("benchmarks", "docs", "examples", "src", "tests", "tools")

# Packages that are imported by another name than their own.
MODULES = {"faiss-cpu": "faiss", "pillow": "PIL", "PyYAML": "yaml"}
MODULES |= {"scikit-learn": "sklearn"}

# Packages that PyTorch imports for us, and where we ask it to.
BY_TORCH = {
    "tensorboard": "torch.utils.tensorboard",
    "onnx": "torch.onnx",
    "onnxscript": "torch.onnx",
}
COMES_WITH_TORCH = {"triton"}  # where there is one for the system
WHERE_THERE_IS_ONE = {"IPython", "pandas"}  # only asked for by who has them


# ---------------------------------------------------------------- the built package


def build(tree, kind, into):
    """Have setuptools make a wheel or an sdist of a folder; gives its path."""
    program = "import setuptools.build_meta as b, sys; "
    program += f"print(b.build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(into)],
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of a copy of this tree, and the wheel of the sdist, as pip makes it."""
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    tree.mkdir()
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, tree)
        elif path.name in SOURCES:
            made = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(path, tree / path.name, ignore=made)
    sdist = build(tree, "sdist", folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (folder / "of sdist").mkdir()
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    return sdist, build(unpacked, "wheel", folder / "of sdist")


@pytest.fixture(scope="module")
def wheel(built):
    """The files of the wheel with their content."""
    with zipfile.ZipFile(built[1]) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A folder with nothing but the installed wheel."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    pip += ["--no-compile", "--target", str(folder), str(built[1])]
    subprocess.run(pip, check=True)
    return folder


def run_installed(installed, cwd, *words):
    """Run Python where ``invariance`` is the installed wheel; gives what it printed."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_every_file_of_the_source_and_nothing_else(wheel):
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix(): path.read_bytes()
        for path in (source / "invariance").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {n: text for n, text in wheel.items() if ".dist-info/" not in n}
    assert packed.keys() == files.keys()
    assert packed == files
    assert {"invariance/py.typed", "invariance/report/page.js"} <= packed.keys()


def test_the_sdist_is_the_source_without_tests(built):
    with tarfile.open(built[0]) as archive:
        names = [Path(name).parts[1:] for name in archive.getnames()]
    assert {parts[0] for parts in names if parts} == {
        *("CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "PKG-INFO"),
        *("README.md", "SECURITY.md", "pyproject.toml", "setup.cfg", "src"),
    }


def test_metadata(wheel):
    folder = f"invariance-{inv.__version__}.dist-info"
    about = email.message_from_bytes(wheel[f"{folder}/METADATA"])
    assert about["Version"] == inv.__version__
    assert about["Requires-Python"] == PROJECT["requires-python"]
    assert about["License-Expression"] == "MIT"
    assert wheel[f"{folder}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = about.get_payload(decode=True).decode()
    assert text.strip() == readme.strip()
    assert set(about.get_all("Provides-Extra")) == EXTRAS.keys()


def test_the_installed_program_answers(installed, tmp_path):
    program = str(installed / "bin" / "invariance")
    said = run_installed(installed, tmp_path, program, "--version")
    assert said == f"invariance {inv.__version__}\n"
    assert "invariance train" in run_installed(installed, tmp_path, program, "--help")
    assert "simclr" in run_installed(installed, tmp_path, program, "list", "methods")


def test_the_installed_package_trains(installed, tmp_path):
    program = (
        "import sys\n"
        "from invariance.cli import main\n"
        "words = 'train --name run --limit 64 --batch-size 32 --epochs 1'.split()\n"
        "words += '--no-evaluate --knn-every 0 --machine.device cpu'.split()\n"
        "assert main(words) == 0\n"
        "ours = [m for name, m in sys.modules.items() if name[:10] == 'invariance']\n"
        "print([m for m in ours if not m.__file__.startswith(sys.argv[1])])"
    )
    said = run_installed(installed, tmp_path, "-c", program, str(installed))
    assert said.splitlines()[-1] == "[]"
    assert (tmp_path / "runs" / "run" / "report.html").stat().st_size > 1000


# ---------------------------------------------------------------- one version


def test_the_version_is_the_same_everywhere():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## \[(\d.+?)\] - (\S+)$", text, re.MULTILINE)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    cited = citation["version"], str(citation["date-released"])
    assert cited == releases[0]
    assert cited[0] == inv.__version__


# ---------------------------------------------------------------- what it asks for


def name_of(requirement):
    """The package that a requirement names."""
    return re.match(r"[\w.-]+", requirement)[0]


def module_of(package):
    """The module by which a package is imported."""
    return MODULES.get(package, package.replace("-", "_"))


def imported_modules():
    """The modules from outside Python that the source imports, by their first name."""
    names = set()
    for _, node in house.nodes(ROOT, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif not node.level:
            names.add(node.module)
    firsts = {name.split(".")[0] for name in names}
    return firsts - sys.stdlib_module_names - {"invariance"}


def test_what_is_imported_is_asked_for_and_what_is_asked_for_is_imported():
    asked = {name_of(text) for text in lowest.list_requirements(PROJECT)}
    direct = {module_of(name) for name in asked - BY_TORCH.keys()}
    assert direct == imported_modules() - COMES_WITH_TORCH - WHERE_THERE_IS_ONE
    assert asked >= BY_TORCH.keys()


@pytest.mark.parametrize("door", sorted(set(BY_TORCH.values())))
def test_what_torch_imports_for_us_is_used(door):
    files = (ROOT / "src").rglob("*.py")
    assert any(door in path.read_text(encoding="utf-8") for path in files)


def test_extras_that_messages_and_pages_name_exist():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = set()
    for path in [*pages, *(ROOT / "src").rglob("*.py")]:
        for names in re.findall(r"invariance\[([a-z,]+)\]", path.read_text("utf-8")):
            named |= set(names.split(","))
    assert named and named <= EXTRAS.keys()


def test_the_page_to_start_with_lists_the_extras():
    text = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    table = text[text.index("### Extras") : text.index("## 2.")]
    rows = [line.split("|")[1] for line in table.splitlines() if line[:3] == "| `"]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == EXTRAS.keys() - lowest.OWN_TOOLS


def test_the_workflow_tests_every_python_that_is_promised():
    file = ROOT / ".github" / "workflows" / "ci.yml"
    jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"]
    assert jobs.keys() == {"lint", "test", "lowest", "docs", "wheel"}
    assert all("timeout-minutes" in job for job in jobs.values())
    python = "Programming Language :: Python :: "
    promised = [c.removeprefix(python) for c in PROJECT["classifiers"] if python in c]
    assert jobs["test"]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


def test_the_oldest_version_of_every_requirement_is_known():
    pins = [lowest.pin_lowest(text) for text in lowest.list_requirements(PROJECT)]
    assert "torch==2.9" in pins
    names = [pin.partition("==")[0] for pin in pins]
    assert sorted(names) == sorted(set(names))  # pip refuses two pins of one package
    with pytest.raises(SystemExit, match="write it as name>=version"):
        lowest.pin_lowest("torch")
