"""A safe expression over settings: ``optim.lr < 0.1 and method in ("simclr", "dcl")``.

Names with dots, constants, comparisons (chained, ``in``, ``is None``),
``and``, ``or``, ``not`` and brackets. The expression is read as a syntax tree and
walked here; nothing of it is ever executed. A comparison with a setting that is unset
is false, unless it asks for None.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import SettingError, unknown

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
    sentence = unknown("setting", name, known)
    text = "" if "." in name else f" A text needs quotation marks: '{name}'."
    raise SettingError(sentence + text)
