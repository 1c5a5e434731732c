r"""The concatenated critic: one network that sees both rows at once.

$$g(x,y) = \mathrm{MLP}([x, y])$$

The sharpest of the critics and the dearest: every pair is a forward pass. The first
layer is A x + B y, computed once a row, and the rest runs over a bounded number of
pairs at a time, so that n m rows never exist at once.
"""

import torch
from torch import Tensor, nn

from ._critic import Critic, in_row_chunks
from ._mlp import linear, mlp


class Concatenated(Critic):
    """A perceptron on [x, y]; smaller by default than others, as it costs n m."""

    def __init__(
        self,
        x_width: int,
        y_width: int,
        *,
        width: int = 64,
        depth: int = 2,
        spectral_norm: bool = False,
    ) -> None:
        super().__init__()
        self.of_x = linear(x_width, width, spectral_norm=spectral_norm)
        self.of_y = linear(y_width, width, spectral_norm=spectral_norm)
        rest = mlp(
            width, 1, width=width, depth=max(0, depth - 1), spectral_norm=spectral_norm
        )
        self.of_both = nn.Sequential(nn.ReLU(), rest)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """All pairs, a bounded number at a time."""
        return in_row_chunks(self._block, self.of_x(x), self.of_y(y))

    def _block(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.squeeze(self.of_both(a[:, None] + b[None]), 2)

    def paired(self, x: Tensor, y: Tensor) -> Tensor:
        """Partners only."""
        return torch.squeeze(self.of_both(self.of_x(x) + self.of_y(y)), 1)
