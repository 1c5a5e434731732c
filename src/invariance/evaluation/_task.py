"""What is scored on what: images with labels, and the features of one encoder."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn

from ..data import Image
from ..devices import free_bytes
from ..errors import DataError
from ..processes import ALONE, Processes
from ..views import ViewSet, weak
from ._encode import encode_images
from ._images import Augment, Images
from ._regression import can_regress
from ._score import Score

UNLABELED = ("sequence",)  # kinds of samples that are scored without labels, too
COPIES = 4  # of all features, that a protocol may hold


@dataclass(frozen=True)
class Task:
    """Labeled images to fit with, and others to be scored on.

    Labels are one class per image, or a row of 0 and 1 (-1: not known) per image where
    it may show several classes; none at all where samples are scored without labels.
    """

    data: str
    """What the data are called."""
    train: Images
    labels: Integer[Tensor, "n *c"]
    test: Images
    test_labels: Integer[Tensor, "m *c"]
    shape: tuple[int, ...]
    """Of a sample: an image's channels, height and width."""
    limit: int | None = None
    """Fit with at most so many training images, evenly spread."""
    device: Any = "cpu"
    fingerprint: str = ""
    """What tells the data from others of the same name."""
    parent: str = ""
    """What the folder around the data is called."""
    processes: Processes = ALONE
    """Those that share the work out among them; each of them has this task."""
    quantities: Float[Tensor, " k"] | None = None
    """A number per sample to predict, where there is one."""
    test_quantities: Float[Tensor, " l"] | None = None

    @property
    def about(self) -> dict[str, Any]:
        """What a row says about the data."""
        about = {key: getattr(self, key) for key in ("data", "fingerprint", "parent")}
        return about | {"word": "pair" if self.alike else self.train.kind.word}

    @property
    def several(self) -> bool:
        """Whether an image may show several classes."""
        return self.labels.ndim == 2

    @property
    def other(self) -> Any:
        """The other side of the samples to be scored on, where they are pairs."""
        return getattr(self.test, "other", None)

    @property
    def alike(self) -> bool:
        """Whether these are pairs of one kind, which one encoder can compare."""
        return self.other is not None and self.other.kind == self.test.kind

    @property
    def scores(self) -> Float[Tensor, " m"] | None:
        """How alike people find the two samples of each pair, where they were asked."""
        return getattr(self.test, "scores", None)

    @property
    def labeled(self) -> bool:
        """Whether there are labels to compare with."""
        return len(self.labels) > 0

    @property
    def measured(self) -> bool:
        """Whether there is a number per sample to compare with."""
        return can_regress(self.quantities, self.test_quantities)

    @cached_property
    def rows(self) -> Int[Tensor, " k"]:
        """The training images that may be used."""
        return spread_rows(len(self.train), self.limit)

    def encode(
        self,
        encoder: nn.Module | None,
        source: Images,
        rows: Int[Tensor, " k"] | None = None,
    ) -> Float[Tensor, "k e"]:
        """Features of some samples, a share of them made by each process."""
        how: dict[str, Any] = {"device": self.device, "processes": self.processes}
        return encode_images(encoder, source, rows, **how)

    def augment(self, seed: int) -> Augment | None:
        """Generous crops and flips, keyed by seed, epoch and image.

        None for samples that are no images, which are taken as they are.
        """
        if not isinstance(self.train.kind, Image):
            return None
        channels, size, _ = self.shape
        views = ViewSet(weak(size, channels, n_views=1))

        def apply(images: Tensor, samples: Tensor, epoch: int) -> Tensor:
            return views(images, samples=samples, seed=seed, epoch=epoch)[0]

        return apply


def make_task(
    train: Any,
    test: Any,
    *,
    limit: int | None,
    device: Any,
    processes: Processes = ALONE,
) -> Task:
    """The task of two image sources, or a sentence that says why there is none.

    A limit of 0 or None, or one that is no smaller than the training part, is none.
    """
    labels, test_labels = train.targets, test.targets
    quantities, test_quantities = find_quantities(train), find_quantities(test)
    if quantities is not None and not can_regress(quantities, test_quantities):
        raise DataError(
            f"The numbers of {train.name} to predict need to differ among training and "
            f"among test {train.kind.word}s, of which there are {len(train):,} and "
            f"{len(test):,}: add more."
        )
    useless = labels is None or test_labels is None or len(labels.unique()) < 2
    if useless and is_scored_without_labels(test):
        labels = test_labels = torch.empty(0, dtype=torch.long)
    elif labels is None:
        raise DataError(
            f"{train.name} has no labels, but scores compare with labels: use class "
            "folders or an .npz file with labels, or 'invariance diagnose', which "
            "needs none."
        )
    # of several classes per image, one may be all there is: its images and the others
    elif len(labels.unique()) < 2:
        raise DataError(
            f"{train.name} has a single class, but scores tell classes apart: add "
            "images of another, or use 'invariance diagnose', which needs none."
        )
    elif test_labels is None:
        raise DataError(f"The test part of {test.name} has no labels to score by.")
    bites = limit is not None and 0 < limit < len(train)
    return Task(
        data=train.name,
        train=train,
        labels=labels.cpu(),
        test=test,
        test_labels=test_labels.cpu(),
        shape=train.shape,
        limit=limit if bites else None,
        device=device,
        fingerprint=train.origin.fingerprint,
        parent=train.origin.parent,
        processes=processes,
        quantities=quantities,
        test_quantities=test_quantities,
    )


def find_quantities(source: Any) -> Float[Tensor, " n"] | None:
    """The number of each sample to predict; None where samples have none."""
    given = getattr(source, "quantities", None)
    return None if given is None else given.cpu()


def is_scored_without_labels(source: Any) -> bool:
    """Whether some protocol scores such samples by something else than labels."""
    given = getattr(source, "other", None), find_quantities(source)
    return source.kind.name in UNLABELED or any(part is not None for part in given)


def spread_rows(n: int, most: int | None) -> Int[Tensor, " k"]:
    """At most so many of n row numbers, evenly spread, the first and the last included.

    Which images a run with a limit trains on is another rule, ``data.load``'s: neither
    may change, or old runs and scores would mean other images.

    >>> spread_rows(10, 4).tolist(), spread_rows(2, None).tolist()
    ([0, 3, 6, 9], [0, 1])
    """
    return torch.linspace(0, n - 1, n if most is None else min(n, most)).round().long()


def list_partnered(source: Images) -> Int[Tensor, " k"]:
    """The samples whose pair belongs together: of scored pairs, the most alike."""
    rows, scores = torch.arange(len(source)), getattr(source, "scores", None)
    return rows if scores is None else rows[scores.cpu() == scores.max().cpu()]


@dataclass(frozen=True)
class Subject:
    """One kind of features: an encoder, or pixels where there is none."""

    name: str
    encoder: nn.Module | None
    task: Task
    towers: Any = None
    """Both encoders with their heads, where there are two: see ``encoders.Towers``."""

    @cached_property
    def test_features(self) -> Float[Tensor, "m e"]:
        """Features of the samples to be scored on."""
        return self.task.encode(self.encoder, self.task.test)

    @cached_property
    def other_features(self) -> Float[Tensor, "m e"]:
        """Features of the other side of pairs, by the same encoder."""
        return self.task.encode(self.encoder, self.task.other)

    @property
    def features(
        self,
    ) -> tuple[Float[Tensor, "n e"], Tensor, Float[Tensor, "m e"], Tensor]:
        """Training features and labels, test features and labels."""
        task, (train, test) = self.task, self.both_features
        return train, task.labels[task.rows], test, task.test_labels

    @property
    def measured_features(
        self,
    ) -> tuple[Float[Tensor, "n e"], Tensor, Float[Tensor, "m e"], Tensor]:
        """The same with the numbers to predict instead of labels."""
        task, (train, test) = self.task, self.both_features
        assert task.quantities is not None
        assert task.test_quantities is not None
        return train, task.quantities[task.rows], test, task.test_quantities

    @cached_property
    def both_features(self) -> tuple[Float[Tensor, "n e"], Float[Tensor, "m e"]]:
        """Training features and test features.

        On a GPU they are where the protocols are quick, if there is room for them.
        """
        task = self.task
        train = task.encode(self.encoder, task.train, task.rows)
        test = self.test_features
        n_bytes = 8 * (train.numel() + test.numel())  # in float64, as the probe has it
        on_gpu = torch.device(task.device).type == "cuda"
        if on_gpu and COPIES * n_bytes < free_bytes(task.device):
            train, test = train.to(task.device), test.to(task.device)
        return train, test

    def train_on(
        self,
        protocol: Callable[..., Score],
        rows: Tensor,
        seed: int,
        *,
        augment: bool = True,
        **settings: Any,
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
            augment=task.augment(seed) if augment else None,
            seed=seed,
            device=task.device,
            **settings,
        )
