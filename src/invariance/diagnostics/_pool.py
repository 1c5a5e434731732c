r"""The information of a batch beside that of a pool a hundred times as large.

$$\hat I_K = \log K - \frac1K\sum_i \mathrm{softplus}\Big(
  \log\sum_{j\ne i} e^{s_{ij}} - s_{ii}\Big)$$

at K = n, a mini-batch, and at K = 100 n, where the ceiling log K is 4.6 nats higher:
the FlatNCE paper takes the large pool for the truth that the mini-batch estimate is
compared with. Both are lower bounds in expectation (see ``mutual_information_bound``);
what the pool shows beyond the batch is what the batch cannot see.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ._mutual_information import mutual_information_bound
from ._rows import above_zero, unit_pair

FACTOR = 100
TEMPERATURES = (0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)


@dataclass(frozen=True)
class PooledInformation:
    """What a mini-batch shows, and what a large pool shows."""

    batch_size: int
    batch_nats: float
    """Mean over the disjoint mini-batches."""
    batch_ceiling: float
    """log of the batch size: no mini-batch shows more."""
    n_pool: int
    pool_nats: float
    pool_ceiling: float
    temperature: float
    sentence: str
    """The reading in words."""

    def __str__(self) -> str:
        return self.sentence


def information_by_pool(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: float | int,
    batch_size: int,
    factor: int = FACTOR,
) -> PooledInformation:
    """The bound at ``batch_size`` and at ``factor`` times that, or at all rows.

    >>> import torch
    >>> read = information_by_pool(torch.eye(40), torch.eye(40), temperature=0.05,
    ...                            batch_size=4, factor=10)
    >>> round(read.batch_nats, 2), round(read.pool_nats, 2)     # log 4 and log 40
    (1.39, 3.69)
    """
    temperature = above_zero(temperature, "temperature")
    u, v = unit_pair(u, v, at_least=2)
    if not 2 <= batch_size <= len(u) or factor < 1:
        raise SettingError(
            f"batch_size lies between 2 and the {len(u)} rows, factor is at least 1: "
            f"got {batch_size} and {factor}."
        )
    n_pool = min(len(u), factor * batch_size)
    whole = n_pool // batch_size * batch_size
    parts = zip(u[:whole].split(batch_size), v[:whole].split(batch_size), strict=True)
    nats = [mutual_information_bound(*p, temperature=temperature).nats for p in parts]
    pool = mutual_information_bound(u[:n_pool], v[:n_pool], temperature=temperature)
    batch, ceiling = sum(nats) / len(nats), math.log(batch_size)
    hidden = pool.nats - batch
    verdict = (
        f"a batch of {batch_size} hides {hidden:.2f} nats"
        if hidden > 0.05
        else f"a batch of {batch_size} shows all of it"
    )
    sentence = (
        f"{pool.nats:.2f} nats with {n_pool:,} candidates (of at most "
        f"{pool.ceiling:.2f}), {batch:.2f} with {batch_size} (of at most "
        f"{ceiling:.2f}): {verdict}."
    )
    return PooledInformation(
        batch_size=batch_size,
        batch_nats=batch,
        batch_ceiling=ceiling,
        n_pool=n_pool,
        pool_nats=pool.nats,
        pool_ceiling=pool.ceiling,
        temperature=temperature,
        sentence=sentence,
    )


def sharpest_temperature(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    grid: tuple[float, ...] = TEMPERATURES,
) -> float:
    """The temperature whose bound is highest on these rows; read it off on others.

    A bound holds at every temperature, but the one trained at is rarely the tightest.

    >>> import torch
    >>> sharpest_temperature(torch.eye(8), torch.eye(8))
    0.03
    """
    if not grid:
        raise SettingError("grid needs at least one temperature.")
    u, v = unit_pair(u, v, at_least=2)
    nats = [mutual_information_bound(u, v, temperature=t).nats for t in grid]
    return grid[int(torch.tensor(nats).argmax())]
