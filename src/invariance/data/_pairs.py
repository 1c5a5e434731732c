r"""Pairs of variables whose mutual information is known exactly.

$$I(X;Y) = E_{p(x,y)}\Big[\log\frac{p(x,y)}{p(x)\,p(y)}\Big]$$

A ``Pairs`` is a sampler, the exact number of nats, and the logarithm inside the
expectation (the best critic there is), which is what estimators are tested against.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from ..errors import SettingError

Draw = Callable[[int, Generator], tuple[Tensor, Tensor]]
Ratio = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Pairs:
    """A joint distribution of two variables, with its exact mutual information."""

    name: str
    """What it is, with its parameters."""
    nats: float
    """Exact mutual information."""
    x_width: int
    """Columns of x."""
    y_width: int
    """Columns of y."""
    draw: Draw
    """Draws n independent rows of both in float64, from a generator."""
    ratio: Ratio
    """log p(x,y)/p(x)p(y) of paired rows."""

    def sample(
        self, n: int, *, generator: Generator, dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "n dx"], Float[Tensor, "n dy"]]:
        """``n`` independent pairs.

        >>> import torch
        >>> from invariance.data import correlated_gaussian
        >>> pairs = correlated_gaussian(3, nats=1.0)
        >>> x, y = pairs.sample(5, generator=torch.Generator().manual_seed(0))
        >>> x.shape, y.dtype
        (torch.Size([5, 3]), torch.float32)
        """
        if n < 1:
            raise SettingError(f"n must be at least 1, got {n}.")
        x, y = self.draw(n, generator)
        return x.to(dtype), y.to(dtype)

    def log_ratio(
        self, x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"]
    ) -> Float[Tensor, " n"]:
        """Log p(x,y)/p(x)p(y), row by row, in float64; its mean is ``nats``."""
        return self.ratio(x.double(), y.double())

    def __str__(self) -> str:
        return self.name


def normals(n: int, d: int, generator: Generator) -> Tensor:
    """Standard normal rows in float64."""
    return torch.randn(n, d, generator=generator, dtype=torch.float64)
