"""``invariance evaluate``: how good runs are, beside their baselines."""

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro import conf

Protocol = Literal[
    "knn",
    "linear",
    "linear_sgd",
    "fine_tune",
    "few_labels_linear",
    "few_labels_fine_tune",
    "retrieval",
    "clustering",
    "all",
]


@dataclass(frozen=True)
class Evaluate:
    """Score runs beside raw pixels and the untrained encoder; several give a spread."""

    runs: Annotated[tuple[str, ...], conf.Positional, conf.arg(metavar="RUN ...")]
    """Run folders. Seeds of one setting are averaged, other settings kept apart."""
    data: str | None = None
    """Score on this set, folder or .npz instead of the run's own data (transfer)."""
    protocols: tuple[Protocol, ...] = (
        "knn",
        "linear",
        "few_labels_linear",
        "retrieval",
        "clustering",
    )
    """What to measure; linear_sgd, fine_tune and few_labels_fine_tune train."""
    seeds: int = 1
    """How often to repeat what draws at random."""
    supervised: bool = False
    """Also train the same network with all labels, to compare."""
    limit: int = 10_000
    """Fit with at most so many training images, evenly spread; 0 is all."""
    data_root: str | None = None
    """Where named sets are kept. Default: where the run found them."""
    device: str = "auto"
    """auto, cpu or cuda."""
    json: bool = False
    """Print every score as a line of JSON."""

    def run(self) -> int:
        """Score, print, and say where the scores are."""
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as in training
        from ..errors import DataError
        from ..folder import require_run
        from ..progress import tell_loading

        for folder in self.runs:
            require_run(Path(folder).expanduser())
        tell_loading(quiet=self.json)
        from ..runs import evaluate

        evaluation = evaluate(
            self.runs,
            data=self.data,
            protocols=self.protocols,
            seeds=self.seeds,
            supervised=self.supervised,
            limit=self.limit,
            data_root=self.data_root,
            device=self.device,
            quiet=self.json,
        )
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
