"""How training goes by kNN, and the best encoder so far; the test part is not touched.

Both sides of the vote are rows of the training part: two thirds of them are voters, the
others are asked. So a best epoch can be chosen and the test part still tells the truth
about it. Images without labels have no such reading and no best epoch. (A method that
learns from labels has seen those of the rows asked: its reading flatters it.)
"""

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Source
from ..encoders import Encoder, read_encoder, write_encoder
from ..evaluation import encode_images, knn, spread_rows
from ..folder import BEST_ENCODER
from ._run_plan import Plan

ROWS = 3000


class Monitor:
    """Reads the encoder now and then, and keeps the best in a file of its own."""

    def __init__(self, plan: Plan, folder: Path, device: Any) -> None:
        self.plan, self.device = plan, device
        self.path = folder / BEST_ENCODER
        self.best: dict[str, float] | None = None

    def look(self, encoder: Encoder, epoch: int) -> float | None:
        """KNN accuracy of the encoder as it is; None without labels."""
        accuracy = held_out_knn(self.plan.source, encoder, self.device)
        # of equals the later: it has learned longer
        if accuracy is not None and (self.best is None or accuracy >= self.best["knn"]):
            self.best = {"knn": accuracy, "epoch": float(epoch)}
            write_encoder(encoder, self.path, knn=accuracy, epoch=epoch)
        return accuracy

    def state_dict(self) -> dict[str, float] | None:
        """What a checkpoint must keep."""
        return self.best

    def load_state_dict(self, state: dict[str, float] | None) -> None:
        """Go on from a checkpoint, or from nothing."""
        if not self.path.exists():  # weights that are gone are no best
            state = None
        self.best = state
        if state is None:
            self.path.unlink(missing_ok=True)

    def encoder(self) -> tuple[Encoder, int] | None:
        """The best encoder and its epoch; None if there was no reading."""
        if self.best is None:
            return None
        about, weights = read_encoder(self.path)
        network = copy.deepcopy(self.plan.untrained)
        network.load_state_dict(weights)
        return network.eval(), int(about["epoch"])


def held_out_knn(source: Source, encoder: nn.Module, device: Any) -> float | None:
    """KNN accuracy of training rows asked of other training rows."""
    if source.labels is None or len(source) < 2:
        return None
    voters, asked = split_rows(spread_rows(len(source), ROWS))
    learning = encoder.training
    a, b = (
        encode_images(encoder, source, rows, device=device) for rows in (voters, asked)
    )
    encoder.train(learning)
    labels = source.labels.cpu()
    return knn(a, labels[voters], b, labels[asked]).accuracy


def split_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Two thirds and one third, drawn once for all.

    >>> [len(part) for part in split_rows(torch.arange(30))]
    [20, 10]
    """
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    n_asked = max(len(rows) // 3, 1)
    return rows[order[n_asked:].sort().values], rows[order[:n_asked].sort().values]
