"""A run on disk, as ``train`` returns it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from ..evaluation import Evaluation
from ..folder import (
    BEST_ENCODER,
    METRICS,
    Finding,
    read_metrics,
    read_record,
    read_verdict,
)
from ..markup import html_sentences, lines, tag
from ._share import SharedRun, push_to_hub
from ._trained_encoder import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Run:
    """A run on disk."""

    folder: Path
    evaluation: Evaluation | None = None
    """Scores beside the baselines; None where there was nothing to score."""

    def __repr__(self) -> str:
        scores = "" if self.evaluation is None else f", {self.evaluation!r}"
        return f"Run({str(self.folder)!r}{scores})"

    def _repr_html_(self) -> str:
        record = read_record(self.folder)
        verdict = [
            lines(
                tag("b", f"{finding.title}."),
                tag("span", finding.text),
                *([tag("code", finding.command)] if finding.command else []),
            )
            for finding in read_verdict(record)
        ]
        scores = self.evaluation or Evaluation(tuple(record.current_rows))
        top = html_sentences([tag("code", self.folder), *verdict])
        return top + scores._repr_html_()

    @property
    def verdict(self) -> list[Finding]:
        """What to make of the run, in words, what decides first."""
        return read_verdict(read_record(self.folder))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Every reading, oldest first."""
        return read_metrics(self.folder / METRICS)

    def plot(self) -> "Figure":
        """What training has logged, as a figure of matplotlib; see ``inv.plot``."""
        from ..report import plot

        return plot(self.folder)

    def push_to_hub(self, name: str, **how: Any) -> SharedRun:
        """Upload the encoder with a model card; see ``inv.push_to_hub``."""
        return push_to_hub(self.folder, name, **how)

    def encoder(
        self, network: nn.Module | None = None, *, best: bool = False
    ) -> nn.Module:
        """The trained encoder, ready to use; ``best`` is that of the best epoch."""
        path = self.folder / BEST_ENCODER if best else self.folder
        return load(path, network=network)
