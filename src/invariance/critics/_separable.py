r"""The separable critic: two networks that meet in an inner product.

$$g(x,y) = f(x)\cdot h(y) + a(x) + b(y)$$

n + m forward passes give all n m scores, so large numbers of candidates cost little.
The terms of one variable are what bounds without a free c(x) need for normalisation.
"""

from torch import Tensor

from ._critic import Critic
from ._mlp import mlp


class Separable(Critic):
    """Two perceptrons into ``embed`` numbers and one more for the lone terms."""

    def __init__(
        self,
        x_width: int,
        y_width: int,
        *,
        width: int = 128,
        depth: int = 2,
        embed: int = 32,
        spectral_norm: bool = False,
    ) -> None:
        super().__init__()
        shape = {"width": width, "depth": depth, "spectral_norm": spectral_norm}
        self.of_x = mlp(x_width, embed + 1, **shape)  # type: ignore[arg-type]
        self.of_y = mlp(y_width, embed + 1, **shape)  # type: ignore[arg-type]

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """All pairs."""
        f, h = self.of_x(x), self.of_y(y)
        return f[:, :-1] @ h[:, :-1].T + f[:, -1:] + h[:, -1:].T

    def paired(self, x: Tensor, y: Tensor) -> Tensor:
        """Partners only."""
        f, h = self.of_x(x), self.of_y(y)
        return (f[:, :-1] * h[:, :-1]).sum(1) + f[:, -1] + h[:, -1]
