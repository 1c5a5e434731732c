"""Objectives minimized over the embeddings themselves, without any encoder."""

from collections.abc import Callable

import torch
from torch import Tensor

from ... import dcl, dhel, info_nce, kcl, nt_xent

SLACK = 1e-6  # a difference of losses that counts as none
Loss = Callable[[Tensor, Tensor], Tensor]

OBJECTIVES: dict[str, Loss] = {
    "InfoNCE": lambda u, v: info_nce(u, v, temperature=0.3),
    "NT-Xent": lambda u, v: nt_xent(u, v, temperature=0.3),
    "DCL": lambda u, v: dcl(u, v, temperature=0.3),
    "DHEL": lambda u, v: dhel(u, v, temperature=0.3),
    "KCL": lambda u, v: kcl(u, v, gamma=16.0, t=2.0),
}


def descend(
    loss: Loss,
    n: int,
    d: int,
    *,
    generator: torch.Generator,
    steps: int,
    apart: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Two views of n points on the sphere in d dimensions, at a minimum of the loss.

    Args:
        loss: Of two views.
        n: Points.
        d: Dimensions.
        generator: Of the start, at random.
        steps: Of gradient descent (L-BFGS, which also follows flat valleys).
        apart: How far the two views of a sample are apart at the start, relative to
            the points themselves.
    """
    x = torch.randn(n, d, generator=generator, dtype=torch.double)
    noise = torch.randn(2, n, d, generator=generator, dtype=torch.double)
    z = (x + apart * noise).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [z],
        max_iter=steps,
        tolerance_grad=1e-9,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        u, v = torch.nn.functional.normalize(z, dim=2)
        value = loss(u, v)
        value.backward()
        return value

    optimizer.step(evaluate)
    u, v = torch.nn.functional.normalize(z.detach(), dim=2)
    return u, v


def pair_cosines(z: Tensor) -> Tensor:
    """Of all pairs of different rows, smallest first."""
    n = len(z)
    first, second = torch.triu_indices(n, n, offset=1)
    return (z[first] * z[second]).sum(1).sort().values


def distance_to_simplex(z: Tensor) -> float:
    """The largest difference of a cosine from that of a regular simplex."""
    return (pair_cosines(z) + 1 / (len(z) - 1)).abs().max().item()


def make_simplex(n: int, d: int) -> Tensor:
    """N points at equal angles, in at least n - 1 dimensions."""
    corners = torch.eye(n, dtype=torch.double) - 1 / n  # they span n - 1 dimensions
    basis = torch.linalg.svd(corners).Vh[: n - 1]
    points = torch.nn.functional.normalize(corners @ basis.mT, dim=1)
    return torch.nn.functional.pad(points, (0, d - n + 1))
