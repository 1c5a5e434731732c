"""What the run is: its size and settings, its environment, how to make it again."""

import shlex
from collections.abc import Mapping
from typing import Any

from ..folder import CONFIG, OPEN, Record, finite_number, flatten, show_value
from ..markup import Html, lines, tag
from ..words import count, show_duration
from ._html import table
from ._numbers import inside, show_number

# Of env.json, what the page tells elsewhere.
TOLD = (
    *("command", "federated", "images", "labeled", "method", "parameters"),
    *("peak_rate", "positives", "started", "used"),
)

ATTACKED = {
    "first": ", the first view attacked",
    "all": ", all views attacked",
    "added": ", an attacked view added",
}


def summarize(run: Record) -> str:
    """The run in a line."""
    config = run.config
    if not config:
        return "The settings of this run are not known."
    epochs = config.get("epochs", "?")
    batch = config.get("batch_size") or run.used.get("batch_size", "?")
    clients = inside(run.env, "federated", "clients")
    word = "round" if clients else "epoch"  # a federated epoch is a round
    length = count(epochs, word) if isinstance(epochs, int) else epochs
    if run.ended:
        length = f"{run.readings[-1]['epoch']:.4g} of {length}"
    if clients:
        length += f" of {count(len(clients), 'client')}"
    attacked = ATTACKED.get(str(config.get("views_adversarial")), "")
    return (
        f"{config.get('method', '?')} on {config.get('data', '?')}, {length}, "
        f"batches of {batch}{attacked}"
    )


def show_size(run: Record) -> str:
    """Which encoder learned from how much, when, and how long it took."""
    encoder, temperature = (run.used.get(key) for key in ("encoder", "temperature"))
    n_images = inside(run.env, "images", "n_train")
    n_parameters = inside(run.env, "parameters")
    rate = finite_number(inside(run.env, "peak_rate"))
    parts = [
        f"Encoder {encoder}" if encoder else "",
        count(n_parameters, "parameter") + " with the head"
        if isinstance(n_parameters, int)
        else "",
        count(n_images, run.word) + " to train on" if isinstance(n_images, int) else "",
        f"temperature {show_value(temperature)}" if temperature else "",
        f"learning rate up to {show_number(rate)}" if rate else "",
        f"started {run.env['started']}" if run.env.get("started") else "",
        f"{show_duration(run.seconds)} of training" if run.seconds else "",
    ]
    text = ", ".join(filter(None, parts))
    return f"{text[:1].upper()}{text[1:]}." if text else ""


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
    settings = flatten(run.config)
    if not settings:
        return tag("p", "The settings are not known.")
    usual = flatten(defaults or {})
    changed = {
        k for k, v in settings.items() if defaults and usual.get(k) != v and v != {}
    }
    rows: list[list[object]] = [
        [k, show_value(settings[k]), show_value(usual.get(k))] for k in settings
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
                tag("span", show_used(v, run.used.get(k)))
                + (tag("mark", "changed") * (k in changed))
            ),
        ]
        for k, v in settings.items()
    ]
    every = table(["setting", "value"], rows, label="All settings")
    return lines(*parts, tag("details", tag("summary", "All settings"), every))


def show_used(value: object, used: object) -> str:
    """A setting, and what it came to where it was left open.

    >>> show_used("auto", "tiny"), show_used(None, 0.5), show_used(0.1, 0.1)
    ('tiny (auto)', '0.5 (by default)', '0.1')
    >>> show_used(None, 8 / 255)  # nobody wrote so many digits
    '0.0313725 (by default)'
    """
    if used is None or value not in OPEN:
        return show_value(value)
    if isinstance(used, float):
        used = float(f"{used:.6g}")
    return f"{show_value(used)} ({'auto' if value else 'by default'})"


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
