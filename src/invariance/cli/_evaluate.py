"""``invariance evaluate``: how good runs are, beside their baselines."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from tyro import conf

from ..evaluation import ProtocolSettings, check_settings
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


@dataclass(frozen=True)
class Evaluate(ProtocolSettings):
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

    def check(self) -> None:
        """Refuse what cannot work before torch is loaded."""
        from ..data import require_data
        from ..folder import require_run

        for folder in self.runs:
            require_run(Path(folder).expanduser())
        if self.data is not None:
            require_data(self.data)
        check_least("seeds", self.seeds, 1)
        if self.limit:  # 0 is all
            check_least("limit", self.limit, 2)
        check_settings(self.list_given())

    def run(self) -> int:
        """Score, print, and say where the scores are."""
        from ..errors import DataError
        from ..progress import tell_loading

        self.check()
        tell_loading(quiet=self.json or not speaks())
        from ..runs import evaluate

        evaluation = evaluate(
            self.runs,
            data=self.data,
            protocols=self.protocols,
            settings=self.list_given(),
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
