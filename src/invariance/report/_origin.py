"""How the run was made: its settings, its environment, the command to make it again."""

import shlex
from collections.abc import Mapping
from typing import Any

from ..folder import CONFIG, Record, flatten, show_value
from ._html import Html, lines, table, tag


def show_commands(run: Record) -> Html:
    """The command that makes this run once more, and the one that made it."""
    parts = []
    if run.config:
        path = shlex.quote(str(run.folder / CONFIG))
        parts.append(tag("pre", tag("code", f"invariance train --config {path}")))
    if command := run.env.get("command"):
        parts.append(tag("p", "It was started as:", class_="note"))
        parts.append(tag("pre", tag("code", command)))
    return (
        lines(*parts) if parts else tag("p", "Neither settings nor command are known.")
    )


def show_settings(run: Record, defaults: Mapping[str, Any] | None) -> Html:
    """What differs from the defaults, then everything, folded."""
    own = flatten(run.config)
    if not own:
        return tag("p", "The settings are not known.")
    usual = flatten(defaults or {})
    changed = {k for k, v in own.items() if defaults and usual.get(k) != v and v != {}}
    rows: list[list[object]] = [
        [k, show_value(own[k]), show_value(usual.get(k))] for k in own
    ]
    rows = [row for row in rows if row[0] in changed]
    parts = []
    if rows:
        head = ["setting", "value", "default"]
        parts.append(table(head, rows, label="Settings that differ from the defaults"))
    elif defaults:
        parts.append(tag("p", "All settings are the defaults."))
    if lost := [key for key in defaults or {} if key not in run.config]:
        text = f"Not in config.yaml: {', '.join(map(str, lost))}."
        parts.append(tag("p", text, class_="note problem"))
    rows = [
        [
            k,
            Html(
                tag("span", show_value(v)) + (tag("mark", "changed") * (k in changed))
            ),
        ]
        for k, v in own.items()
    ]
    every = table(["setting", "value"], rows, label="All settings")
    return lines(*parts, tag("details", tag("summary", "All settings"), every))


def show_environment(run: Record) -> Html:
    """Versions and machine."""
    known = {key: value for key, value in flatten(run.env).items() if key != "command"}
    if not known:
        return tag("p", "The environment is not known.")
    rows: list[list[object]] = [
        [key.removeprefix("packages."), show_value(value)]
        for key, value in known.items()
    ]
    return table(["what", "version or kind"], rows, label="Environment")
