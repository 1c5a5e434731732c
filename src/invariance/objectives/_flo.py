r"""FLO, the Fenchel-Legendre bound trained as an objective, with a learned dual.

$$L = \frac1{2n}\sum_a\Big(d_a + e^{P_a - s_a - d_a} - 1\Big),\qquad
P_a = \log\frac1{n-1}\sum_{j\ne i} e^{s_{ij}}$$

s_a is the positive's logit and d the dual, a guess of the contrast P - s that each pair
of partners makes by itself. -L is a lower bound of I(U;V), in nats, for any rows and
any dual, unbiased on mini-batches and not stopped by log n; it is tight where d is the
contrast, and there its gradient is that of FlatNCE and DCL ("cross"), which put the
batch's own contrast in the place of d.

Guo et al. (2022) let a network of both samples make the dual, as
``estimate_mi(estimator="flo")`` does. Here it is a line in the pair's own logit,
$d = b - k\,s$, whose two numbers are learned: k = 1 says that all anchors have one
partition, as they do where rows cover the sphere evenly, and b is its logarithm.

Rows that are still alike exceed the dual by up to 1/tau at first, and no logarithm
tames the exponential: beyond an excess of 5 it goes on as its tangent. L is lower
there, so that -L is no bound; where the dual fits, the excess is 0.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ._contrast import Contrast, paired_loss
from ._declared_settings import (
    AnyNumber,
    Gather,
    Reduction,
    Temperature,
    check_settings,
    settings_of,
)
from ._objective import Objective

STRAIGHT = 5.0  # nats of excess; the gradient of a pair is at most e^5 over tau


@check_settings
def flo(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.5,
    slope: AnyNumber = 1.0,
    bias: AnyNumber = 0.0,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """The dual, plus the exponential of how far the contrast exceeds it, minus 1.

    Settings:
        slope (any number): k of the dual b - k s; where it starts if it is learned.
        bias (any number): b, in nats; where it starts if it is learned.

    >>> import torch
    >>> flo(torch.eye(4), torch.eye(4), temperature=0.5)  # a dual of -2 fits: -2
    tensor(-2.)
    """
    return paired_loss(
        u,
        v,
        lambda logits: fit_dual(logits, slope, bias),
        fused=None,
        temperature=temperature,
        negatives="cross",
        normalize=normalize,
        gather=gather,
        reduction=reduction,
    )


def fit_dual(logits: Contrast, slope: Any, bias: Any) -> Float[Tensor, "*a"]:
    """The loss of each anchor; one without any negative costs nothing."""
    alone = logits.first == -torch.inf
    mean = (logits.first - logits.log_count).masked_fill(alone, 0.0)
    positive = logits.positive
    dual = bias - slope * positive
    loss = dual + tame_exponential(mean - positive - dual) - 1
    return loss.masked_fill(alone, 0.0)


def tame_exponential(x: Tensor) -> Tensor:
    """The exponential up to ``STRAIGHT``, and its tangent from there on."""
    low = x.clamp_max(STRAIGHT)
    return low.exp() * (1 + x - low)


class FLO(Objective):
    """``flo``; if ``learnable``, slope and bias of the dual are parameters."""

    __init__ = settings_of(flo)
    takes_critic = True
    slope: Any
    bias: Any

    def make_state(self, *, learnable: bool = False) -> None:
        """Make both numbers of the dual parameters.

        Settings:
            learnable: Whether slope and bias are trained along with the weights.
        """
        for name in ("slope", "bias"):
            start = torch.tensor(float(getattr(self, name)))
            delattr(self, name)
            setattr(self, name, nn.Parameter(start, requires_grad=learnable))

    @property
    def powers(self) -> tuple[float | int, ...]:
        """Of the log-partition, and 0 for the number of negatives."""
        return (1.0, 0)

    def of(self, logits: Contrast) -> Tensor:
        """The dual against each anchor's contrast."""
        return fit_dual(logits, self.slope, self.bias)

    def readings(self, *inputs: Any) -> dict[str, float]:
        """The loss, and where the dual has got to."""
        now = {"slope": self.slope.item(), "bias": self.bias.item()}
        return super().readings(*inputs) | now
