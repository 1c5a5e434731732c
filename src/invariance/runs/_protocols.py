"""The protocols by name: each takes features and a task and gives scores."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..data import ImageSource
from ..evaluation import (
    Augment,
    Score,
    clustering,
    few_labels,
    few_labels_linear,
    fine_tune,
    knn,
    linear_probe,
    linear_sgd,
    retrieval,
)
from ..evaluation._few_labels import DRAWS, SHARES, drawn
from ..training._features import features
from ..views import ViewSet, weak


@dataclass(frozen=True)
class Task:
    """Labelled images to fit with and others to be scored on."""

    train: ImageSource
    test: ImageSource
    rows: Tensor
    """Of the training part, that may be used."""
    device: Any = "cpu"
    limit: int | None = None
    """What was asked for, if not all rows."""

    @cached_property
    def labels(self) -> Tensor:
        """Of all training images."""
        assert self.train.labels is not None
        return self.train.labels.cpu()

    @cached_property
    def test_labels(self) -> Tensor:
        """Of all test images."""
        assert self.test.labels is not None
        return self.test.labels.cpu()

    def augment(self, seed: int) -> Augment:
        """Generous crops and flips, keyed by seed, epoch and image."""
        channels, size, _ = self.train.shape
        views = ViewSet(weak(size, channels, n_views=1))

        def apply(images: Tensor, samples: Tensor, epoch: int) -> Tensor:
            return views(images, samples=samples, seed=seed, epoch=epoch)[0]

        return apply


@dataclass(frozen=True)
class Subject:
    """One kind of features: an encoder, or pixels where there is none."""

    name: str
    encoder: nn.Module | None
    task: Task

    @cached_property
    def h(
        self,
    ) -> tuple[Float[Tensor, "n e"], Tensor, Float[Tensor, "m e"], Tensor]:
        """Training features and labels, test features and labels."""
        task, place = self.task, self.task.device
        every = torch.arange(len(task.test))
        train = features(task.train, task.rows, self.encoder, place)
        test = features(task.test, every, self.encoder, place)
        return train, task.labels[task.rows], test, task.test_labels

    @property
    def images(self) -> tuple[ImageSource, Tensor, ImageSource, Tensor]:
        """Training images and labels, test images and labels."""
        task = self.task
        return task.train, task.labels, task.test, task.test_labels

    @property
    def network(self) -> nn.Module:
        """The encoder, where there must be one."""
        assert self.encoder is not None
        return self.encoder


@dataclass(frozen=True)
class Protocol:
    """A way of scoring."""

    run: Callable[[Subject, int], list[Score]]
    needs_encoder: bool = False
    seeded: bool = True
    """Whether another seed may give another score."""


def by_fine_tuning(subject: Subject, seed: int) -> list[Score]:
    """The encoder trained on, with all labels."""
    task = subject.task
    return [
        fine_tune(
            subject.network,
            *subject.images,
            rows=task.rows,
            augment=task.augment(seed),
            seed=seed,
            device=task.device,
        )
    ]


def by_sgd(subject: Subject, seed: int) -> list[Score]:
    """The papers' linear protocol."""
    task = subject.task
    return [
        linear_sgd(
            subject.network,
            *subject.images,
            rows=task.rows,
            augment=task.augment(seed),
            seed=seed,
            device=task.device,
        )
    ]


def by_few_linear(subject: Subject, seed: int) -> list[Score]:
    """Linear probes of few labels."""
    return [
        score
        for share in SHARES
        for score in few_labels_linear(*subject.h, share=share, seed=seed)
    ]


def by_few_fine_tuning(subject: Subject, seed: int) -> list[Score]:
    """The encoder trained on, with few labels."""
    task, found = subject.task, []
    for share in SHARES:
        for draw in range(DRAWS):
            few = few_labels(task.labels[task.rows], share, seed=seed, draw=draw)
            score = fine_tune(
                subject.network,
                *subject.images,
                rows=task.rows[few],
                augment=task.augment(seed),
                seed=seed,
                device=task.device,
            )
            found.append(drawn("few_labels_fine_tune", score, share, draw))
    return found


PROTOCOLS: dict[str, Protocol] = {
    "knn": Protocol(lambda s, _: [knn(*s.h)], seeded=False),
    "linear": Protocol(lambda s, seed: [linear_probe(*s.h, seed=seed)]),
    "linear_sgd": Protocol(by_sgd, needs_encoder=True),
    "fine_tune": Protocol(by_fine_tuning, needs_encoder=True),
    "few_labels_linear": Protocol(by_few_linear),
    "few_labels_fine_tune": Protocol(by_few_fine_tuning, needs_encoder=True),
    "retrieval": Protocol(lambda s, _: retrieval(*s.h), seeded=False),
    "clustering": Protocol(lambda s, seed: clustering(*s.h[2:], seed=seed)),
}
QUICK = ("knn", "linear", "few_labels_linear", "retrieval", "clustering")
