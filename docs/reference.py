"""The pages of the reference: what a room exports, in readable signatures.

In a page of ``docs/api`` a fence such as

    ```{room} partition
    ```

stands for the names of that room which users need, with a table of them at the top,
``{inner room}`` for the others that it exports, and ``{package table}`` for a table of
what the package itself exports. Docstrings are Markdown at heart;
what Sphinx would misread is turned into its own markup here.
"""

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Any

import invariance
from invariance.objectives import Objective
from invariance.objectives._declared_settings import MEANINGS

PACKAGE = Path(invariance.__file__).parent


def fill_rooms(app: Any, page: str, source: list[str]) -> None:
    """Put the names of a room where a page asks for them."""
    fence = r"^```\{(inner )?room\} (\w+)\n```$"
    text = re.sub(
        fence, lambda m: describe_room(m[2], bool(m[1])), source[0], flags=re.M
    )
    source[0] = re.sub(
        r"^```\{package table\}\n```$", lambda _: tabulate_package(), text, flags=re.M
    )


def tabulate_package() -> str:
    """Every name of the package itself, by room."""
    rooms = (room for room in invariance._HOMES if room != "errors")
    tables = []
    for room in rooms:
        module = importlib.import_module(f"invariance.{room}")
        tables.append(
            f".. rubric:: :doc:`{room}`\n\n.. currentmodule:: invariance.{room}\n\n"
            f"{tabulate(module, sort_names(module, find_exported(room)))}"
        )
    return "```{eval-rst}\n" + "\n\n".join(tables) + "\n```"


def tabulate(module: ModuleType, names: list[str]) -> str:
    """A table of functions and classes, each with the first sentence of its help."""
    rows = "\n".join(f"   {name}" for name in names if has_help(getattr(module, name)))
    return f".. autosummary::\n   :nosignatures:\n\n{rows}"


def describe_room(room: str, inner: bool) -> str:
    """A table of names and what is to be known of each, for Sphinx to fill in."""
    module = importlib.import_module(f"invariance.{room}")
    names = sort_names(module, (find_inner if inner else find_public)(room))
    entries = "\n\n".join(describe_name(module, name) for name in names)
    about = "" if inner else f".. automodule:: invariance.{room}\n\n"
    rst = (
        f"{about}.. currentmodule:: invariance.{room}\n\n"
        f"{tabulate(module, names)}\n\n{entries}"
    )
    return f"```{{eval-rst}}\n{rst}\n```"


def find_public(room: str) -> set[str]:
    """What users need of a room: what the package itself exports, else all of it.

    >>> sorted(find_public("folder"))
    ['Finding', 'list_kept']
    >>> "shapes" in find_public("data")  # a door: inv.data is public as a whole
    True
    """
    if room in invariance._DOORS or room not in invariance._HOMES:
        return set(importlib.import_module(f"invariance.{room}").__all__)
    return find_exported(room)


def find_exported(room: str) -> set[str]:
    """The names that the package itself takes from a room."""
    return set(invariance._HOMES[room].split())


def find_inner(room: str) -> set[str]:
    """The names that a room exports for other rooms."""
    module = importlib.import_module(f"invariance.{room}")
    return set(module.__all__) - find_public(room)


def sort_names(module: ModuleType, names: set[str]) -> list[str]:
    """Tables such as OBJECTIVES first, and a class behind the function of its name."""

    def place(name: str) -> tuple[bool, str, bool]:
        return (
            has_help(getattr(module, name)),
            name.lower().replace("_", ""),
            not name.islower(),
        )

    return sorted(names, key=place)


def has_help(thing: Any) -> bool:
    """Whether it is a function or a class, and no table, number or alias of a type."""
    return inspect.isclass(thing) or inspect.isroutine(thing)


def describe_name(module: ModuleType, name: str) -> str:
    """The directive that documents it."""
    thing = getattr(module, name)
    if inspect.isclass(thing):
        # What an objective's class can do is said once, by Objective.
        brief = issubclass(thing, Objective) and thing is not Objective
        return f".. autoclass:: {name}" + ("" if brief else "\n   :members:")
    if has_help(thing):
        return f".. autofunction:: {name}"
    return f".. py:data:: {name}\n\n   {describe_value(thing)}"


def describe_value(value: Any) -> str:
    """What is in a table of the package.

    >>> describe_value({"queue": 1, "bank": 2})
    'A dict of 2: `queue`, `bank`.'
    """
    if not isinstance(value, (dict, tuple, list, frozenset, set)):
        return f"`{value!r}`"
    entries = ", ".join(f"`{getattr(entry, '__name__', entry)}`" for entry in value)
    return f"A {type(value).__name__} of {len(value)}: {entries}."


# ------------------------------------------------------------------------ signatures


def shorten_signature(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str, gives: str
) -> tuple[str | None, str | None]:
    """Leave out what only the machine needs: checks of settings, addresses."""
    return tuple(text and strip_checks(text) for text in (signature, gives))  # type: ignore[return-value]


def strip_checks(text: str) -> str:
    """A signature whose annotations are types only.

    >>> strip_checks("(u: ~typing.Annotated[float | int, <function f at 0x7>] = 1)")
    '(u: float | int = 1)'
    >>> strip_checks("(paths: dict[str, str] = <factory>)")
    '(paths: dict[str, str] = ...)'
    """
    while match := re.search(r"~?(?:\w+\.)*Annotated\[", text):
        parts = list(split_arguments(text[match.end() :]))
        length = sum(map(len, parts)) + len(parts)  # with the commas and the bracket
        text = text[: match.start()] + parts[0] + text[match.end() + length :]
    kinds = "(?:function |class |built-in function )?"
    return re.sub(rf"<{kinds}['\w.<>]+(?: at 0x[0-9a-f]+)?>", "...", text)


def split_arguments(text: str) -> Iterator[str]:
    """What stands between commas, up to the bracket that closes the list.

    >>> list(split_arguments("a[b, c], d] = 1"))
    ['a[b, c]', ' d']
    """
    depth, start = 0, 0
    for place, letter in enumerate(text):
        if letter in "[(":
            depth += 1
        elif letter in "])" and depth:
            depth -= 1
        elif letter in ",]" and not depth:
            yield text[start:place]
            start = place + 1
            if letter == "]":
                return


def unlink_foreign_types(app: Any, doctree: Any) -> None:
    """Leave types that are not ours as text: looking for each takes half of a build."""
    from sphinx.addnodes import pending_xref

    for link in list(doctree.findall(pending_xref)):
        name = link.get("reftarget", "").rpartition(".")[2]
        if link.get("refdomain") == "py" and name not in list_names():
            link.replace_self(link.children)


@functools.cache
def list_names() -> set[str]:
    """The names that any room exports."""
    rooms = (path.parent for path in PACKAGE.glob("*/__init__.py"))
    modules = (importlib.import_module(f"invariance.{room.name}") for room in rooms)
    return {name for module in modules for name in module.__all__}


def shorten_fields(app: Any, doctree: Any) -> None:
    """Leave checks out of the types of fields, which pass no signature hook."""
    from docutils.nodes import Text
    from sphinx.addnodes import desc_annotation

    for kind in doctree.findall(desc_annotation):
        if "Annotated[" in (text := kind.astext()):
            kind.children = [Text(strip_checks(text))]


# ------------------------------------------------------------------------ docstrings


def convert_docstring(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Add the equation of its file, say shared settings shortly, read Markdown."""
    text = "\n".join(lines) + "\n"
    if what == "class" and hasattr(thing, "function"):
        text = text.partition("\nSettings:\n")[0] + "\n"  # the function has them
    text = add_equation(thing, shorten_gather(text))
    lines[:] = convert_markdown(text).splitlines()


def add_equation(thing: Any, text: str) -> str:
    """What the file of a function or class opens with, if that is an equation."""
    file = getattr(thing, "__module__", "") or ""
    name = getattr(thing, "__name__", "")
    about = getattr(sys.modules.get(file), "__doc__", "") or ""
    if file.rpartition("._")[2] != name.lower() or "$$" not in about:
        return text
    summary, _, rest = text.partition("\n\n")
    return f"{summary}\n\n{about.strip()}\n\n{rest}"


def shorten_gather(text: str) -> str:
    """The longest of the settings that objectives share has a page of its own."""
    first = MEANINGS["gather"].partition(".\n")[0]
    brief = f"{first} (:doc:`several devices </docs/many_devices>`)."
    return text.replace(indent(MEANINGS["gather"], "    "), indent(brief, "    "))


def convert_markdown(text: str) -> str:
    """Markdown's tables and formulas in Sphinx's own markup."""
    text = re.sub(r"(?m)(^ *\|.*\|\n)+", convert_table, text)
    text = re.sub(r"\$\$(.+?)\$\$", convert_display, text, flags=re.DOTALL)
    text = re.sub(r"(?<![\\$`])\$([^$`\n]+(?:\n[^$`\n]+)?)\$", r":math:`\1`", text)
    return re.sub(r"(?<![\w`|])\|(?=[\w(])", r"\\|", text)  # |x| is no substitution


def convert_table(match: re.Match[str]) -> str:
    """A list-table; its first row is the heading unless it is empty."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in match[0].splitlines()
        if not re.fullmatch(r"[ |:-]+", line)
    ]
    lines = ["", ".. list-table::", ""]
    for row in rows:
        lines += [
            f"   {'* -' if k == 0 else '  -'} {cell}" for k, cell in enumerate(row)
        ]
    return "\n".join([*lines, "", ""])


def convert_display(match: re.Match[str]) -> str:
    formula = " ".join(match[1].split())
    return f"\n\n.. math:: {formula}\n\n"


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", fill_rooms)
    app.connect("doctree-read", shorten_fields)
    app.connect("doctree-read", unlink_foreign_types)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", convert_docstring, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
