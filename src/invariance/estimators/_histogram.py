r"""The plug-in estimate for discrete data, with Miller and Madow's correction.

$$\hat I = \sum_{ab}\hat p_{ab}\log\frac{\hat p_{ab}}{\hat p_a\hat p_b}
- \frac{K_{xy} - K_x - K_y + 1}{2n}$$

K counts the values that occur. The correction is good while cells hold several rows;
continuous columns are first cut into bins, which loses information.
"""

import math

import torch
from jaxtyping import Int
from torch import Tensor


def plug_in(a: Int[Tensor, " n"], b: Int[Tensor, " n"]) -> tuple[float, float, float]:
    """Nats, their standard error, and the correction that is in them.

    >>> import torch
    >>> a = torch.tensor([0, 1] * 50)
    >>> nats, error, _ = plug_in(a, a)
    >>> round(nats, 3)
    0.698
    """
    n = len(a)
    wide = int(b.max()) + 1
    cells, counts = torch.unique(a.long() * wide + b.long(), return_counts=True)
    p = counts.double() / n
    by_a, by_b = a.bincount().double() / n, b.bincount().double() / n
    ratio = p.log() - by_a[cells // wide].log() - by_b[cells % wide].log()
    nats = (p * ratio).sum()
    spread = (p * (ratio - nats).square()).sum()
    occurring = int((by_a > 0).sum()), int((by_b > 0).sum())
    bias = (len(cells) - occurring[0] - occurring[1] + 1) / (2 * n)
    # independent variables still scatter: 2 n I is chi-square there
    free = (occurring[0] - 1) * (occurring[1] - 1)
    error = math.sqrt(spread.item() / n + free / (2 * n**2))
    return nats.item() - bias, error, bias


def bins(column: Tensor, count: int) -> Tensor:
    """The number of each value's bin, with about equally many values in each."""
    edges = torch.linspace(0, 1, count + 1, dtype=torch.float64)[1:-1]
    column = column.double().contiguous()
    cuts = column.sort().values[(edges * (len(column) - 1)).round().long()]
    return torch.searchsorted(cuts, column)
