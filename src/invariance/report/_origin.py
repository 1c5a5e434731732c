"""Where the run comes from: its settings, its environment, how to make it again."""

import shlex
from collections.abc import Mapping
from typing import Any

from ..folder import CONFIG, OPEN, Record, flatten, show_value
from ..markup import Html, lines, tag
from ._facts import is_chosen
from ._html import table

# Of env.json, what the page tells elsewhere.
TOLD = (
    *("command", "federated", "images", "labeled", "method", "n_steps"),
    *("parameters", "peak_rate", "positives", "started", "used"),
)


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
    """What was asked for and what the run chose, then all the rest, folded."""
    settings = flatten(run.config)
    if not settings:
        return tag("p", "The settings are not known.")
    usual = flatten(defaults or {})
    asked: list[list[object]] = []
    chosen: list[list[object]] = []
    rest: list[list[object]] = []
    for key, value in settings.items():
        if is_chosen(run, key):
            chosen.append([key, show_used(run.used[key]), "chosen"])
        elif defaults and usual.get(key) != value and value != {}:
            normal = usual.get(key)
            instead = "" if normal in OPEN else f", not {show_value(normal)}"
            asked.append([key, show_value(value), tag("mark", f"asked for{instead}")])
        else:
            rest.append([key, show_value(value), "the default" if defaults else ""])
    head = ["setting", "value", "why"]
    parts = []
    if asked or chosen:
        rows = [*asked, *chosen]
        parts.append(table(head, rows, label="Settings asked for and chosen"))
    if defaults and not asked:
        parts.append(tag("p", "No setting was changed from its default."))
    if lost := [key for key in defaults or {} if key not in run.config]:
        text = f"Not in config.yaml: {', '.join(map(str, lost))}."
        parts.append(tag("p", text, class_="note problem"))
    if rest:
        title = "All other settings" if parts else "All settings"
        every = table(head, rest, label=title)
        parts.append(tag("details", tag("summary", title), every))
    return lines(*parts)


def show_used(value: object) -> str:
    """What an open setting came to; nobody wrote more than six digits.

    >>> show_used("tiny"), show_used(8 / 255)
    ('tiny', '0.0313725')
    """
    return show_value(float(f"{value:.6g}") if isinstance(value, float) else value)


def show_environment(run: Record) -> Html:
    """Versions and machine."""
    known = flatten({k: v for k, v in run.env.items() if k not in TOLD})
    if not known:
        return tag("p", "The environment is not known.")
    rows: list[list[object]] = [
        [key.removeprefix("packages."), show_value(value)]
        for key, value in known.items()
    ]
    return table(["what", "version or kind"], rows, label="Environment")
