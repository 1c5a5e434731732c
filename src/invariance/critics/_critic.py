r"""What a critic is: a number for every pair of a row of x and a row of y.

$$g_{ij} = g(x_i, y_j),\qquad
g^*(x,y) = \log\frac{p(x,y)}{p(x)p(y)} \;(+\,c(x)\text{ for InfoNCE})$$

Rows of the matrix are rows of x, columns are rows of y, so that with paired samples the
diagonal comes from the joint distribution and the rest from the product of marginals.
"""

from abc import abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

PAIRS_AT_ONCE = 2**15
"""Pairs that a critic with work for each pair holds at a time."""


class Critic(nn.Module):
    """Scores pairs of rows; the larger, the likelier they belong together."""

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "n dx"], y: Float[Tensor, "m dy"]
    ) -> Float[Tensor, "n m"]:
        """The scores of all pairs."""

    @abstractmethod
    def paired(
        self, x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"]
    ) -> Float[Tensor, " n"]:
        """The scores of row i of x with row i of y only."""


def in_row_chunks(
    score: Callable[[Tensor, Tensor], Tensor],
    a: Float[Tensor, "n p"],
    b: Float[Tensor, "m q"],
) -> Float[Tensor, "n m"]:
    """``score(rows of a, b)`` a few rows at a time, so memory does not grow with n m.

    Where gradients are wanted, the chunks are computed again on the way back.
    """
    rows = max(1, PAIRS_AT_ONCE // max(1, len(b)))
    if rows >= len(a):
        return score(a, b)
    again = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    parts = [
        checkpoint(score, part, b, use_reentrant=False) if again else score(part, b)
        for part in a.split(rows)
    ]
    return torch.cat([p for p in parts if isinstance(p, Tensor)])
