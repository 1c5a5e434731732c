r"""Alignment: how far apart the two views of one sample lie (Wang and Isola, 2020).

$$\mathrm{alignment} = \frac1n\sum_i \lVert u_i - v_i\rVert^\alpha$$

Rows are normalised. At alpha = 2 the range is [0, 4]: 0 when both views agree, 2 when
they are unrelated. Small alone proves nothing: a collapsed encoder reaches 0 too, so
read it beside the uniformity.
"""

from jaxtyping import Float
from torch import Tensor

from ._rows import above_zero, unit_pair


def alignment(
    u: Float[Tensor, "n d"], v: Float[Tensor, "n d"], alpha: float | int = 2
) -> float:
    """Mean distance of positive pairs to the power ``alpha``.

    >>> import torch
    >>> alignment(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 3.0]]))
    2.0
    """
    alpha = above_zero(alpha, "alpha")
    u, v = unit_pair(u, v)
    return (u - v).square().sum(1).pow(alpha / 2).mean().item()
