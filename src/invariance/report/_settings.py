"""How the run was made: its settings, its environment, the command to make it again."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ._files import RunFiles
from ._html import Html, lines, table, tag

# what may differ among runs of one setting: chance, names, and what is shown or kept
UNLIKE = {
    *("seed", "name", "out", "resume", "dry_run", "quiet", "json"),
    *("log_every", "knn_every", "checkpoint_seconds", "evaluate", "trackers"),
    *("storage", "workers", "data_root"),
    *("machine.device", "machine.devices", "machine.nodes", "machine.strategy"),
}


def again(run: RunFiles) -> Html:
    """The command that makes this run once more, and the one that made it."""
    said = []
    if run.config:
        path = shlex.quote(str(run.folder / "config.yaml"))
        said.append(tag("pre", tag("code", f"invariance train --config {path}")))
    if command := run.env.get("command"):
        said.append(tag("p", "It was started as:", class_="note"))
        said.append(tag("pre", tag("code", command)))
    return lines(*said) if said else tag("p", "Neither settings nor command are known.")


def settings(run: RunFiles, defaults: Mapping[str, Any] | None) -> Html:
    """What differs from the defaults, then everything, folded."""
    own = flat(run.config)
    if not own:
        return tag("p", "The settings are not known.")
    usual = flat(defaults or {})
    changed = {k for k, v in own.items() if defaults and usual.get(k) != v and v != {}}
    rows: list[list[object]] = [[k, told(own[k]), told(usual.get(k))] for k in own]
    rows = [row for row in rows if row[0] in changed]
    said = []
    if rows:
        head = ["setting", "value", "default"]
        said.append(table(head, rows, label="Settings that differ from the defaults"))
    elif defaults:
        said.append(tag("p", "All settings are the defaults."))
    if lost := [key for key in defaults or {} if key not in run.config]:
        text = f"Not in config.yaml: {', '.join(map(str, lost))}."
        said.append(tag("p", text, class_="note problem"))
    rows = [
        [k, Html(tag("span", told(v)) + (tag("mark", "changed") * (k in changed)))]
        for k, v in own.items()
    ]
    every = table(["setting", "value"], rows, label="All settings")
    return lines(*said, tag("details", tag("summary", "All settings"), every))


def environment(run: RunFiles) -> Html:
    """Versions and machine."""
    known = {key: value for key, value in flat(run.env).items() if key != "command"}
    if not known:
        return tag("p", "The environment is not known.")
    rows: list[list[object]] = [
        [key.removeprefix("packages."), told(value)] for key, value in known.items()
    ]
    return table(["what", "version or kind"], rows, label="Environment")


def alike(configs: Sequence[Mapping[Any, Any]]) -> list[list[int]]:
    """Numbers of runs, those together that are seeds of one setting.

    >>> alike([{"lr": 1, "seed": 0}, {"lr": 2, "seed": 0}, {"lr": 1, "seed": 1}])
    [[0, 2], [1]]
    """
    groups: dict[str, list[int]] = {}
    for k, config in enumerate(configs):
        kept = {key: v for key, v in flat(config).items() if key not in UNLIKE}
        key = repr(sorted(kept.items(), key=lambda pair: pair[0])) if kept else str(k)
        groups.setdefault(key, []).append(k)
    return list(groups.values())


def flat(values: Mapping[Any, Any], before: str = "") -> dict[str, Any]:
    """Nested names joined by dots.

    >>> flat({"seed": 0, "optim": {"lr": 0.1}, "options": {}})
    {'seed': 0, 'optim.lr': 0.1, 'options': {}}
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{before}{key}.")
        else:  # YAML has no tuples
            found[f"{before}{key}"] = list(value) if isinstance(value, tuple) else value
    return found


def told(value: object) -> str:
    """A setting as a person would write it."""
    words: dict[object, str] = {None: "not set", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return words[value]
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value == {} else str(value)
