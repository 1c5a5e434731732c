r"""The cosine critic with a learned temperature, as contrastive encoders use it.

$$g(x,y) = \cos\big(f(x), h(y)\big)/\tau,\qquad \tau = e^{-p}$$

|g| <= 1/tau, so at a given temperature InfoNCE-type values stay below about 2/tau and
no other bound reaches further; for large information prefer an unbounded critic.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ._critic import Critic
from ._mlp import mlp


class Cosine(Critic):
    """Unit embeddings; the logarithm of 1/temperature is what is learned."""

    LARGEST_SCALE = 100.0

    def __init__(
        self,
        x_width: int,
        y_width: int,
        *,
        width: int = 128,
        depth: int = 2,
        embed: int = 32,
        temperature: float | int = 0.2,
        spectral_norm: bool = False,
    ) -> None:
        super().__init__()
        shape = {"width": width, "depth": depth, "spectral_norm": spectral_norm}
        self.of_x = mlp(x_width, embed, **shape)  # type: ignore[arg-type]
        self.of_y = mlp(y_width, embed, **shape)  # type: ignore[arg-type]
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)))

    def scale(self) -> Tensor:
        """1/temperature, at most 100."""
        return self.log_scale.exp().clamp(max=self.LARGEST_SCALE)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """All pairs."""
        return self.scale() * normalize(self.of_x(x)) @ normalize(self.of_y(y)).T

    def paired(self, x: Tensor, y: Tensor) -> Tensor:
        """Partners only."""
        return self.scale() * (normalize(self.of_x(x)) * normalize(self.of_y(y))).sum(1)
