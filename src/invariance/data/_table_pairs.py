r"""Discrete pairs given by a table of probabilities.

$$I(X;Y) = \sum_{ab} p_{ab}\log\frac{p_{ab}}{p_a\,p_b}$$
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import SettingError
from ._pairs import Pairs


def table(probabilities: Sequence[Sequence[float | int]] | Tensor) -> Pairs:
    """X is the row and y the column of a cell drawn with its probability.

    The entries need not sum to one.

    >>> round(table([[1, 0], [0, 1]]).nats, 4)
    0.6931
    """
    p = torch.as_tensor(probabilities, dtype=torch.float64)
    if p.ndim != 2 or not (p >= 0).all() or not 0 < p.sum() < torch.inf:
        raise SettingError(
            "A table holds rows of probabilities that are 0 or more and not all 0."
        )
    p = p / p.sum()
    log_ratio = p.log() - p.sum(1, keepdim=True).log() - p.sum(0, keepdim=True).log()
    nats = torch.where(p > 0, p * log_ratio, 0.0).sum().item()
    columns = p.shape[1]

    def draw(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        cells = torch.multinomial(p.flatten(), n, replacement=True, generator=generator)
        return (cells // columns)[:, None].double(), (cells % columns)[:, None].double()

    def ratio(x: Tensor, y: Tensor) -> Tensor:
        return log_ratio[x[:, 0].long(), y[:, 0].long()]

    return Pairs(f"table {p.shape[0]}x{columns} cells", nats, 1, 1, draw, ratio)


def noisy_copy(letters: int, *, keep: float | int) -> Pairs:
    """A uniform letter, kept with probability ``keep``, else drawn anew."""
    p = torch.full((letters, letters), (1 - keep) / letters, dtype=torch.float64)
    return table(p + keep * torch.eye(letters, dtype=torch.float64))
