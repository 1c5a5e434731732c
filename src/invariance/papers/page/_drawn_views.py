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
            side, "clusters" near four points.
        generator: Of the draws.
    """
    x = torch.randn(n, WIDTH, generator=generator, dtype=torch.double)
    if layout == "uneven":
        x[:, :4] += 2.0
    elif layout == "clusters":
        centers = 2.5 * torch.eye(WIDTH, dtype=torch.double)[:4] * WIDTH**0.5
        x = x + centers[torch.randint(4, (n,), generator=generator)]
    x = torch.nn.functional.normalize(x, dim=1)
    noise = torch.randn(2, n, WIDTH, generator=generator, dtype=torch.double)
    u, v = torch.nn.functional.normalize(x + NOISE * noise, dim=2)
    return u, v
