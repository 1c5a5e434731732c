r"""The information two views certifiably share, in nats.

$$I(U;V) \ge \log n - \frac1n\sum_i
  \mathrm{softplus}\Big(\log\sum_{j\ne i} e^{s_{ij}} - s_{ii}\Big),
  \qquad s_{ij} = u_i\cdot v_j/\tau$$

This is InfoNCE in one direction with the positive kept among the n candidates of the
other view: a lower bound in expectation, for any encoder and temperature, when rows
are independent samples that the encoder was not fitted to (held-out data). Values that
drop the positive, or add negatives from the anchor's own view, are no such bound.

It never exceeds log n. With cosines it also stays below about 2/tau.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from ..partition import log_partition
from ._rows import above_zero, unit_pair


@dataclass(frozen=True)
class InformationBound:
    """A lower bound of the mutual information of two views."""

    nats: float
    """The bound; below 0 it certifies nothing."""
    ceiling: float
    """The most this number of rows can show: log n."""
    saturated: bool
    """So near the ceiling that the information may be far larger."""
    sentence: str
    """The reading in words."""

    def __str__(self) -> str:
        return self.sentence


def mutual_information_bound(
    u: Float[Tensor, "n d"], v: Float[Tensor, "n d"], *, temperature: float | int
) -> InformationBound:
    """Certified lower bound of I(U;V) from paired rows, normalised here.

    The bound counts as saturated when less than log 2 (and less than half the ceiling)
    is left: partners are then picked with a probability above one half, and only more
    rows can show more.

    >>> import torch
    >>> print(mutual_information_bound(torch.eye(8), torch.eye(8), temperature=0.1))
    The views share at least 2.08 nats, close to all that 8 rows can show \
(log 8 = 2.08): pass more rows to see more.
    """
    temperature = above_zero(temperature, "temperature")
    u, v = unit_pair(u, v, at_least=2)
    n, scale = len(u), 1 / temperature
    ids = torch.arange(n, device=u.device)
    positive = scale * (u * v).sum(1)
    others = log_partition(u, v, scale=scale, row_ids=ids, column_ids=ids)
    ceiling = math.log(n)
    nats = ceiling - softplus(others - positive).mean().item()
    saturated = ceiling - nats < min(math.log(2), ceiling / 2)
    return InformationBound(nats, ceiling, saturated, _sentence(nats, n, saturated))


def _sentence(nats: float, n: int, saturated: bool) -> str:
    limit = f"log {n} = {math.log(n):.2f}"
    if saturated:
        return (
            f"The views share at least {nats:.2f} nats, close to all that {n} rows can "
            f"show ({limit}): pass more rows to see more."
        )
    if nats <= 0:
        return (
            f"No shared information is certified: the bound is {nats:.2f} nats "
            f"(of at most {limit}). Another temperature may show more."
        )
    return f"The views share at least {nats:.2f} nats (of at most {limit})."
