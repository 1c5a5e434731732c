r"""The additive critic, as in additive attention.

$$g(x,y) = w^\top\tanh(Ax + By + c) + d$$

|g - d| <= ||w||_1: bounded, so it cannot show arbitrarily much information.
"""

import torch
from torch import Tensor

from ._critic import Critic, in_row_chunks
from ._mlp import linear


class Additive(Critic):
    """One hidden layer of ``width`` tanh units over both rows."""

    def __init__(
        self,
        x_width: int,
        y_width: int,
        *,
        width: int = 128,
        spectral_norm: bool = False,
    ) -> None:
        super().__init__()
        self.of_x = linear(x_width, width, spectral_norm=spectral_norm)
        self.of_y = linear(y_width, width, spectral_norm=spectral_norm)
        self.weigh = linear(width, 1, spectral_norm=spectral_norm)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """All pairs, a bounded number at a time."""
        return in_row_chunks(self._block, self.of_x(x), self.of_y(y))

    def _block(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.squeeze(self.weigh(torch.tanh(a[:, None] + b[None])), 2)

    def paired(self, x: Tensor, y: Tensor) -> Tensor:
        """Partners only."""
        return torch.squeeze(self.weigh(torch.tanh(self.of_x(x) + self.of_y(y))), 1)
