"""The run at a glance: what learned from what, how, where and for how long.

Each fact is there only if the folder has it: older runs say less.
"""

from dataclasses import dataclass
from typing import Any

from ..folder import OPEN, Record, finite_number, flatten, show_value
from ..markup import Html, lines, tag
from ..words import count, show_duration
from ._numbers import inside, show_number

ATTACKED = {
    "first": ", the first view attacked",
    "all": ", all views attacked",
    "added": ", an attacked view added",
}
PRECISIONS = {"32": "32 bit", "bf16": "bfloat16", "fp16": "16 bit"}


@dataclass(frozen=True)
class Fact:
    """One thing about a run, and what else to know about it."""

    name: str
    value: str
    below: str = ""


def name_task(run: Record) -> str:
    """What learned from what."""
    return f"{run.config.get('method', '?')} on {run.config.get('data', '?')}"


def summarize(run: Record) -> str:
    """The run in a line."""
    config = run.config
    if not config:
        return "The settings of this run are not known."
    epochs = config.get("epochs", "?")
    batch = find_setting(run, "batch_size")
    clients = inside(run.env, "federated", "clients")
    word = "round" if clients else "epoch"  # a federated epoch is a round
    length = count(epochs, word) if isinstance(epochs, int) else epochs
    if run.ended:
        length = f"{run.readings[-1]['epoch']:.4g} of {length}"
    if clients:
        length += f" of {count(len(clients), 'client')}"
    attacked = ATTACKED.get(str(config.get("views_adversarial")), "")
    unfinished = "" if run.finished else f"; unfinished, {run.reached}"
    return (
        f"{name_task(run)}, {length}, batches of {'?' if batch is None else batch}"
        f"{attacked}{unfinished}"
    )


def find_setting(run: Record, name: str) -> Any:
    """What a setting was: as asked for, or what it came to; None if nobody knows."""
    value = flatten(run.config).get(name)
    return run.used.get(name) if value in OPEN else value


def is_chosen(run: Record, name: str) -> bool:
    """Whether a setting was left open, and the run says what it came to."""
    return flatten(run.config).get(name) in OPEN and run.used.get(name) is not None


def list_facts(run: Record) -> list[Fact]:
    """All that is known."""
    rate = finite_number(run.env.get("peak_rate"))
    facts = [
        _data(run),
        _samples(run),
        _encoder(run),
        _setting(run, "batch", "batch_size"),
        _epochs(run),
        _setting(run, "temperature", "temperature"),
        Fact(
            "learning rate",
            f"up to {show_number(rate)}" if rate else "",
            str(inside(run.config, "optim", "name") or ""),
        ),
        _machine(run),
        _time(run),
        _version(run),
    ]
    return [fact for fact in facts if fact.value]


def show_facts(run: Record) -> Html:
    """The facts side by side; nothing where none is known."""
    pairs = [
        tag(
            "div", tag("dt", fact.name), tag("dd", fact.value, tag("small", fact.below))
        )
        for fact in list_facts(run)
    ]
    return tag("dl", lines(*pairs), class_="facts") if pairs else Html()


def _data(run: Record) -> Fact:
    data = run.images.get("name") or run.config.get("data")
    n_classes = run.images.get("n_classes")
    if not isinstance(n_classes, int) and run.gallery is not None:
        n_classes = len(run.gallery.class_names) or None
    classes = count(n_classes, "class", "classes") if isinstance(n_classes, int) else ""
    return Fact("data", show_value(data) if data else "", classes)


def _samples(run: Record) -> Fact:
    n_train, held_out = run.images.get("n_train"), run.images.get("n_held_out")
    if held_out is None:
        held_out = run.scores.n_test
    what = "in the test part" if run.images.get("own_test", True) else "held out"
    return Fact(
        f"{run.word}s",
        f"{n_train:,} to train on" if isinstance(n_train, int) else "",
        f"{held_out:,} {what}" if isinstance(held_out, int) else "",
    )


def _encoder(run: Record) -> Fact:
    names = [find_setting(run, key) for key in ("encoder", "other_encoder")]
    n_parameters = run.env.get("parameters")
    return Fact(
        "encoder",
        " and ".join(str(name) for name in names if isinstance(name, str)),
        f"{count(n_parameters, 'parameter')} with the head"
        if isinstance(n_parameters, int)
        else "",
    )


def _setting(run: Record, title: str, name: str) -> Fact:
    """A setting, and whether somebody asked for it."""
    value = find_setting(run, name)
    if value is None:
        return Fact(title, "")
    return Fact(title, show_value(value), "chosen" if is_chosen(run, name) else "")


def _epochs(run: Record) -> Fact:
    step = run.readings[-1].get("step") if run.readings else None
    steps = count(step, "step") if isinstance(step, int) else ""
    if run.finished:
        return Fact("epochs", "" if run.epochs is None else f"{run.epochs:g}", steps)
    return Fact("reached", run.reached, "unfinished")


def _machine(run: Record) -> Fact:
    bits = PRECISIONS.get(str(run.used.get("machine.precision")), "")
    device = run.env.get("gpu") or run.env.get("device")
    settings = flatten(run.config)
    devices, nodes = (
        finite_number(settings.get(f"machine.{name}")) or 1
        for name in ("devices", "nodes")
    )
    several = f"{devices * nodes:g} processes" if devices * nodes > 1 else ""
    below = ", ".join(filter(None, [bits, several]))
    return Fact("device", show_value(device) if device else "", below)


def _time(run: Record) -> Fact:
    started = run.env.get("started")
    took = f"{show_duration(run.seconds)} of training" if run.seconds else ""
    if not started:
        return Fact("time", took)
    return Fact("started", show_value(started), took)


def _version(run: Record) -> Fact:
    version, torch = run.env.get("invariance"), inside(run.env, "packages", "torch")
    return Fact(
        "version",
        f"invariance {version}" if version else "",
        f"PyTorch {torch}" if torch else "",
    )
