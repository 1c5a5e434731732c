"""Gaussian pairs whose information is known, and the exact scores of their batches."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ...critics import Gaussian
from ...estimators import correlated_gaussian, rho_of
from .._claim import Cell, Rows, Verdict

WIDTH = 4
Read = Callable[[Tensor, Tensor, Tensor], Mapping[str, Any]]


def exact_critic(rho: float, width: int = WIDTH) -> Gaussian:
    """The log density ratio of columns that are correlated one by one."""
    zero, eye = torch.zeros(width).double(), torch.eye(width).double()
    return Gaussian(zero, zero, eye, eye, torch.full((width,), rho).double())


def average_batches(
    cell: Cell, nats: float, read: Read, width: int = WIDTH
) -> dict[str, float]:
    """The means of what is read from each of ``batches`` batches of ``n`` pairs.

    Args:
        cell: With the settings ``n`` and ``batches``.
        nats: That x and y share.
        read: From x, y and the exact scores of all pairs to named numbers.
        width: Columns of x and of y.
    """
    pairs = correlated_gaussian(width, nats=nats)
    critic = exact_critic(rho_of(nats, width), width)
    generator, sums = cell.generator(), dict[str, float]()
    for _ in range(cell["batches"]):
        x, y = pairs.sample(cell["n"], generator=generator, dtype=torch.float64)
        for name, value in read(x, y, critic(x, y)).items():
            sums[name] = sums.get(name, 0.0) + float(value)
    return {name: total / cell["batches"] for name, total in sums.items()}


def show_one_seed(rows: Rows) -> Verdict | None:
    """What is said where there is no spread to judge by."""
    if len(set(rows["seed"])) > 1:
        return None
    return Verdict("not decided", "One seed has no spread, so nothing is decided.")
