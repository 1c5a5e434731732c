"""The evaluator: an encoder beside its baselines, by every protocol asked for.

``train`` ends with it and ``invariance evaluate`` runs it again, on the same images, so
that both give the same rows and numbers. Whatever is fitted or chosen sees the training
part only. A limit on the training images is one of a row's settings: with another limit
it is another question.
"""

import dataclasses
import functools
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..devices import leaves_cores_idle, run_beside
from ..errors import SettingError
from ..folder import CHANCE, METRIC_NAMES, NOT_SHARES, PROTOCOL_NAMES, TRAINED, Row
from ..markup import html_sentences
from ._fine_tune import fit_classifier
from ._labeled import number_classes
from ._predictions import judge
from ._protocols import PROTOCOLS, Protocol, ProtocolPlan, plan_protocols
from ._score import Score
from ._table import render_scores, show_scores
from ._task import Subject, Task

Say = Callable[[str], None]
Rows = Callable[[], list[Row]]
"""Rows that may still be in the making: calling it waits for them."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of one run or several, as rows of evaluation.jsonl."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    """What a reader should know, in sentences."""
    unsaved: tuple[str, ...] = ()
    """Why scores of a run could not be added to its folder."""

    def values(
        self, protocol: str, features: str = TRAINED, *, metric: str | None = None
    ) -> list[float]:
        """The values of one protocol, in the order in which they were taken.

        Of several metrics it is the protocol's main one, unless said: the accuracy
        rather than "top5", "map" rather than "map11", "nmi" rather than "ari".
        """
        rows = [
            row
            for row in self.rows
            if (row["protocol"], row["features"]) == (protocol, features)
        ]
        asked = rows[0]["metric"] if rows and metric is None else metric
        return [row["value"] for row in rows if row["metric"] == asked]

    def __str__(self) -> str:
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([*render_scores(self.rows), *notes])

    def __repr__(self) -> str:
        kinds = list(dict.fromkeys(row["features"] for row in self.rows))
        means = [
            f"{protocol} {100 * statistics.fmean(values):.1f} %"
            for protocol in ("knn", "linear")
            if (values := self.values(protocol))
        ]
        about = "; ".join([f"{len(self.rows)} scores of {', '.join(kinds)}", *means])
        return f"Evaluation({about})"

    def _repr_html_(self) -> str:
        return show_scores(self.rows) + html_sentences(self.notes)

    def to_pandas(self) -> Any:
        """The rows as a data frame of pandas, which has to be installed."""
        try:
            import pandas
        except ImportError:
            raise SettingError(
                "A data frame needs pandas: pip install pandas. Without it, "
                "evaluation.rows has the same rows as dictionaries."
            ) from None
        return pandas.DataFrame(list(self.rows))


def evaluate_encoders(
    task: Task,
    encoders: Mapping[str, nn.Module | None],
    *,
    plan: ProtocolPlan | None = None,
    seeds: int = 1,
    epochs: Mapping[str, int] | None = None,
    towers: Mapping[str, nn.Module] | None = None,
    say: Say = lambda _: None,
) -> list[Row]:
    """Rows of scores of several kinds of features, in their order.

    Args:
        task: Images to fit with and to be scored on.
        encoders: By the name of their features; None stands for the pixels.
        plan: Which protocols and how, see ``plan_protocols``; None is the quick ones.
        seeds: How often what draws at random is repeated.
        epochs: The epoch of an encoder by the name of its features, where it has one.
        towers: Both encoders with their heads by the same names, of runs on pairs; see
            ``encoders.Towers``.
        say: Called with a line about each score as it comes.
    """
    plan = plan_protocols() if plan is None else plan
    towers = towers or {}
    scored: dict[int, Rows] = {}  # one network under two names is scored once
    parts: list[tuple[str, Rows]] = []
    for name, encoder in encoders.items():
        if encoder is None or id(encoder) not in scored:
            subject = Subject(name, encoder, task, towers.get(name))
            scored[id(encoder)] = _score_subject(subject, plan, seeds, say)
        parts.append((name, scored[id(encoder)]))
    epochs = epochs or {}
    rows = [
        {**row, "features": name, "epoch": epochs.get(name)}
        | ({"plain": True} if encoders[name] is None else {})
        for name, rows in parts
        for row in rows()
    ]
    return [*(_score_chance(task, plan) if towers else []), *rows]


def _score_chance(task: Task, plan: ProtocolPlan) -> list[Row]:
    """What guessing scores, by the protocols that say so."""
    return [
        make_row(part, features=CHANCE, **task.about) | plan.mark(name)
        for name in plan.suit(task)
        if (chance := PROTOCOLS[name].chance) is not None
        for score in chance(task, **plan.settings_of(name))
        for part in score.split()
    ]


def score_supervised_twin(
    task: Task,
    untrained: nn.Module,
    *,
    plan: ProtocolPlan,
    seeds: int = 1,
    epochs: int,
    batch_size: int,
    seed: int,
    say: Say = lambda _: None,
) -> list[Row]:
    """Rows of the same network trained with labels from its first weights."""
    say("supervised twin: training")
    twin = fit_classifier(
        untrained,
        task.train,
        task.labels,
        rows=task.rows,
        augment=task.augment(seed),
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        device=task.device,
    )
    _, truth, _, notes = number_classes(task.labels[task.rows], task.test_labels)
    guesses = twin.guess(task.test, device=task.device)
    settings = {"epochs": epochs, "batch_size": batch_size}
    score = judge("supervised", [guesses], truth, settings, notes)
    say(f"supervised twin: {_in_short(score)}")
    subject = Subject("supervised twin", twin.encoder, task)
    # to train it on once more would be the same twice
    names = (name for name in plan.protocols if not PROTOCOLS[name].needs_encoder)
    frozen = dataclasses.replace(plan, protocols=tuple(names))
    rows = [
        make_row(_with_limit(part, task), features=subject.name, **task.about)
        for part in score.split()
    ]
    return [*rows, *_score_subject(subject, frozen, seeds, say)()]


def make_row(
    score: Score,
    *,
    features: str,
    data: str,
    fingerprint: str = "",
    parent: str = "",
    word: str = "image",
    seed: int = 0,
) -> Row:
    """A score as a plain row of evaluation.jsonl.

    >>> score = Score("clustering", 0.5, 10, None, {"k": 3}, metric="nmi")
    >>> row = make_row(score, features="raw pixels", data="shapes")
    >>> row["protocol"], row["metric"], row["value"], row["interval"]
    ('clustering', 'nmi', 0.5, None)
    """
    return {
        "features": features,
        "protocol": score.name,
        "metric": score.metric,
        "data": data,
        **({"fingerprint": fingerprint} if fingerprint else {}),
        **({"parent": parent} if parent else {}),
        **({"word": word} if word != "image" else {}),
        "value": score.value,
        "interval": None if score.interval is None else list(score.interval),
        "n_test": score.n_test,
        "seed": seed,
        "epoch": None,
        "settings": dict(score.settings),
        "notes": list(score.notes),
    }


def _score_subject(subject: Subject, plan: ProtocolPlan, seeds: int, say: Say) -> Rows:
    """Every protocol that suits these features, at every seed it depends on.

    Of several processes each encodes a share of the images and then runs some of the
    protocols; all of them give all rows. One process leaves some of them to the cores
    while a GPU works: they are waited for when the rows are asked for.
    """
    task = subject.task
    jobs = [
        (name, seed)
        for name in plan.suit(task)
        if subject.encoder is not None or not PROTOCOLS[name].needs_encoder
        if subject.towers is not None or PROTOCOLS[name].needs != "towers"
        for seed in range(seeds if PROTOCOLS[name].seeded else 1)
    ]
    for name, _ in jobs:  # before any process is alone with its protocol
        _encode_together(subject, PROTOCOLS[name])

    def score(job: tuple[str, int]) -> list[tuple[str, list[Row]]]:
        """A line about each score, and its rows."""
        name, seed = job
        protocol, made = PROTOCOLS[name], []
        for whole in protocol.run(subject, seed, **plan.settings_of(name)):
            about = {"features": subject.name, **task.about, "seed": seed}
            limited = whole if protocol.fits_nothing else _with_limit(whole, task)
            rows = [make_row(s, **about) | plan.mark(name) for s in limited.split()]
            made.append((f"{subject.name}: {_in_short(whole)}", rows))
        return made

    def tell(made: list[tuple[str, list[Row]]]) -> list[Row]:
        for line, _ in made:
            say(line)
        return [row for _, rows in made for row in rows]

    idle = task.processes.count == 1 and leaves_cores_idle(task.device)
    begun = {
        job: run_beside(functools.partial(score, job))
        for job in jobs
        if idle and PROTOCOLS[job[0]].on_host
    }
    rest = [job for job in jobs if job not in begun]
    done = dict(zip(rest, map(tell, task.processes.deal(score, rest)), strict=True))

    @functools.cache
    def rows() -> list[Row]:
        done.update({job: tell(wait()) for job, wait in begun.items()})
        return [row for job in jobs for row in done[job]]

    return rows


def _encode_together(subject: Subject, protocol: Protocol) -> None:
    """Make the features that a protocol works with, a share of them by each process."""
    if protocol.fits_nothing:
        _ = subject.test_features
    elif not protocol.needs_encoder:
        _ = subject.both_features
    if protocol.by_one_encoder:
        _ = subject.other_features


def _with_limit(score: Score, task: Task) -> Score:
    if task.limit is None:
        return score
    return dataclasses.replace(score, settings=score.settings | {"limit": task.limit})


def _in_short(score: Score) -> str:
    """A line for those who wait."""
    percent = "" if score.metric in NOT_SHARES else " %"
    details = [METRIC_NAMES.get(score.metric, score.metric)]
    if "n_labels" in score.settings:
        details.append(f"{score.settings['n_labels']:,} labels")
    if "draw" in score.settings:
        details.append(f"draw {score.settings['draw']}")
    inside = ", ".join(filter(None, details))
    name = PROTOCOL_NAMES.get(score.name, score.name) + (f" ({inside})" * bool(inside))
    return f"{name} {score.show(score.value)}{percent}"
