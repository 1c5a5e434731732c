r"""The bilinear critic.

$$g(x,y) = x^\top W y + a^\top x + b^\top y + c$$

Exact up to squares for Gaussian variables under InfoNCE; one matrix, nothing to tune.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm as bounded

from ._critic import Critic


class Bilinear(Critic):
    """x^T W y with linear terms; starts at zero."""

    def __init__(
        self, x_width: int, y_width: int, *, spectral_norm: bool = False
    ) -> None:
        super().__init__()
        self.cross = nn.Linear(y_width, x_width, bias=False)
        self.of_x, self.of_y = nn.Linear(x_width, 1), nn.Linear(y_width, 1, bias=False)
        for layer in (self.cross, self.of_x, self.of_y):
            nn.init.zeros_(layer.weight)
        if spectral_norm:  # the gain of a zero matrix is not defined
            nn.init.normal_(self.cross.weight, std=0.01)
            bounded(self.cross)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """All pairs."""
        return x @ self.cross(y).T + self.of_x(x) + self.of_y(y).T

    def paired(self, x: Tensor, y: Tensor) -> Tensor:
        """Partners only."""
        return torch.einsum("nd,nd->n", x, self.cross(y)) + (
            self.of_x(x) + self.of_y(y)
        ).squeeze(1)
