"""Measure how the source is kept: one place for each idea, rooms with closed doors.

    python tools/house.py [--root DIR] [--slow] [--places]

A *room* is a folder of src/invariance, a *private file* one whose name begins with an
underscore. The table shows the numbers of commit 16ba647, taken by this same script,
beside today's and the aim. A measure marked with * is a rule: the exit code is 1 while
one is broken, and tests/test_house.py has a test for each.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

HOME = Path(__file__).parents[1]
BEFORE = json.loads(Path(__file__).with_name("house_before.json").read_text())
RUN_FILES = ("config.yaml", "env.json", "metrics.jsonl", "evaluation.jsonl")
RUN_FILES += ("diagnostics.json",)
VAGUE = ("own", "found", "told", "said", "there")
CUTTERS = ("startswith", "endswith", "split", "partition", "removeprefix", "index")


@cache
def tree(path: Path) -> ast.Module:
    """A file, parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(root: Path) -> list[Path]:
    """Every module of the package."""
    return sorted((root / "src" / "invariance").rglob("*.py"))


def package_of(path: Path) -> list[str]:
    """The package a module is in, as ["invariance", "partition"]."""
    return [*path.parts[path.parts.index("src") + 1 : -1]]


def room_of(path: Path) -> str:
    """The room a module is in; errors.py and its like are in none."""
    return [*package_of(path), ""][1]


def nodes(root: Path, *kinds: type) -> Iterator[tuple[Path, Any]]:
    """Every node of some kinds in the source, with its module."""
    for path in modules(root):
        yield from ((path, n) for n in ast.walk(tree(path)) if isinstance(n, kinds))


def place(root: Path, path: Path, node: Any = None) -> str:
    """Where something is, with its line of source if it is less than a file."""
    line = f":{node.lineno}: {' '.join(ast.unparse(node).split())}" if node else ""
    return f"{path.relative_to(root)}{line}"


# ---------------------------------------------------------------- imports


def is_private(name: str) -> bool:
    """Whether a name begins with one underscore."""
    return name.startswith("_") and not name.startswith("__")


def opens_private_file(node: ast.AST, package: list[str]) -> bool:
    """Whether a node imports from behind the ``__init__`` of a room not its own."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        home = package[: len(package) - node.level + 1] if node.level else []
        base = [*home, node.module] if node.module else home
        names = [".".join([*base, alias.name]) for alias in node.names]
    else:
        return False
    parts = [name.split(".") for name in names if name.startswith("invariance.")]
    return any(p[1:2] != package[1:2] and any(map(is_private, p[2:])) for p in parts)


def private_imports(root: Path) -> list[str]:
    """Imports of another room's private file."""
    found = nodes(root, ast.Import, ast.ImportFrom)
    return [place(root, p, n) for p, n in found if opens_private_file(n, package_of(p))]


def private_tests(root: Path) -> dict[str, bool]:
    """Test files that import private modules, and whether each says why.

    A reason is a comment in the same block of lines as the import.
    """
    reasons: dict[str, bool] = {}
    for path in sorted((root / "tests").rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(tree(path)):
            if opens_private_file(node, ["tests"]):
                first = node.lineno - 1
                while first and lines[first - 1].strip():
                    first -= 1
                block = "\n".join(lines[first : node.end_lineno])
                name, reason = place(root, path), re.search(r"#(?! noqa)", block)
                reasons[name] = reasons.get(name, True) and reason is not None
    return reasons


# ---------------------------------------------------------------- ideas


def readers(root: Path) -> list[str]:
    """Rooms that name a file of the run folder."""
    rooms = defaultdict(set)
    for path, node in nodes(root, ast.Constant):
        if node.value in RUN_FILES:
            rooms[room_of(path)].add(path.name)
    return [f"{room}: {', '.join(sorted(files))}" for room, files in rooms.items()]


def evaluators(root: Path) -> list[str]:
    """Modules that use the two protocols every evaluation has: kNN and the probe."""
    used = defaultdict(set)
    for path, node in nodes(root, ast.Name):
        if node.id in ("knn", "linear_probe") and isinstance(node.ctx, ast.Load):
            used[path].add(node.id)
    return [place(root, path) for path, names in used.items() if len(names) == 2]


def defining(names: str, room: str = "") -> Callable[[Path], list[str]]:
    """Modules, of one room or of all, that define a function called so."""

    def measure(root: Path) -> list[str]:
        named = {
            path
            for path, node in nodes(root, ast.FunctionDef)
            if re.fullmatch(names, node.name)
            # a property shows what was decided elsewhere
            and "property" not in map(ast.unparse, node.decorator_list)
        }
        return [place(root, p) for p in sorted(named) if room in ("", room_of(p))]

    return measure


def type_tests(root: Path) -> list[str]:
    """Tests of the type of an objective, outside the room of objectives."""
    classes = {
        node.name
        for path, node in nodes(root, ast.ClassDef)
        if room_of(path) == "objectives"
        and any(ast.unparse(base).endswith("Objective") for base in node.bases)
    }
    return [
        place(root, path, node)
        for path, node in nodes(root, ast.Call)
        if ast.unparse(node.func) in ("isinstance", "issubclass")
        and room_of(path) != "objectives"
        and classes & {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    ]


def parses_english(node: ast.AST) -> bool:
    """A guess: words sought in a text, or a text cut at words or at commas."""

    def is_words(part: ast.AST) -> bool:
        text = part.value if isinstance(part, ast.Constant) else None
        return isinstance(text, str) and bool(re.search(r"[a-z,] |[a-z],$", text))

    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        is_text = isinstance(node.comparators[0], ast.Name | ast.Call | ast.Subscript)
        return is_text and is_words(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in CUTTERS and any(map(is_words, node.args))
    return False


def parsed_english(root: Path) -> list[str]:
    """Places where the wording of a sentence may decide something."""
    tests = nodes(root, ast.Compare, ast.Call)
    return [place(root, path, node) for path, node in tests if parses_english(node)]


# ---------------------------------------------------------------- files


def repeated_names(root: Path) -> list[str]:
    """Private file names in two rooms; cli's are called after the commands anyway."""
    rooms = defaultdict(set)
    for path in modules(root):
        if is_private(path.stem) and room_of(path) != "cli":
            rooms[path.stem].add(room_of(path))
    return [f"{n}: {', '.join(sorted(r))}" for n, r in rooms.items() if len(r) > 1]


def vague_names(root: Path) -> list[str]:
    """Variables that name the act, or nothing, instead of the thing."""
    return [
        place(root, path, node)
        for path, node in nodes(root, ast.Name, ast.arg)
        if getattr(node, "arg", getattr(node, "id", "")) in VAGUE
        if isinstance(getattr(node, "ctx", ast.Store()), ast.Store)
    ]


def n_lines(path: Path) -> int:
    """Lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def long_modules(root: Path) -> list[str]:
    """Modules of more than 500 lines: time to ask what the second idea is."""
    return [place(root, path) for path in modules(root) if n_lines(path) > 500]


def utils(root: Path) -> list[str]:
    """Modules that are called after no idea at all."""
    return [place(root, p) for p in modules(root) if p.stem.strip("_") == "utils"]


def visits(*words: str) -> Callable[[Path], list[str]]:
    """What tools/visits.py says when the package is that of the checkout measured."""

    def measure(root: Path) -> list[str]:
        command = [sys.executable, str(HOME / "tools" / "visits.py"), *words]
        environment = os.environ | {"PYTHONPATH": str(root / "src")}
        return subprocess.check_output(command, env=environment, text=True).split()

    return measure


# ---------------------------------------------------------------- table


class Measure(NamedTuple):
    """One line of the table: how it is taken, what is wanted, whether it is a rule."""

    take: Callable[[Path], list[str] | int]
    aim: int
    rule: bool = False
    needs: str = "nothing"


VERDICT = r"((make|compute|reach)_)?verdict|judge(_run)?"
PLANNER = r"explain|(suits|why_not|keeps)_\w+"
MEASURES = {
    "imports of another room's private file": Measure(private_imports, 0, True),
    "rooms that read a run folder": Measure(readers, 1, True),
    "evaluators: modules that use both knn and linear_probe": Measure(evaluators, 1),
    "verdicts: modules with a function of such a name": Measure(defining(VERDICT), 1),
    "planners: the same, in partition": Measure(defining(PLANNER, "partition"), 1),
    "modules": Measure(lambda root: len(modules(root)), 220),
    "lines of src": Measure(lambda root: sum(map(n_lines, modules(root))), 27_500),
    "modules over 500 lines": Measure(long_modules, 0, True),
    "private file names in two rooms": Measure(repeated_names, 0, True),
    "modules called utils": Measure(utils, 0, True),
    "files visited by inv.dcl on a CPU": Measure(visits("loss", "cpu"), 8),
    "files visited by inv.dcl on a GPU": Measure(
        visits("loss", "cuda"), 12, needs="a GPU"
    ),
    "rooms visited by invariance evaluate": Measure(
        visits("evaluate", "rooms"), 6, needs="--slow"
    ),
    "isinstance on objectives outside objectives/": Measure(type_tests, 0, True),
    "decisions by parsing English (a guess)": Measure(parsed_english, 0),
    "variables called own, found, told, said or there": Measure(vague_names, 0, True),
    "test files that import private modules": Measure(
        lambda root: list(private_tests(root)), 15, True
    ),
    "of these, without a reason in a comment": Measure(
        lambda root: [name for name, why in private_tests(root).items() if not why],
        0,
        True,
    ),
}


def main(words: list[str] | None = None) -> int:
    """Print the table; 1 while a rule is broken."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=HOME, help="checkout to measure")
    parser.add_argument("--slow", action="store_true", help="also run an evaluation")
    parser.add_argument("--places", action="store_true", help="name every place")
    parser.add_argument("--json", action="store_true", help="print the numbers only")
    options = parser.parse_args(words)
    here = {"nothing": True, "--slow": options.slow, "a GPU": torch.cuda.is_available()}
    results = {
        name: measure.take(options.root.resolve())
        for name, measure in MEASURES.items()
        if here[measure.needs]
    }
    counts = {n: r if isinstance(r, int) else len(r) for n, r in results.items()}
    if options.json:
        print(json.dumps(counts, indent=1))
        return 0
    print("| measure | before | now | aim |\n|---|---|---|---|")
    for name, (_, aim, rule, needs) in MEASURES.items():
        now = counts.get(name, f"needs {needs}")
        print(f"| {name}{'*' * rule} | {BEFORE.get(name, '?')} | {now} | {aim} |")
    broken = [n for n, c in counts.items() if MEASURES[n].rule and c > MEASURES[n].aim]
    for name, result in results.items():
        if (name in broken or options.places) and isinstance(result, list) and result:
            print(f"\n{name}:", *result, sep="\n  ")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
