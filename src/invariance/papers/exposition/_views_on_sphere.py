"""Unit rows and noisy views of them, as an encoder might give them."""

import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize


def draw_unit_rows(n: int, width: int, generator: Generator) -> Tensor:
    """Rows that cover the sphere evenly."""
    rows = torch.randn(n, width, generator=generator, dtype=torch.float64)
    return normalize(rows, dim=1)


def draw_near(rows: Tensor, noise: float, generator: Generator) -> Tensor:
    """Views: rows with noise whose length is about ``noise`` times theirs."""
    other = torch.randn(rows.shape, generator=generator, dtype=rows.dtype)
    return normalize(rows + noise * other / rows.shape[1] ** 0.5, dim=1)
