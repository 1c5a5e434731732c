"""The runs in a folder, each with its settings, how far it got and its final scores.

Reads what it can: a broken or half-written file takes nothing from the other runs.

Runs are picked by a safe expression over their settings, such as
``optim.lr < 0.1 and method in ("simclr", "dcl")``: names with dots, constants,
comparisons (chained, ``in``, ``is None``), ``and``, ``or``, ``not`` and brackets. It is
read as a syntax tree and walked here; nothing of it is ever executed. A comparison with
a setting that is unset is false, unless it asks for None.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InvarianceError, SettingError, unknown
from ._config import flatten
from ._files import CONFIG
from ._lock import is_held
from ._record import Record, read_record
from ._scores import TRAINED, split_by_data
from ._seeds import OPEN

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
WORDS = {"true": True, "false": False, "null": None, "none": None}


@dataclass(frozen=True)
class Overview:
    """One run.

    Attributes:
        folder: of the run.
        values: settings by their dotted names, those left open as the run chose them;
            state, finished, epoch, loss (the mean over the last epoch), ended (why it
            ended early); knn and linear are scores on the test part, training_knn was
            read among training images.
        broken: why its settings cannot be read; empty when they can.
    """

    folder: Path
    values: dict[str, Any]
    broken: str = ""
    images: dict[str, Any] = field(default_factory=dict)
    """What is known of its images."""


def find_state(record: Record) -> str:
    """A word for how far a run is: running, scoring, finished or stopped."""
    if record.finished:
        return "finished"
    if not is_held(record.folder):
        return "stopped"
    epoch, epochs = record.last("epoch") or 0.0, record.epochs or math.inf
    return "scoring" if record.ended or epoch >= epochs else "running"


def sort_overviews(runs: Iterable[Overview], name: str) -> list[Overview]:
    """By a setting or a score: numbers from the largest, words from a, others last."""
    runs = list(runs)
    known = {key for run in runs for key in run.values}
    if runs and name not in known:
        raise SettingError(unknown("setting", name, known))

    def place(run: Overview) -> tuple[int, float, str]:
        value = run.values.get(name)
        if isinstance(value, int | float):
            return 0, -value, ""
        return (2, 0.0, "") if value is None else (1, 0.0, str(value))

    return sorted(runs, key=place)


def overviews(
    out: str | Path,
    expression: str | None = None,
    *,
    complete: Callable[[dict[str, Any]], Mapping[str, Any]] = dict,
) -> Iterator[Overview]:
    """The runs below a folder for which the expression holds.

    Args:
        out: Folder of run folders.
        expression: Such as "optim.lr < 0.1 and knn > 0.8"; None takes all.
        complete: Fills in the settings, by dotted names, that a file leaves out.
    """
    if expression is not None:
        parse(expression)  # a wrong one is refused even where there are no runs
    for path in sorted(p.parent for p in Path(out).glob(f"*/{CONFIG}")):
        run = _overview(path, complete)
        if expression is None or (not run.broken and holds(expression, run.values)):
            yield run


def _overview(
    folder: Path, complete: Callable[[dict[str, Any]], Mapping[str, Any]]
) -> Overview:
    try:
        record = read_record(folder)
    except InvarianceError as cause:
        return Overview(folder, {}, broken=str(cause))
    except OSError:
        return Overview(folder, {}, broken=f"{CONFIG} cannot be read")
    if record.settings_broken:
        return Overview(folder, {}, broken=f"{CONFIG} cannot be read")
    readings = record.points("knn")
    diverged = record.last("loss") is None  # a mean of earlier epochs would hide it
    state = {
        "folder": str(folder),
        "finished": record.finished,
        "state": find_state(record),
        "ended": record.ended or None,
        "epoch": record.last("epoch"),
        "loss": None if diverged else record.mean_of_last_epoch("loss"),
        "knn": _score(record, "knn"),
        "linear": _score(record, "linear"),
        "training_knn": readings[-1][1] if readings else None,
    }
    settings = dict(complete(flatten(record.config)))
    chosen = {k: v for k, v in record.used.items() if settings.get(k) in OPEN}
    values = {**settings, **chosen, **state}
    return Overview(folder, values, images=record.images)


def _score(record: Record, protocol: str) -> float | None:
    """Accuracy of the trained encoder on the test part of the run's own data."""
    cell = record.scores.cell(TRAINED, protocol)
    return None if cell is None else cell.mean


def name_data(runs: Sequence[Overview]) -> list[str]:
    """What the data of each run are called; two sets of one name are told apart."""
    rows = [
        {
            "data": run.images.get("name") or Path(str(run.values.get("data"))).name,
            "fingerprint": run.images.get("fingerprint"),
            "parent": run.images.get("parent"),
            "number": k,
        }
        for k, run in enumerate(runs)
    ]
    names = {
        row["number"]: name
        for name, group in split_by_data(rows).items()
        for row in group
    }
    return [names[k] for k in range(len(runs))]


def holds(expression: str, known: Mapping[str, Any]) -> bool:
    """Whether it holds for these settings, whose names have dots.

    >>> holds("optim.lr < 0.1 and method == 'dcl'", {"optim.lr": 0.05, "method": "dcl"})
    True
    >>> holds("epoch > 3", {"epochs": 5})
    Traceback (most recent call last):
    invariance.errors.SettingError: Unknown setting 'epoch'. Did you mean 'epochs'? A \
text needs quotation marks: 'epoch'.
    """
    return bool(evaluate_node(parse(expression).body, known))


def parse(expression: str) -> ast.Expression:
    """The syntax tree, or a sentence on what an expression looks like."""
    try:
        return ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SettingError(
            f"{expression!r} is not an expression: write it as "
            "\"optim.lr < 0.1 and method == 'simclr'\"."
        ) from None


def evaluate_node(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """What a part of the tree stands for."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name | ast.Attribute):
        return look_up(node, known)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [evaluate_node(part, known) for part in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not evaluate_node(node.operand, known)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = evaluate_node(node.operand, known)
        if isinstance(number, int | float):
            return -number
    if isinstance(node, ast.BoolOp):
        # every part is looked at, so that a misspelt name never goes unnoticed
        parts = [bool(evaluate_node(part, known)) for part in node.values]
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.Compare):
        sides = [evaluate_node(part, known) for part in (node.left, *node.comparators)]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return all(compare(a, how, b) for a, how, b in pairs)
    raise SettingError(
        f"{ast.unparse(node)!r} is not understood: use names, numbers, texts, "
        "comparisons, 'in', 'and', 'or', 'not'."
    )


def compare(a: Any, how: ast.cmpop, b: Any) -> bool:
    """One comparison; what cannot be compared is not smaller, larger or inside."""
    same = isinstance(how, ast.Eq | ast.NotEq | ast.Is | ast.IsNot)
    if not same and a is None:
        return False
    try:
        return bool(COMPARISONS[type(how)](a, b))
    except TypeError:
        if b is None:
            return False
        raise SettingError(
            f"{a!r} and {b!r} cannot be compared: is a quotation mark missing?"
        ) from None


def look_up(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """The setting of that name; unquoted true, false and none are understood."""
    name = ast.unparse(node)
    if name in known:
        return known[name]
    if name.lower() in WORDS:
        return WORDS[name.lower()]
    if name.startswith("options."):  # of a method's objective, set in some runs only
        return None
    ends = [repr(setting) for setting in known if setting.endswith(f".{name}")]
    sentence = unknown("setting", name, known)
    if ends:
        sentence = f"Unknown setting {name!r}. Did you mean {' or '.join(ends)}?"
    text = "" if "." in name else f" A text needs quotation marks: '{name}'."
    raise SettingError(sentence + text)
