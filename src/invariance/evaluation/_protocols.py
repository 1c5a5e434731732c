"""Protocols by name, their settings, and the settings that papers have published.

A protocol is asked for by name; ``settings`` change how it works, by group: those of
``fine_tune`` serve ``few_labels_fine_tune`` as well. A preset names protocols and
settings at once, as a paper reports them; settings given beside it go before its own.
Whatever is chosen stands in the settings of each score, so scores that were made
differently are never averaged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..encoders import Encoder, can_unroll
from ..errors import DataError, SettingError, choose
from ._attacked import attack_probe
from ._clustering import clustering
from ._few_labels import (
    DRAWS,
    SHARES,
    few_labels,
    few_labels_linear,
    list_shares,
    mark_draw,
)
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

Needs = Literal[
    "classes", "numbers", "towers", "alike pairs", "scored pairs", "nothing"
]
"""Classes or a number per sample; pairs, each side with a tower of its own; pairs of
one kind, also with scores of how alike people find them."""


@dataclass(frozen=True)
class Protocol:
    """A way of scoring."""

    run: Callable[..., Sequence[Score]]
    """From a subject, a seed and the settings that it takes to scores."""
    takes: tuple[str, ...] = ()
    """The groups of settings that it heeds."""
    needs: Needs = "classes"
    """What the data have to hold for it."""
    one_class: bool = False
    """Whether each sample has to be of one class."""
    kinds: tuple[str, ...] = ()
    """The kinds of samples that it is for; empty: all."""
    needs_encoder: bool = False
    """Whether it works with the encoder itself, and not with features of it."""
    seeded: bool = True
    """Whether another seed may give another score."""
    on_host: bool = False
    """Whether it is computed by the cores, whatever the device."""
    chance: Callable[..., list[Score]] | None = None
    """From a task and the settings to what guessing scores, where that is shown."""

    @property
    def by_one_encoder(self) -> bool:
        """Whether both sides of pairs are seen by the encoder that is scored."""
        return self.needs in ("alike pairs", "scored pairs")

    @property
    def fits_nothing(self) -> bool:
        """Whether it looks at test samples alone."""
        return self.by_one_encoder or self.needs == "towers"


@dataclass(frozen=True)
class Preset:
    """A protocol as it was published."""

    source: str
    """Where it is from, and how it differs."""
    protocols: tuple[str, ...]
    settings: Settings = field(default_factory=dict)


def _few_labels_linear(
    subject: Subject,
    seed: int,
    *,
    shares: float | Sequence[float] = SHARES,
    draws: int = DRAWS,
    **linear: Any,
) -> list[Score]:
    return [
        score
        for share in list_shares(shares)
        for score in few_labels_linear(
            *subject.features, share=share, draws=draws, seed=seed, **linear
        )
    ]


def _few_labels_fine_tune(
    subject: Subject,
    seed: int,
    *,
    shares: float | Sequence[float] = SHARES,
    draws: int = DRAWS,
    **training: Any,
) -> list[Score]:
    task, scores = subject.task, []
    for share in list_shares(shares):
        for draw in range(draws):
            few = few_labels(task.labels[task.rows], share, seed=seed, draw=draw)
            score = subject.train_on(fine_tune, task.rows[few], seed, **training)
            scores.append(mark_draw("few_labels_fine_tune", score, share, draw))
    return scores


def _attacked(subject: Subject, seed: int, **how: Any) -> list[Score]:
    test, place = subject.task.test, subject.task.device
    how = {"seed": seed, "device": place} | how
    return [attack_probe(subject.encoder, *subject.features, test, **how)]


def _steps_ahead(subject: Subject, seed: int, **how: Any) -> list[Score]:
    task, encoder = subject.task, subject.encoder
    if not isinstance(encoder, Encoder) or not can_unroll(encoder):
        return []  # another kind of network, which predicts nothing
    if min(len(task.rows), len(task.test)) < 2:
        return []  # nothing to tell a prediction from
    ahead = Ahead(encoder, **how)
    train, test = (
        task.encode(ahead, task.train, task.rows),
        task.encode(ahead, task.test),
    )
    recordings = recordings_of(getattr(task.test, "paths", None))
    parts = ahead.part(train), ahead.part(test)
    return steps_ahead(*parts, recordings=recordings, seed=seed)


# s is a Subject, and how are the settings of the groups that a protocol takes
PROTOCOLS: dict[str, Protocol] = {
    "knn": Protocol(
        lambda s, _, **how: [knn(*s.features, **how)], takes=("knn",), seeded=False
    ),
    "linear": Protocol(
        lambda s, seed, **how: [linear_probe(*s.features, seed=seed, **how)],
        takes=("linear",),
    ),
    "linear_sgd": Protocol(
        lambda s, seed, **how: [s.train_on(linear_sgd, s.task.rows, seed, **how)],
        takes=("linear_sgd",),
        needs_encoder=True,
    ),
    "fine_tune": Protocol(
        lambda s, seed, **how: [s.train_on(fine_tune, s.task.rows, seed, **how)],
        takes=("fine_tune",),
        needs_encoder=True,
    ),
    "few_labels_linear": Protocol(
        _few_labels_linear, takes=("few_labels", "linear"), one_class=True
    ),
    "few_labels_fine_tune": Protocol(
        _few_labels_fine_tune,
        takes=("few_labels", "fine_tune"),
        one_class=True,
        needs_encoder=True,
    ),
    "attacked": Protocol(
        _attacked, takes=("attack", "linear"), one_class=True, kinds=("image",)
    ),
    "retrieval": Protocol(
        lambda s, _: retrieval(*s.features), one_class=True, seeded=False
    ),
    "clustering": Protocol(
        lambda s, seed: clustering(*s.features[2:], seed=seed),
        one_class=True,
        on_host=True,
    ),
    "ridge": Protocol(
        lambda s, _, **how: [ridge(*s.measured_features, **how)],
        takes=("linear",),
        needs="numbers",
        seeded=False,
        on_host=True,
    ),
    "knn_regression": Protocol(
        lambda s, _, **how: [knn_regression(*s.measured_features, **how)],
        takes=("knn",),
        needs="numbers",
        seeded=False,
    ),
    "zero_shot": Protocol(
        lambda s, _, **how: score_zero_shot(s, **how),
        takes=("zero_shot",),
        needs="towers",
        one_class=True,
        seeded=False,
        chance=chance_of_zero_shot,
    ),
    "pairs": Protocol(
        lambda s, _: score_pairs(s),
        needs="towers",
        seeded=False,
        chance=chance_of_partners,
    ),
    "rank_correlation": Protocol(
        lambda s, _: [
            rank_correlation(s.test_features, s.other_features, s.task.scores)
        ],
        needs="scored pairs",
        seeded=False,
    ),
    "partner": Protocol(
        lambda s, _: score_partner(s), needs="alike pairs", seeded=False
    ),
    "steps_ahead": Protocol(
        _steps_ahead,
        takes=("steps_ahead",),
        needs="nothing",
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

    def settings_of(self, protocol: str) -> dict[str, Any]:
        """What a protocol is called with, of all the groups that it takes."""
        groups = [self.settings[group] for group in PROTOCOLS[protocol].takes]
        return {key: value for values in groups for key, value in values.items()}

    def suit(self, task: Task) -> tuple[str, ...]:
        """The protocols for these data; one that makes no sense there is refused."""
        misfits = {name: find_misfit(name, task) for name in self.protocols}
        if not self.open and (why := next(filter(None, misfits.values()), "")):
            raise DataError(why)
        fitting = tuple(name for name, why in misfits.items() if not why)
        if not task.several:
            return fitting
        suited = [name for name in fitting if not PROTOCOLS[name].one_class]
        others = [name for name in fitting if name not in suited]
        if others and not self.open:
            able = [name for name, p in PROTOCOLS.items() if not p.one_class]
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
    if protocol.needs == "towers" and task.other is None:
        return f"{name} compares both sides of pairs, but {task.data} has none."
    if protocol.by_one_encoder and not task.alike:
        return (
            f"{name} compares two {word}s of a pair, but {task.data} has no such pairs."
        )
    if protocol.needs == "scored pairs" and not can_rank(task.scores):
        return (
            f"{name} compares with scores of how alike pairs are, at least {FEWEST} "
            f"that differ, and {task.data} has none: add a column such as 'score', or "
            "leave it out."
        )
    if protocol.needs == "numbers" and not task.measured:
        return (
            f"{name} predicts a number per {word}, but {task.data} has none: train "
            "on a table with a --target of numbers, or leave it out."
        )
    if protocol.needs == "classes" and not task.labeled:
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
