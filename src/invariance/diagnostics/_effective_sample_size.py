r"""Effective sample size: the share of the negatives that does the teaching.

$$\mathrm{ESS}_i = \frac{1}{m\sum_j w_{ij}^2},\quad
  w_{ij} = \operatorname{softmax}_{j}(s_{ij}),\quad s_{ij} = z_i\cdot c_j/\tau$$

over the m negatives c of anchor i; in log-partitions P over them,
$\log \mathrm{ESS}_i = 2P(1/\tau)_i - P(2/\tau)_i - \log m$. The value is the mean over
the anchors, which are the rows of both views.

Between 1/m (one negative takes all the weight) and 1 (all weigh the same). It falls
with the temperature; 0.15 to 0.4 is a good range to train at.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import choose
from ..partition import log_partitions
from ._rows import above_zero, unit_pair

NEGATIVES = {
    "cross": "the n - 1 other samples in the other view",
    "all": "the n - 1 other samples in both views",
}


def effective_sample_size(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: float | int,
    negatives: str = "cross",
) -> float:
    """Mean effective share of the negatives of an anchor.

    Args:
        u: one view, normalised here.
        v: the other view; row i belongs to row i of ``u``.
        temperature: of the softmax over the negatives.
        negatives: "cross", the n - 1 other samples in the other view, or "all", these
            and the n - 1 other samples in the anchor's own view.

    >>> import torch
    >>> round(effective_sample_size(torch.eye(5), torch.eye(5), temperature=0.1), 4)
    1.0
    """
    temperature = above_zero(temperature, "temperature")
    choose(NEGATIVES, negatives, "choice of negatives")
    u, v = unit_pair(u, v, at_least=2)
    ids = torch.arange(len(u), device=u.device)
    if negatives == "cross":
        m, sides = len(u) - 1, [(u, v, ids), (v, u, ids)]
    else:
        both = torch.cat([u, v])
        m, sides = 2 * len(u) - 2, [(both, both, ids.repeat(2))]
    scales = (1 / temperature, 2 / temperature)
    shares = []
    for x, y, i in sides:
        single, double = log_partitions(x, y, scales=scales, row_ids=i, column_ids=i)
        shares.append(torch.exp(2 * single - double - math.log(m)))
    return torch.cat(shares).clamp(1 / m, 1).mean().item()  # against rounding
