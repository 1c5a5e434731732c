"""Help that fits one screen: what people need first, examples, and where the rest is.

A command that can be told much names in ``shown_first`` what its short help shows, and
has ``examples``. ``--help-all`` shows everything, group by group; that is tyro's.
"""

import inspect
import textwrap
from typing import Any

from ._flags import Flag, list_flags

WIDTH, INDENT = 80, 22
ALL = "--help-all"


def make_short_help(name: str, command: Any) -> str:
    """The help of a command that has ``shown_first`` and ``examples``."""
    flags = {flag.setting: flag for flag in list_flags(command)}
    places = [flag.value for flag in flags.values() if not flag.names]
    parts = [
        f"usage: invariance {name} {' '.join(places)} [OPTIONS]",
        textwrap.fill((inspect.getdoc(command) or "").splitlines()[0], WIDTH),
        "\n".join(describe_flag(flags[setting]) for setting in command.shown_first),
        "\n".join(["examples:", *(f"  {line}" for line in command.examples)]),
        f"These are {len(command.shown_first)} of {len(flags)} settings. All of them: "
        f"invariance {name} {ALL}",
    ]
    return "\n\n".join(parts)


def describe_flag(flag: Flag) -> str:
    """A flag, the kind of its value, what it does, and what happens without it."""
    on = not flag.value and flag.default == "True"  # then only "--no-..." does anything
    value, text = flag.value, flag.help
    if len(value) > WIDTH - INDENT:
        value, text = "NAME ...", f"{text} Names: {', '.join(flag.choices)}."
    title = " ".join([*flag.names[-1 if on else 0 :][:1], value])
    text += f" (default: {flag.default})" if flag.value and flag.default else ""
    about = textwrap.wrap(text, WIDTH - INDENT)
    first = f"  {title.strip():<{INDENT - 2}}"
    if len(first) == INDENT and first[-1] == " ":
        first += about.pop(0)
    return "\n".join([first.rstrip(), *(" " * INDENT + line for line in about)])
