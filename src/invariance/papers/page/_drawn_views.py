"""Embeddings of two views that are drawn, not learned."""

import torch
from torch import Tensor

WIDTH, NOISE = 16, 0.25


def draw_views(
    n: int, layout: str, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Unit rows of two views of n samples.

    Args:
        n: Samples.
        layout: Where samples lie: "uniform" all over the sphere, "uneven" more on one
            side, "half in a cluster" and the others all over.
        generator: Of the draws.
    """
    x = torch.randn(n, WIDTH, generator=generator, dtype=torch.double)
    if layout == "uneven":
        x[:, :4] += 2.0
    elif layout == "half in a cluster":
        x[: n // 2, 0] += 2.5 * WIDTH**0.5
    x = torch.nn.functional.normalize(x, dim=1)
    noise = torch.randn(2, n, WIDTH, generator=generator, dtype=torch.double)
    u, v = torch.nn.functional.normalize(x + NOISE * noise, dim=2)
    return u, v
