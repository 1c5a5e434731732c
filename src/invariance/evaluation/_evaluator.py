"""The evaluator: an encoder beside its baselines, by every protocol asked for.

``train`` ends with it and ``invariance evaluate`` runs it again, on the same images, so
that both give the same rows and numbers. Whatever is fitted or chosen sees the training
part only. A limit on the training images is one of a row's settings: with another limit
it is another question.
"""

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import DataError, choose
from ..folder import TRAINED, Row
from ..views import ViewSet, weak
from ._clustering import clustering
from ._encode import encode_images
from ._few_labels import DRAWS, SHARES, few_labels, few_labels_linear, mark_draw
from ._fine_tune import fine_tune, fit_classifier
from ._images import Augment, Images
from ._knn import knn
from ._labeled import number_classes
from ._linear_probe import linear_probe
from ._linear_sgd import linear_sgd
from ._retrieval import retrieval
from ._score import Score
from ._table import render_scores

Say = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """Labeled images to fit with, and others to be scored on."""

    data: str
    """What the data are called."""
    train: Images
    labels: Int[Tensor, " n"]
    test: Images
    test_labels: Int[Tensor, " m"]
    shape: tuple[int, ...]
    """Channels, height and width of an image."""
    limit: int | None = None
    """Fit with at most so many training images, evenly spread."""
    device: Any = "cpu"
    fingerprint: str = ""
    """What tells the data from others of the same name."""
    parent: str = ""
    """What the folder around the data is called."""

    @property
    def about(self) -> dict[str, Any]:
        """What a row says about the data."""
        return {key: getattr(self, key) for key in ("data", "fingerprint", "parent")}

    @cached_property
    def rows(self) -> Int[Tensor, " k"]:
        """The training images that may be used."""
        return spread_rows(len(self.train), self.limit)

    def augment(self, seed: int) -> Augment:
        """Generous crops and flips, keyed by seed, epoch and image."""
        channels, size, _ = self.shape
        views = ViewSet(weak(size, channels, n_views=1))

        def apply(images: Tensor, samples: Tensor, epoch: int) -> Tensor:
            return views(images, samples=samples, seed=seed, epoch=epoch)[0]

        return apply


def make_task(train: Any, test: Any, *, limit: int | None, device: Any) -> Task:
    """The task of two image sources, or a sentence that says why there is none.

    A limit of 0 or None, or one that is no smaller than the training part, is none.
    """
    if train.labels is None:
        raise DataError(
            f"{train.name} has no labels, and scores compare with labels: use class "
            "folders or an .npz file with labels, or 'invariance diagnose', which "
            "needs none."
        )
    if len(train.labels.unique()) < 2:
        raise DataError(
            f"{train.name} has a single class, and scores tell classes apart: add "
            "images of another, or use 'invariance diagnose', which needs none."
        )
    if test.labels is None:
        raise DataError(f"The test part of {test.name} has no labels to score by.")
    bites = limit is not None and 0 < limit < len(train)
    return Task(
        data=train.name,
        train=train,
        labels=train.labels.cpu(),
        test=test,
        test_labels=test.labels.cpu(),
        shape=train.shape,
        limit=limit if bites else None,
        device=device,
        fingerprint=train.origin.fingerprint,
        parent=train.origin.parent,
    )


def spread_rows(n: int, most: int | None) -> Int[Tensor, " k"]:
    """At most so many of n row numbers, evenly spread.

    >>> spread_rows(10, 4).tolist(), spread_rows(2, None).tolist()
    ([0, 3, 6, 9], [0, 1])
    """
    return torch.linspace(0, n - 1, n if most is None else min(n, most)).round().long()


@dataclass(frozen=True)
class Subject:
    """One kind of features: an encoder, or pixels where there is none."""

    name: str
    encoder: nn.Module | None
    task: Task
    epoch: int | None = None
    """After which the encoder was taken, where the name does not tell."""

    @cached_property
    def features(
        self,
    ) -> tuple[Float[Tensor, "n e"], Tensor, Float[Tensor, "m e"], Tensor]:
        """Training features and labels, test features and labels."""
        task = self.task
        train = encode_images(self.encoder, task.train, task.rows, device=task.device)
        test = encode_images(self.encoder, task.test, device=task.device)
        return train, task.labels[task.rows], test, task.test_labels

    def train_on(
        self, protocol: Callable[..., Score], rows: Tensor, seed: int
    ) -> Score:
        """The score of a protocol that trains, starting from the encoder."""
        task = self.task
        return protocol(
            self.encoder,
            task.train,
            task.labels,
            task.test,
            task.test_labels,
            rows=rows,
            augment=task.augment(seed),
            seed=seed,
            device=task.device,
        )


@dataclass(frozen=True)
class Protocol:
    """A way of scoring."""

    run: Callable[[Subject, int], Sequence[Score]]
    """From a subject and a seed to scores."""
    needs_encoder: bool = False
    seeded: bool = True
    """Whether another seed may give another score."""


def _few_labels_linear(subject: Subject, seed: int) -> list[Score]:
    return [
        score
        for share in SHARES
        for score in few_labels_linear(*subject.features, share=share, seed=seed)
    ]


def _few_labels_fine_tune(subject: Subject, seed: int) -> list[Score]:
    task, scores = subject.task, []
    for share in SHARES:
        for draw in range(DRAWS):
            few = few_labels(task.labels[task.rows], share, seed=seed, draw=draw)
            score = subject.train_on(fine_tune, task.rows[few], seed)
            scores.append(mark_draw("few_labels_fine_tune", score, share, draw))
    return scores


PROTOCOLS: dict[str, Protocol] = {
    "knn": Protocol(lambda s, _: [knn(*s.features)], seeded=False),
    "linear": Protocol(lambda s, seed: [linear_probe(*s.features, seed=seed)]),
    "linear_sgd": Protocol(
        lambda s, seed: [s.train_on(linear_sgd, s.task.rows, seed)], needs_encoder=True
    ),
    "fine_tune": Protocol(
        lambda s, seed: [s.train_on(fine_tune, s.task.rows, seed)], needs_encoder=True
    ),
    "few_labels_linear": Protocol(_few_labels_linear),
    "few_labels_fine_tune": Protocol(_few_labels_fine_tune, needs_encoder=True),
    "retrieval": Protocol(lambda s, _: retrieval(*s.features), seeded=False),
    "clustering": Protocol(lambda s, seed: clustering(*s.features[2:], seed=seed)),
}
QUICK = ("knn", "linear", "few_labels_linear", "retrieval", "clustering")
LIMIT = 10_000
"""Training images that protocols are fitted on, unless another number is asked for."""


def choose_protocols(names: str | Sequence[str]) -> list[str]:
    """Names of protocols, each once; "all" is every one of them."""
    asked = [names] if isinstance(names, str) else list(names)
    chosen = list(PROTOCOLS) if "all" in asked else list(dict.fromkeys(asked))
    for name in chosen:
        choose(PROTOCOLS, name, "protocol")
    return chosen


@dataclass(frozen=True)
class Evaluation:
    """Scores of one run or several, as rows of evaluation.jsonl."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    """What a reader should know, in sentences."""
    unsaved: tuple[str, ...] = ()
    """Why scores of a run could not be added to its folder."""

    def values(self, protocol: str, features: str = TRAINED) -> list[float]:
        """The values of one protocol, in the order in which they were taken."""
        return [
            row["value"]
            for row in self.rows
            if (row["protocol"], row["features"]) == (protocol, features)
        ]

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
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def evaluate_encoders(
    task: Task,
    encoders: Mapping[str, nn.Module | None],
    *,
    protocols: Sequence[str] = QUICK,
    seeds: int = 1,
    epochs: Mapping[str, int] | None = None,
    say: Say = lambda _: None,
) -> list[Row]:
    """Rows of scores of several kinds of features, in their order.

    Args:
        task: Images to fit with and to be scored on.
        encoders: By the name of their features; None stands for the pixels.
        protocols: Names in ``PROTOCOLS``.
        seeds: How often what draws at random is repeated.
        epochs: The epoch of an encoder by the name of its features, where it has one.
        say: Called with a line about each score as it comes.
    """
    rows: list[Row] = []
    scored: dict[int, list[Row]] = {}  # one network under two names is scored once
    for name, encoder in encoders.items():
        epoch = (epochs or {}).get(name)
        known = None if encoder is None else scored.get(id(encoder))
        if known is None:
            subject = Subject(name, encoder, task, epoch)
            new = list(_score_subject(subject, protocols, seeds, say))
        else:
            new = [{**row, "features": name, "epoch": epoch} for row in known]
        if encoder is not None:
            scored[id(encoder)] = new
        rows += new
    return rows


def score_supervised_twin(
    task: Task,
    untrained: nn.Module,
    *,
    protocols: Sequence[str],
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
    correct = twin.predict(task.test, device=task.device) == truth
    settings = {"epochs": epochs, "batch_size": batch_size}
    score = Score.of("supervised", correct, settings, notes)
    say(f"supervised twin: {_in_short(score)}")
    subject = Subject("supervised twin", twin.encoder, task)
    # to train it on once more would be the same twice
    frozen = [name for name in protocols if not PROTOCOLS[name].needs_encoder]
    row = make_row(_with_limit(score, task), features=subject.name, **task.about)
    return [row, *_score_subject(subject, frozen, seeds, say)]


def make_row(
    score: Score,
    *,
    features: str,
    data: str,
    fingerprint: str = "",
    parent: str = "",
    seed: int = 0,
    epoch: int | None = None,
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
        "value": score.value,
        "interval": None if score.interval is None else list(score.interval),
        "n_test": score.n_test,
        "seed": seed,
        "epoch": epoch,
        "settings": dict(score.settings),
        "notes": list(score.notes),
    }


def _score_subject(
    subject: Subject, protocols: Sequence[str], seeds: int, say: Say
) -> Iterator[Row]:
    """Every protocol that suits these features, at every seed it depends on."""
    for name in protocols:
        protocol = PROTOCOLS[name]
        if protocol.needs_encoder and subject.encoder is None:
            continue
        for seed in range(seeds if protocol.seeded else 1):
            for score in protocol.run(subject, seed):
                say(f"{subject.name}: {_in_short(score)}")
                yield make_row(
                    _with_limit(score, subject.task),
                    features=subject.name,
                    **subject.task.about,
                    seed=seed,
                    epoch=subject.epoch,
                )


def _with_limit(score: Score, task: Task) -> Score:
    if task.limit is None:
        return score
    return dataclasses.replace(score, settings=score.settings | {"limit": task.limit})


def _in_short(score: Score) -> str:
    """A line for those who wait."""
    return f"{score.name} {score.metric} {100 * score.value:.1f} %"
