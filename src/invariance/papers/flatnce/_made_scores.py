"""What the claims about formulas share: scores, views and gradients.

Entry ij of a matrix of scores is that of anchor i with candidate j; partners are on the
diagonal. The gradient with respect to it says all that an objective tells an encoder.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ...estimators import Pairs

Loss = Callable[[Tensor], Tensor]


def gradient(loss: Loss, at: Tensor) -> Tensor:
    """Of a loss with respect to what it is computed from, in the precision of that."""
    leaf = at.detach().clone().requires_grad_()
    (g,) = torch.autograd.grad(loss(leaf), leaf)
    return g


def relative_error(a: Tensor, exact: Tensor) -> float:
    """The length of the difference over that of the exact one; 1 if ``a`` is useless.

    Whatever is not finite, or is further off than zero would be, counts as 1.
    """
    error = (a.double() - exact.double()).norm() / exact.double().norm()
    return min(error.item(), 1.0) if error.isfinite() else 1.0


def exact_scores(pairs: Pairs, n: int, generator: torch.Generator) -> Tensor:
    """The best critic there is, log p(x,y)/p(x)p(y), of n pairs with each other."""
    x, y = pairs.sample(n, generator=generator, dtype=torch.double)
    ratios = pairs.log_ratio(x.repeat_interleave(n, 0), y.repeat(n, 1))
    return ratios.view(n, n)


def draw_scores(n: int, gap: float, generator: torch.Generator) -> Tensor:
    """Strangers score about 0, give or take 1, and partners ``gap`` on average."""
    scores = torch.randn(n, n, generator=generator, dtype=torch.double)
    return scores + gap * torch.eye(n, dtype=torch.double)


def draw_views(
    n: int, width: int, noise: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Two views of n samples that agree in the first columns and less in the last.

    An encoder has something to learn from them: to trust the first columns more.
    """
    u = torch.randn(n, width, generator=generator)
    by_column = 2 * noise * torch.linspace(0, 1, width)
    return u, u + by_column * torch.randn(n, width, generator=generator)
