r"""SigLIP: every pair is a yes-or-no question of its own.

$$L = \frac1n\sum_{i,j} \mathrm{softplus}\big(-m_{ij}(t\,u_i\cdot v_j + b)\big),\qquad
m_{ii} = 1,\; m_{ij} = -1$$

A sum over all n^2 pairs divided by n, not by n^2: a mean of binary cross-entropies is
smaller by n. t and b are learned, from t = 10 and b = -10. L > 0.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..partition import row_sums, softplus, take_whole_gradient
from ._batch import Batch, read_pair
from ._declared_settings import (
    AnyNumber,
    Gather,
    Number,
    PositiveNumber,
    Reduction,
    check_settings,
    reduce,
    settings_of,
)
from ._objective import Objective, Terms


@check_settings
def sig_lip(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    scale: PositiveNumber = 10.0,
    bias: AnyNumber = -10.0,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Softplus of every pair's logit, with the sign its kind asks for.

    Settings:
        scale (above 0): Factor on every score; where it starts if it is learned.
        bias (any number): Added to every logit; where it starts if it is learned.

    >>> import torch
    >>> z = torch.eye(2)
    >>> sig_lip(z, z, scale=1.0, bias=0.0)  # log(1 + 1/e) + log 2
    tensor(1.0064)
    """
    batch = read_pair(u, v, normalize=normalize, gather=gather)
    alike, unlike = questions(batch, scale, bias)
    return reduce(alike + unlike, reduction)


def questions(
    batch: Batch, scale: Number, bias: Number
) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
    """What each row pays for its partner, and for all the others.

    Over processes that is each row of all.
    """
    (u, v), offset = batch.views, 0.0
    scale, bias = (take_whole_gradient(x, batch.share) for x in (scale, bias))
    if isinstance(bias, Tensor):
        rows, columns = _with_bias(scale * u, v, bias)
    else:
        rows, columns, offset = scale * u, v, -float(bias)
    unlike = row_sums(rows, columns, "softplus", offset=offset, **batch.pairing)
    alike = softplus(offset - (rows * columns).sum(1))
    return batch.of_all(alike), unlike


def _with_bias(u: Tensor, v: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [u, b] and [v, 1], so that autograd reaches b through the product.

    In two parts, because a 16-bit tile cannot hold all its digits in one.
    """
    one = u.new_ones(len(u), 1)
    column = bias * one
    whole = column.detach().round()
    return torch.cat([u, whole, column - whole], 1), torch.cat([v, one, one], 1)


class SigLIP(Objective):
    """``sig_lip``; if ``learnable``, log scale and bias are parameters."""

    __init__ = settings_of(sig_lip)
    takes_critic = True
    bias: Any

    def make_state(self, *, learnable: bool = False) -> None:
        """Make the bias a parameter, as the scale is, and train both if asked.

        Settings:
            learnable: Whether scale and bias are trained along with the weights.
        """
        self.bias = nn.Parameter(torch.tensor(float(self.bias)))
        self.requires_grad_(learnable)

    @property
    def scale(self) -> Tensor:
        """The scale as it is now; what is kept is its logarithm."""
        return self.log_scale.exp()

    @scale.setter
    def scale(self, value: float | int) -> None:
        self.log_scale = nn.Parameter(torch.tensor(math.log(value)))

    @property
    def inverse_temperature(self) -> Tensor:
        """The scale."""
        return self.scale

    def terms(self, u: Tensor, v: Tensor) -> Terms:
        """The questions about partners, and those about all the others."""
        batch = read_pair(u, v, normalize=self.normalize, gather=self.gather)
        alike, unlike = questions(batch, self.scale, self.bias)
        terms = Terms({"positive": alike.mean(), "negative": unlike.mean()})
        return self.require_finite(terms)

    def readings(self, *inputs: Any) -> dict[str, float]:
        """The loss, its parts, and where scale and bias have got to."""
        now = {"scale": self.scale.item(), "bias": self.bias.item()}
        return super().readings(*inputs) | now
