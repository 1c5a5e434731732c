"""``invariance evaluate``: how good runs are, beside their baselines."""

import json
import os
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from tyro import conf

from ..plain_numbers import check_least
from ._processes import speaks

Protocol = Literal[
    "knn",
    "linear",
    "linear_sgd",
    "fine_tune",
    "few_labels_linear",
    "few_labels_fine_tune",
    "attacked",
    "retrieval",
    "clustering",
    "ridge",
    "knn_regression",
    "zero_shot",
    "pairs",
    "rank_correlation",
    "partner",
    "steps_ahead",
    "all",
]


Schedule = Literal["cosine", "linear", "step", "constant"]


@dataclass(frozen=True, kw_only=True)
class Knn:
    """The vote of nearest neighbors (knn, knn_regression)."""

    k: int | None = None
    """Neighbors that vote. Default: 20."""
    temperature: float | None = None
    """How fast a vote fades with its cosine. Default: 0.1."""


@dataclass(frozen=True, kw_only=True)
class Linear:
    """The linear probe (linear, few_labels_linear, ridge)."""

    l2: float | None = None
    """Strength of its penalty, 0 for none. Default: chosen on training images."""


@dataclass(frozen=True, kw_only=True)
class LinearSgd:
    """The linear layer trained on augmented images (linear_sgd)."""

    epochs: int | None = None
    """Passes over the training images. Default: 20."""
    batch_size: int | None = None
    """Images per step. Default: 256."""
    lr: float | None = None
    """Peak learning rate for 256 images, scaled with the batch. Default: 0.3."""
    momentum: float | None = None
    """Nesterov momentum. Default: 0.9."""
    weight_decay: float | None = None
    """Weight decay of the layer. Default: 0.0."""
    schedule: Schedule | None = None
    """How the rate falls; step: to a tenth at 60 and 80 %. Default: cosine."""
    standardize: bool | None = None
    """Whether features are standardized first. Default: True."""
    augment: bool | None = None
    """Whether it sees crops and flips, or the images as they are. Default: True."""


@dataclass(frozen=True, kw_only=True)
class FineTune:
    """The encoder trained on with labels (fine_tune, few_labels_fine_tune)."""

    epochs: int | None = None
    """Passes over the training images. Default: 20."""
    min_steps: int | None = None
    """Least number of steps, so that a handful of labels is learned too. Default:
    200."""
    batch_size: int | None = None
    """Images per step. Default: 128."""
    lr: float | None = None
    """Peak learning rate, not scaled with the batch. Default: 0.001."""
    weight_decay: float | None = None
    """Weight decay of all weights. Default: 0.0001."""
    optimizer: Literal["adamw", "adam", "nadam", "sgd"] | None = None
    """What moves the weights. Default: adamw."""
    momentum: float | None = None
    """Momentum of sgd, or the first beta of the others. Default: 0.9."""
    schedule: Schedule | None = None
    """How the rate falls; step: to a tenth at 60 and 80 %. Default: cosine."""
    augment: bool | None = None
    """Whether it sees crops and flips, or the images as they are. Default: True."""


@dataclass(frozen=True, kw_only=True)
class FewLabels:
    """A share of the labels (few_labels_linear, few_labels_fine_tune)."""

    shares: tuple[float, ...] | None = None
    """Shares of the training labels, above 0 and up to 1. Default: 0.01 0.1."""
    draws: int | None = None
    """How often each share is drawn. Default: 3."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """PGD against the linear probe on the frozen encoder (attacked)."""

    epsilon: float | None = None
    """How far images may be changed, with pixels from 0 to 1. Default: 8/255, or
    128/255 for l2."""
    steps: int | None = None
    """Steps from each start; try more to see whether these are enough. Default: 20."""
    step_size: float | None = None
    """Length of a step. Default: a quarter of epsilon."""
    norm: Literal["linf", "l2"] | None = None
    """What epsilon bounds: every pixel, or the whole change's length. Default: linf."""
    restarts: int | None = None
    """Random starts; an image must stay right from all of them. Default: 1."""
    images: int | None = None
    """Most test images to attack, evenly spread. Default: 1000."""


@dataclass(frozen=True, kw_only=True)
class StepsAhead:
    """How far ahead an encoder of sequences predicts (steps_ahead)."""

    steps: int | None = None
    """Patches ahead. Default: half of a window, at most 12."""


@dataclass(frozen=True, kw_only=True)
class ZeroShot:
    """Images named by the nearest caption (zero_shot), of runs on pairs."""

    templates: tuple[str, ...] | None = None
    """Sentences with {} for the name of a class, whose rows are averaged. Default: 'a
    {}', '{}', 'a picture of a {}', 'there is a {}'."""


@dataclass(frozen=True)
class Evaluate:
    """Score runs beside raw pixels and the untrained encoder; several give a spread."""

    again: ClassVar[str] = (
        "the scores of complete runs are kept, so give only the rest again"
    )
    shown_first: ClassVar[tuple[str, ...]] = (
        *("runs", "data", "protocols", "preset", "seeds", "json"),
    )
    examples: ClassVar[tuple[str, ...]] = (
        "invariance evaluate runs/photos-simclr        its usual scores",
        "invariance evaluate runs/seed-* --seeds 3     mean and spread of several",
        "invariance evaluate runs/a --data cifar10     transfer to other data",
    )

    runs: Annotated[
        tuple[str, ...],
        conf.Positional,
        conf.arg(metavar="RUN ...", help_behavior_hint="(required)"),
    ]
    """Run folders. Runs that differ only in their seed are averaged, others are kept
    apart."""
    data: str | None = None
    """Score on this set, folder or .npz instead of the run's own data (transfer)."""
    protocols: tuple[Protocol, ...] | None = None
    """What to measure; linear_sgd, fine_tune and few_labels_fine_tune train, attacked
    changes the images so that the linear probe fails. Default: knn, linear,
    few_labels_linear, retrieval and clustering; for pairs also zero_shot and pairs
    (recall@k); for sequences also steps_ahead; for a target of numbers ridge and
    knn_regression; or the preset's."""
    preset: str | None = None
    """A protocol as a paper published it; 'invariance list presets' shows them. Flags
    go before its settings."""
    knn: Knn = field(default_factory=Knn)
    linear: Linear = field(default_factory=Linear)
    linear_sgd: LinearSgd = field(default_factory=LinearSgd)
    fine_tune: FineTune = field(default_factory=FineTune)
    few_labels: FewLabels = field(default_factory=FewLabels)
    attack: Attack = field(default_factory=Attack)
    steps_ahead: StepsAhead = field(default_factory=StepsAhead)
    zero_shot: ZeroShot = field(default_factory=ZeroShot)
    seeds: int = 1
    """How often to repeat anything that is drawn at random."""
    supervised: bool = False
    """Also train the same network with all labels, for comparison."""
    limit: int = 10_000
    """Fit with at most this many training images, evenly spread; 0 means all."""
    data_root: str | None = None
    """Where named sets are kept. Default: where the run found them."""
    device: str = "auto"
    """auto, cpu or cuda."""
    devices: int = 1
    """Share the work among this many processes on this machine: GPUs, or cores."""
    json: bool = False
    """Print every score as a line of JSON."""

    def gather_settings(self) -> dict[str, dict[str, Any]]:
        """The settings of protocols that were given, by group."""
        groups: dict[str, Any] = {
            "knn": self.knn,
            "linear": self.linear,
            "linear_sgd": self.linear_sgd,
            "fine_tune": self.fine_tune,
            "few_labels": self.few_labels,
            "attack": self.attack,
            "steps_ahead": self.steps_ahead,
            "zero_shot": self.zero_shot,
        }
        return {
            group: {k: v for k, v in asdict(values).items() if v is not None}
            for group, values in groups.items()
        }

    def check(self) -> None:
        """Refuse what cannot work before torch is loaded."""
        from ..data import require_data
        from ..evaluation import check_settings
        from ..folder import require_run

        for folder in self.runs:
            require_run(Path(folder).expanduser())
        if self.data is not None:
            require_data(self.data)
        check_least("seeds", self.seeds, 1)
        if self.limit:  # 0 is all
            check_least("limit", self.limit, 2)
        check_settings(self.gather_settings())

    def run(self) -> int:
        """Score, print, and say where the scores are."""
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in training
        from ..errors import DataError
        from ..progress import tell_loading

        self.check()
        tell_loading(quiet=self.json or not speaks())
        from ..runs import evaluate

        evaluation = evaluate(
            self.runs,
            data=self.data,
            protocols=self.protocols,
            settings=self.gather_settings(),
            preset=self.preset,
            seeds=self.seeds,
            supervised=self.supervised,
            limit=self.limit,
            data_root=self.data_root,
            device=self.device,
            shared=True,
            quiet=self.json,
        )
        if not speaks():
            return 0
        if self.json:
            for row in evaluation.rows:
                print(json.dumps(row, ensure_ascii=False))
            for note in evaluation.notes:
                print(json.dumps({"note": note}, ensure_ascii=False))
        else:
            print(evaluation)
        if evaluation.unsaved:
            raise DataError(" ".join(evaluation.unsaved))
        if self.json:
            return 0
        folders = list(dict.fromkeys(row["run"] for row in evaluation.rows))
        for folder in folders:
            print(f"scores: {folder}/evaluation.jsonl")
        print(f"see them: {shlex.join(['invariance', 'report', *folders])}")
        return 0
