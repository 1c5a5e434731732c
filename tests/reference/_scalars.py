"""The five words the twins are written in: no matrix, one number at a time.

Rows are 1-d float64 tensors and everything else is a 0-d float64 tensor, so that
autograd through the loops gives the reference gradient as well as the value.
"""

import torch
from torch import Tensor


def log_sum_exp(terms: list[Tensor]) -> Tensor:
    """log of the sum of exp over a list; an empty sum is 0, whose log is -inf."""
    if not terms:
        return torch.tensor(float("-inf"), dtype=torch.float64)
    peak = max(term.detach() for term in terms)
    return peak + torch.log(sum(torch.exp(term - peak) for term in terms))


def mean(terms: list[Tensor]) -> Tensor:
    return sum(terms) / len(terms)


def dot(x: Tensor, y: Tensor) -> Tensor:
    return sum(x[k] * y[k] for k in range(len(x)))


def squared_distance(x: Tensor, y: Tensor) -> Tensor:
    return sum((x[k] - y[k]) ** 2 for k in range(len(x)))


def rows(z: Tensor, normalize: bool = True) -> list[Tensor]:
    """The rows of z, each of length 1 (a zero row stays zero)."""
    assert z.dtype == torch.float64, "the twins are float64 only"
    return [unit(row) if normalize else row for row in z]


def unit(row: Tensor) -> Tensor:
    if all(entry == 0 for entry in row):
        return torch.zeros_like(row)
    return row / torch.sqrt(dot(row, row))
