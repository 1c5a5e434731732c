r"""The exact critic of a known distribution, for tests.

$$g(x,y) = \log\frac{p(x,y)}{p(x)p(y)} + c$$

No bound can do better with any other critic.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ._critic import Critic, in_row_chunks


class Exact(Critic):
    """Wraps a function of paired rows, such as ``Pairs.log_ratio``."""

    def __init__(
        self, log_ratio: Callable[[Tensor, Tensor], Tensor], offset: float | int = 0.0
    ) -> None:
        super().__init__()
        self.log_ratio, self.offset = log_ratio, offset

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """All pairs, a bounded number at a time."""
        return in_row_chunks(self._block, x, y)

    def _block(self, x: Tensor, y: Tensor) -> Tensor:
        n, m = len(x), len(y)
        flat = self.paired(x.repeat_interleave(m, 0), y.repeat(n, 1))
        return flat.view(n, m)

    def paired(self, x: Tensor, y: Tensor) -> Tensor:
        """Partners only."""
        return self.log_ratio(x, y).to(torch.promote_types(x.dtype, torch.float32)) + (
            self.offset
        )
