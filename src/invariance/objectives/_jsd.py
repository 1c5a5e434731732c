r"""Jensen-Shannon: is this pair of one sample, or of two? Both sorts weigh the same.

$$L = \frac1n\sum_i \mathrm{softplus}(-s_{ii})
+ \frac1{n(n-1)}\sum_{i\ne j} \mathrm{softplus}(s_{ij}),\qquad
s_{ij} = u_i\cdot v_j/\tau$$

The loss of a discriminator, and Deep InfoMax's own choice: SigLIP's questions with the
mean over strangers in place of their sum, and without a bias. L > 0; scores of 0 cost
2 log 2. With the best critic 2 log 2 - L is twice the Jensen-Shannon divergence between
joint pairs and strangers. That is not their mutual information, nor a bound of it in
nats: it never passes 2 log 2. Bounds may be read off the critic that was trained so
(``invariance.estimate_mi(estimator="jsd")``).
"""

import math
from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor

from ..partition import Share, gather_last, softplus, take_whole_gradient
from ._batch import full_precision, read_pair, ready_rows
from ._declared_settings import (
    Gather,
    Reduction,
    Temperature,
    check_settings,
    reduce,
    settings_of,
)
from ._learned_temperature import scale_of
from ._objective import Objective
from ._sig_lip import questions


@check_settings
def jsd(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.1,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Cross-entropy of telling partners from strangers, as many of both.

    >>> import torch
    >>> jsd(torch.zeros(4, 8), torch.zeros(4, 8))  # scores of 0: 2 log 2
    tensor(1.3863)
    """
    batch = read_pair(u, v, normalize=normalize, gather=gather)
    alike, unlike = questions(batch, scale_of(temperature), 0.0)
    return reduce(alike + unlike / (batch.n - 1), reduction)


class JSD(Objective):
    """``jsd`` with its settings."""

    __init__ = settings_of(jsd)
    takes_critic = True

    def among(
        self,
        u: Tensor,
        v: Tensor,
        sums: Callable[..., Tensor],
        *,
        log_count: float,
        share: Share | None = None,
    ) -> Tensor:
        """As ``Objective.among``; ``sums`` is asked for those of softplus."""
        settings: Any = self
        u, v = (ready_rows(x, settings.normalize) for x in (u, v))
        scale = take_whole_gradient(scale_of(settings.temperature), share)
        with full_precision(u):
            positive = scale * gather_last((u * v).sum(-1).flatten(), share)
            (strange,) = sums(u, v, [scale], "softplus")
            loss = (softplus(-positive) + strange / math.exp(log_count)).mean()
        return self.require_finite(loss)
