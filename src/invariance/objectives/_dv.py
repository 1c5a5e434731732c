r"""Donsker-Varadhan: partners' scores against the soft maximum of all others.

$$L = \log\frac1{n(n-1)}\sum_{i\ne j} e^{s_{ij}} - \frac1n\sum_i s_{ii},\qquad
s_{ij} = u_i\cdot v_j/\tau$$

One logarithm for the whole batch, where InfoNCE has one per anchor. For expectations -L
is a lower bound of I(U;V), in nats (MINE and Deep InfoMax train it). Of a batch it is
an estimate that leans upwards, since the logarithm of a mean over few pairs is too low:
no bound. Nothing to tell samples apart costs 0, and the best value is below it.
"""

import math

from jaxtyping import Float
from torch import Tensor

from ._contrast import Contrast, paired_loss
from ._declared_settings import (
    Gather,
    Reduction,
    Temperature,
    check_settings,
    settings_of,
)
from ._objective import Objective


@check_settings
def dv(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.1,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Log of the mean exponential over strangers, minus the partners' mean score.

    >>> import torch
    >>> dv(torch.eye(4), torch.eye(4), temperature=0.5)  # 0 - 2
    tensor(-2.)
    """
    return paired_loss(
        u,
        v,
        soft_maximum_gap,
        fused=None,
        temperature=temperature,
        negatives="cross",
        both=False,  # the sum is over all pairs, whoever asks
        normalize=normalize,
        gather=gather,
        reduction=reduction,
    )


def soft_maximum_gap(logits: Contrast) -> Float[Tensor, "*a"]:
    """The log-mean of all negatives of all anchors, minus each positive.

    Anchors of the last axis are of different samples.
    """
    each = logits.first - logits.log_count
    log_mean = each.logsumexp(-1, keepdim=True) - math.log(each.shape[-1])
    return log_mean - logits.positive


class DV(Objective):
    """``dv`` with its settings."""

    __init__ = settings_of(dv)
    takes_critic = True
    one_sided = True

    @property
    def powers(self) -> tuple[float | int, ...]:
        """Of the log-partition, and 0 for the number of negatives."""
        return (1.0, 0)

    def of(self, logits: Contrast) -> Tensor:
        """The gap of each positive to all negatives."""
        return soft_maximum_gap(logits)

    def chance(self, n: int, n_views: int = 2) -> float:
        """Of equal scores."""
        return 0.0
