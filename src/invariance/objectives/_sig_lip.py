r"""SigLIP: every pair is a yes-or-no question of its own.

$$L = \frac1n\sum_{i,j} \mathrm{softplus}\big(-m_{ij}(t\,u_i\cdot v_j + b)\big),\qquad
m_{ii} = 1,\; m_{ij} = -1$$

A sum over all n^2 pairs divided by n, not by n^2: a mean of binary cross-entropies is
smaller by n. t and b are learned, from t = 10 and b = -10. L > 0.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from ..partition import row_sums
from ._objective import Objective
from ._rows import (
    Number,
    check_number,
    check_positive,
    paired_rows,
    sample_ids,
    tile_precision,
)


def sig_lip(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    scale: Number = 10.0,
    bias: Number = -10.0,
    normalize: bool = True,
) -> Float[Tensor, ""]:
    """Softplus of every pair's logit, with the sign its kind asks for.

    >>> import torch
    >>> z = torch.eye(2)
    >>> sig_lip(z, z, scale=1.0, bias=0.0)  # log(1 + 1/e) + log 2
    tensor(1.0064)
    """
    check_positive("scale", scale)
    if not isinstance(bias, Tensor):
        check_number("bias", bias)
    precision = tile_precision(u, v)
    u, v = paired_rows(u, v, normalize=normalize)
    return questions(u, v, scale=scale, bias=bias, precision=precision)


def questions(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    scale: Number,
    bias: Number,
    precision: str = "auto",
) -> Float[Tensor, ""]:
    """The loss of rows ready for use."""
    ids, offset = sample_ids(u), 0.0
    if isinstance(bias, Tensor):
        rows, columns = _with_bias(scale * u, v, bias)
    else:
        rows, columns, offset = scale * u, v, -float(bias)
    unlike = row_sums(
        rows,
        columns,
        "softplus",
        offset=offset,
        row_ids=ids,
        column_ids=ids,
        precision=precision,
    )
    alike = softplus(offset - (rows * columns).sum(1))
    return (alike + unlike).mean()


def _with_bias(u: Tensor, v: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [u, b] and [v, 1], so that autograd reaches b through the product.

    In two parts, because a 16-bit tile has no room for its digits in one.
    """
    one = u.new_ones(len(u), 1)
    column = bias * one
    whole = column.detach().round()
    return torch.cat([u, whole, column - whole], 1), torch.cat([v, one, one], 1)


class SigLIP(Objective):
    """``sig_lip``; if ``learnable``, log scale and bias are parameters."""

    def __init__(
        self,
        scale: float | int = 10.0,
        bias: float | int = -10.0,
        *,
        learnable: bool = False,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        check_positive("scale", scale)
        check_number("bias", bias)
        start = torch.tensor([math.log(scale), float(bias)])
        self.log_scale = nn.Parameter(start[0], requires_grad=learnable)
        self.bias = nn.Parameter(start[1], requires_grad=learnable)
        self.normalize = normalize

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The loss of a batch."""
        return sig_lip(
            u,
            v,
            scale=self.log_scale.exp(),
            bias=self.bias,
            normalize=self.normalize,
        )

    def readings(self, u: Tensor, v: Tensor) -> dict[str, float]:
        """The loss, and where scale and bias have got to."""
        now = {"scale": float(self.log_scale.exp()), "bias": float(self.bias)}
        return super().readings(u, v) | now
