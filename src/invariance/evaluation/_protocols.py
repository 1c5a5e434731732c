"""Protocols by name, their settings, and the settings that papers have published.

A protocol is asked for by name; ``settings`` change how it works, by group: those of
``fine_tune`` serve ``few_labels_fine_tune`` as well. A preset names protocols and
settings at once, as a paper reports them; settings given beside it go before its own.
Whatever is chosen stands in the settings of each score, so scores that were made
differently are never averaged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..encoders import Encoder, can_unroll
from ..errors import DataError, SettingError, choose
from ._attacked import attack_probe
from ._clustering import clustering
from ._encode import encode_images
from ._few_labels import DRAWS, SHARES, few_labels, few_labels_linear, mark_draw
from ._fine_tune import fine_tune
from ._groups import GROUPS, Settings, check_settings
from ._knn import knn
from ._linear_probe import linear_probe
from ._linear_sgd import linear_sgd
from ._pairs import (
    chance_of_partners,
    chance_of_zero_shot,
    score_pairs,
    score_partner,
    score_zero_shot,
)
from ._rank_correlation import FEWEST, can_rank, rank_correlation
from ._regression import knn_regression, ridge
from ._retrieval import retrieval
from ._score import Score
from ._steps_ahead import Ahead, recordings_of, steps_ahead
from ._task import Subject, Task


@dataclass(frozen=True)
class Protocol:
    """A way of scoring."""

    run: Callable[[Subject, int, Mapping[str, dict[str, Any]]], Sequence[Score]]
    """From a subject, a seed and settings by group to scores."""
    takes: tuple[str, ...] = ()
    """The groups of settings that it heeds."""
    needs_encoder: bool = False
    seeded: bool = True
    """Whether another seed may give another score."""
    on_host: bool = False
    """Whether it is computed by the cores, whatever the device."""
    several: bool = False
    """Whether images may show several classes."""
    labeled: bool = True
    """Whether it compares with labels."""
    kinds: tuple[str, ...] = ()
    """The kinds of samples that it is for; empty: all."""
    paired: bool = False
    """Whether it compares both sides of pairs, each by its own tower."""
    alike: bool = False
    """Whether it compares both sides of pairs of one kind, by the same encoder."""
    measured: bool = False
    """Whether it predicts a number per sample."""
    scored: bool = False
    """Whether it compares with people's scores of pairs."""
    chance: Callable[[Task, Mapping[str, dict[str, Any]]], list[Score]] | None = None
    """What guessing scores, where that is worth a column."""


@dataclass(frozen=True)
class Preset:
    """A protocol as it was published."""

    source: str
    """Where it is from, and how it differs."""
    protocols: tuple[str, ...]
    settings: Settings = field(default_factory=dict)


def _few_labels_linear(
    subject: Subject, seed: int, of: Mapping[str, dict[str, Any]]
) -> list[Score]:
    shares, draws = _shares_and_draws(**of["few_labels"])
    return [
        score
        for share in shares
        for score in few_labels_linear(
            *subject.features, share=share, draws=draws, seed=seed, **of["linear"]
        )
    ]


def _few_labels_fine_tune(
    subject: Subject, seed: int, of: Mapping[str, dict[str, Any]]
) -> list[Score]:
    task, scores = subject.task, []
    shares, draws = _shares_and_draws(**of["few_labels"])
    for share in shares:
        for draw in range(draws):
            few = few_labels(task.labels[task.rows], share, seed=seed, draw=draw)
            score = subject.train_on(fine_tune, task.rows[few], seed, **of["fine_tune"])
            scores.append(mark_draw("few_labels_fine_tune", score, share, draw))
    return scores


def _attacked(
    subject: Subject, seed: int, of: Mapping[str, dict[str, Any]]
) -> list[Score]:
    task = subject.task
    how = {"seed": seed, "device": task.device} | of["linear"] | of["attack"]
    return [attack_probe(subject.encoder, *subject.features, task.test, **how)]


def _steps_ahead(
    subject: Subject, seed: int, of: Mapping[str, dict[str, Any]]
) -> list[Score]:
    task, encoder = subject.task, subject.encoder
    if not isinstance(encoder, Encoder) or not can_unroll(encoder):
        return []  # another kind of network, which predicts nothing
    if min(len(task.rows), len(task.test)) < 2:
        return []  # nothing to tell a prediction from
    ahead = Ahead(encoder, **of["steps_ahead"])
    how: dict[str, Any] = {"device": task.device, "processes": task.processes}
    train = encode_images(ahead, task.train, task.rows, **how)
    test = encode_images(ahead, task.test, **how)
    recordings = recordings_of(getattr(task.test, "paths", None))
    parts = ahead.part(train), ahead.part(test)
    return steps_ahead(*parts, recordings=recordings, seed=seed)


def _shares_and_draws(
    shares: float | Sequence[float] = SHARES, draws: int = DRAWS
) -> tuple[list[float], int]:
    return [shares] if isinstance(shares, (int, float)) else list(shares), draws


unlabeled = partial(Protocol, several=True, labeled=False)  # whatever the classes
PROTOCOLS: dict[str, Protocol] = {
    "knn": Protocol(
        lambda s, _, of: [knn(*s.features, **of["knn"])],
        takes=("knn",),
        seeded=False,
        several=True,
    ),
    "linear": Protocol(
        lambda s, seed, of: [linear_probe(*s.features, seed=seed, **of["linear"])],
        takes=("linear",),
        several=True,
    ),
    "linear_sgd": Protocol(
        lambda s, seed, of: [
            s.train_on(linear_sgd, s.task.rows, seed, **of["linear_sgd"])
        ],
        takes=("linear_sgd",),
        needs_encoder=True,
        several=True,
    ),
    "fine_tune": Protocol(
        lambda s, seed, of: [
            s.train_on(fine_tune, s.task.rows, seed, **of["fine_tune"])
        ],
        takes=("fine_tune",),
        needs_encoder=True,
        several=True,
    ),
    "few_labels_linear": Protocol(_few_labels_linear, takes=("few_labels", "linear")),
    "few_labels_fine_tune": Protocol(
        _few_labels_fine_tune, takes=("few_labels", "fine_tune"), needs_encoder=True
    ),
    "attacked": Protocol(
        _attacked,
        takes=("attack", "linear"),
        kinds=("image",),
    ),
    "retrieval": Protocol(lambda s, *_: retrieval(*s.features), seeded=False),
    "clustering": Protocol(
        lambda s, seed, _: clustering(*s.features[2:], seed=seed), on_host=True
    ),
    "ridge": unlabeled(
        lambda s, _, of: [ridge(*s.measured_features, **of["linear"])],
        takes=("linear",),
        seeded=False,
        on_host=True,
        measured=True,
    ),
    "knn_regression": unlabeled(
        lambda s, _, of: [knn_regression(*s.measured_features, **of["knn"])],
        takes=("knn",),
        seeded=False,
        measured=True,
    ),
    "zero_shot": Protocol(
        lambda s, _, of: score_zero_shot(s, **of["zero_shot"]),
        takes=("zero_shot",),
        seeded=False,
        labeled=False,
        paired=True,
        chance=lambda task, of: chance_of_zero_shot(task, **of["zero_shot"]),
    ),
    "pairs": unlabeled(
        lambda s, *_: score_pairs(s),
        seeded=False,
        paired=True,
        chance=lambda task, _: chance_of_partners(task),
    ),
    "rank_correlation": unlabeled(
        lambda s, *_: [
            rank_correlation(s.test_features, s.other_features, s.task.scores)
        ],
        seeded=False,
        alike=True,
        scored=True,
    ),
    "partner": unlabeled(
        lambda s, *_: score_partner(s),
        seeded=False,
        alike=True,
    ),
    "steps_ahead": unlabeled(
        _steps_ahead,
        takes=("steps_ahead",),
        needs_encoder=True,
        kinds=("sequence",),
    ),
}
QUICK = (
    *("zero_shot", "pairs", "rank_correlation", "partner"),
    *("knn", "linear", "few_labels_linear", "retrieval", "clustering"),
    *("ridge", "knn_regression"),
    "steps_ahead",
)
LIMIT = 10_000
"""Training images that protocols are fitted on, unless another number is asked for."""

FLATNCE_FINE_TUNE = {
    "epochs": 100,
    "min_steps": 0,
    "batch_size": 512,
    "lr": 5e-5,
    "weight_decay": 0.0,
    "optimizer": "nadam",
    "schedule": "constant",
}
PRESETS: dict[str, Preset] = {
    "instance_knn": Preset(
        "Wu et al. 2018, instance discrimination: 200 neighbors, temperature 0.07",
        ("knn",),
        {"knn": {"k": 200, "temperature": 0.07}},
    ),
    "simclr_linear": Preset(
        "Chen et al. 2020, SimCLR, appendix B: SGD for 90 epochs, batches of 4,096, "
        "0.1 for 256 images, no decay; crops and flips",
        ("linear_sgd",),
        {
            "linear_sgd": {
                "epochs": 90,
                "batch_size": 4096,
                "lr": 0.1,
                "standardize": False,
            }
        },
    ),
    "moco_linear": Preset(
        "He et al. 2020, MoCo: SGD for 100 epochs, batches of 256, rate 30 on features "
        "as they are, a tenth at epochs 60 and 80, no decay; crops and flips; here "
        "with Nesterov's momentum",
        ("linear_sgd",),
        {
            "linear_sgd": {
                "epochs": 100,
                "batch_size": 256,
                "lr": 30.0,
                "weight_decay": 0.0,
                "schedule": "step",
                "standardize": False,
            }
        },
    ),
    "dhel_linear": Preset(
        "Koromilas et al. 2024, DHEL and KCL, by the code base they name: SGD for "
        "80,000 steps of 1,024 (1,638 epochs of CIFAR), rate 0.1 falling linearly, "
        "decay 1e-4",
        ("linear_sgd",),
        {
            "linear_sgd": {
                "epochs": 1638,
                "batch_size": 1024,
                "lr": 0.1 * 256 / 1024,  # 0.1 as it is: here it grows with the batch
                "weight_decay": 1e-4,
                "schedule": "linear",
                "standardize": False,
            }
        },
    ),
    "flatnce_linear": Preset(
        "FlatNCE, appendix I: logistic regression without a penalty, no augmentation; "
        "theirs by Adam, here by Newton's method on standardized features",
        ("linear",),
        {"linear": {"l2": 0.0}},
    ),
    "flatnce_fine_tune": Preset(
        "FlatNCE, appendix I: 100 epochs of NAdam in batches of 512, a constant rate "
        "of 5e-5 (printed as 5 to the power of -5), no decay; crops and flips",
        ("fine_tune",),
        {"fine_tune": FLATNCE_FINE_TUNE},
    ),
    "flatnce_few_labels": Preset(
        "FlatNCE, table S3: 1 % and 10 % of the labels, fine-tuned as in its appendix "
        "I; one draw",
        ("few_labels_fine_tune",),
        {
            "few_labels": {"shares": (0.01, 0.1), "draws": 1},
            "fine_tune": FLATNCE_FINE_TUNE,
        },
    ),
}


@dataclass(frozen=True)
class ProtocolPlan:
    """Which protocols to run, and how."""

    protocols: tuple[str, ...]
    settings: Mapping[str, dict[str, Any]]
    """By group; a group without any is empty."""
    preset: str | None = None
    given: Settings = field(default_factory=dict)
    """The settings that are neither usual nor the preset's."""
    open: bool = False
    """Whether nobody named one by one: those that do not suit the data are left out."""

    def mark(self, protocol: str) -> dict[str, Any]:
        """What a row says about settings that are not the usual ones."""
        groups = (self.given.get(group, {}) for group in PROTOCOLS[protocol].takes)
        changed = {key: value for values in groups for key, value in values.items()}
        marks = {"preset": self.preset, "changed": changed}
        return {key: value for key, value in marks.items() if value}

    def suit(self, task: Task) -> tuple[str, ...]:
        """The protocols for these data; one that makes no sense there is refused."""
        misfits = {name: find_misfit(name, task) for name in self.protocols}
        if not self.open and (why := next(filter(None, misfits.values()), "")):
            raise DataError(why)
        fitting = tuple(name for name, why in misfits.items() if not why)
        if not task.several:
            return fitting
        suited = [name for name in fitting if PROTOCOLS[name].several]
        others = [name for name in fitting if name not in suited]
        if others and not self.open:
            able = [name for name, protocol in PROTOCOLS.items() if protocol.several]
            raise DataError(
                f"{', '.join(others)} {'needs' if len(others) == 1 else 'need'} one "
                f"class per image, and images of {task.data} may show several: use "
                f"{', '.join(able)}."
            )
        return tuple(suited)


def find_misfit(name: str, task: Task) -> str:
    """Why a protocol cannot score these samples; empty where it can.

    Whether samples may have several classes is another question.
    """
    protocol, word = PROTOCOLS[name], task.train.kind.word
    if protocol.kinds and task.train.kind.name not in protocol.kinds:
        return (
            f"{name} is for {', '.join(protocol.kinds)} data, but a sample of "
            f"{task.data} is a {word}: leave it out."
        )
    if protocol.paired and task.other is None:
        return f"{name} compares both sides of pairs, but {task.data} has none."
    if protocol.alike and not task.alike:
        return (
            f"{name} compares two {word}s of a pair, but {task.data} has no such pairs."
        )
    if protocol.scored and not can_rank(task.scores):
        return (
            f"{name} compares with scores of how alike pairs are, at least {FEWEST} "
            f"that differ, and {task.data} has none: add a column such as 'score', or "
            "leave it out."
        )
    if protocol.measured and not task.measured:
        return (
            f"{name} predicts a number per {word}, but {task.data} has none: train "
            "on a table with a --target of numbers, or leave it out."
        )
    if protocol.labeled and not task.labeled:
        instead = "use ridge or knn_regression" if task.measured else "leave it out"
        return (
            f"{name} compares with labels, but the {word}s of {task.data} have none: "
            f"{instead}."
        )
    return ""


def plan_protocols(
    protocols: str | Sequence[str] | None = None,
    *,
    settings: Settings | None = None,
    preset: str | None = None,
) -> ProtocolPlan:
    """What is asked for, checked; None is the preset's, or the quick ones.

    >>> plan_protocols(preset="instance_knn").settings["knn"]
    {'k': 200, 'temperature': 0.07}
    >>> plan_protocols("knn", settings={"fine_tune": {"epochs": 5}})
    Traceback (most recent call last):
    invariance.errors.SettingError: Settings of fine_tune would have no effect on knn: \
leave them out, or ask for fine_tune or few_labels_fine_tune.
    """
    given = {group: dict(values) for group, values in (settings or {}).items()}
    base: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    names: tuple[str, ...] = QUICK
    usual = protocols is None and preset is None
    if preset is not None:
        published = choose(PRESETS, preset, "preset")
        names = published.protocols
        if protocols is not None and list(choose_protocols(protocols)) != list(names):
            raise SettingError(
                f"The preset {preset} is made of {', '.join(names)}: leave the "
                "protocols out, or the preset."
            )
        base |= {group: dict(values) for group, values in published.settings.items()}
    elif protocols is not None:
        names = tuple(choose_protocols(protocols))
    if not names:
        raise SettingError(f"Name a protocol: {', '.join(PROTOCOLS)}.")
    heeded = {group for name in names for group in PROTOCOLS[name].takes}
    check_settings(given)
    for group, values in given.items():
        if values and group not in heeded:
            able = [name for name, p in PROTOCOLS.items() if group in p.takes]
            on = "the quick protocols" if usual else ", ".join(names)
            raise SettingError(
                f"Settings of {group} would have no effect on {on}: leave them out, or "
                f"ask for {' or '.join(able)}."
            )
        base[group] |= values
    return ProtocolPlan(
        tuple(names), base, preset, given, usual or asks_for_all(protocols)
    )


def asks_for_all(names: str | Sequence[str] | None) -> bool:
    """Whether it is whatever suits the data.

    >>> asks_for_all("all"), asks_for_all(["knn", "all"]), asks_for_all(None)
    (True, True, False)
    """
    return "all" in ([names] if isinstance(names, str) else names or ())


def choose_protocols(names: str | Sequence[str]) -> list[str]:
    """Names of protocols, each once; "all" are those that suit the data."""
    asked = [names] if isinstance(names, str) else list(names)
    chosen = list(PROTOCOLS) if asks_for_all(names) else list(dict.fromkeys(asked))
    for name in chosen:
        choose(PROTOCOLS, name, "protocol")
    return chosen
