"""A small encoder trained on generated pairs whose information is known.

The pairs are Gaussian and share far more nats than the logarithm of the batch, which is
where the paper's argument starts. Readings are taken on pairs that are never trained
on: the estimate of mini-batches, and that of a large pool, which the paper takes for
the truth.
"""

from functools import partial
from typing import Any

import torch
from torch import nn

from ...diagnostics import effective_sample_size, information_by_pool
from ...estimators import correlated_gaussian
from ...objectives import OBJECTIVES
from .._claim import Cell

WIDTH, NATS = 20, 16.0
OPTIMIZERS: dict[str, Any] = {
    "Adam": torch.optim.Adam,
    "SGD": partial(torch.optim.SGD, momentum=0.9),
}
OBJECTIVE_NAMES = {"info_nce": "InfoNCE", "flat_nce": "FlatNCE"}
PAIRS = correlated_gaussian(WIDTH, nats=NATS)


def make_encoder() -> nn.Module:
    """Two hidden layers; its numbers come from the cell's seed."""
    return nn.Sequential(
        nn.Linear(WIDTH, 128),
        nn.ReLU(),
        nn.Linear(128, 128),
        nn.ReLU(),
        nn.Linear(128, 32),
    )


def train_on_pairs(
    cell: Cell,
    method: str,
    *,
    optimizer: str,
    rate: float,
    batch: int,
    steps: int,
    readings: int = 10,
    pool: int = 100,
    temperature: float = 0.1,
) -> dict[str, list[float]]:
    """Readings over training, at even distances.

    Args:
        cell: Whose random numbers to use.
        method: A key of ``OBJECTIVES``.
        optimizer: A key of ``OPTIMIZERS``.
        rate: Its learning rate.
        batch: Pairs per step, new ones each time.
        steps: How many.
        readings: How often to read, besides before the first step.
        pool: Mini-batches in the pool; the paper has 100.
        temperature: Of the objective and of the readings.
    """
    torch.manual_seed(cell.seed)
    encoder, generator = make_encoder(), cell.generator()
    options: dict[str, Any] = {"temperature": temperature}
    if method != "info_nce":
        options["negatives"] = "cross"  # as InfoNCE has them
    objective = OBJECTIVES[method](**options)
    updates = OPTIMIZERS[optimizer](encoder.parameters(), lr=rate)
    held_out = PAIRS.sample(pool * batch, generator=cell.generator(1))
    every = steps // readings
    curves: dict[str, list[float]] = {}
    for step in range(steps + 1):
        if step % every == 0:
            with torch.no_grad():
                u, v = (encoder(side) for side in held_out)
            for name, value in read(u, v, batch, temperature).items():
                curves.setdefault(name, []).append(round(value, 4))
        x, y = PAIRS.sample(batch, generator=generator)
        updates.zero_grad()
        objective(encoder(x), encoder(y)).backward()
        updates.step()
    return {"step": [float(k * every) for k in range(readings + 1)], **curves}


def read(
    u: torch.Tensor, v: torch.Tensor, batch: int, temperature: float
) -> dict[str, float]:
    """Information of mini-batches and of the pool, and the ESS of mini-batches."""
    information = information_by_pool(u, v, temperature=temperature, batch_size=batch)
    parts = list(zip(u.split(batch), v.split(batch), strict=True))[:10]
    ess = [effective_sample_size(*part, temperature=temperature) for part in parts]
    return {
        "batch_nats": information.batch_nats,
        "pool_nats": information.pool_nats,
        "ess": sum(ess) / len(ess),
    }
