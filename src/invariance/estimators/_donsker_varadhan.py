r"""Donsker-Varadhan, and MINE, which trains it without the bias of small batches.

$$I \ge E_p[g] - \log E_q[e^g],\qquad
\nabla_{\text{MINE}} = E_p[\nabla g] - \frac{E_q[e^g\nabla g]}{\bar m},\quad
\bar m \leftarrow (1-\alpha)\bar m + \alpha\,E_q[e^g]$$

A bound for the true expectations. The logarithm of a mini-batch mean is too low on
average, so on a finite sample the value is an estimate that leans upwards, no bound.
The moving average is kept as its logarithm, starts at the first batch, takes each batch
in before it is used, and is never more than a factor e above the batch's own mean: a
single huge score would otherwise fill it for thousands of steps.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ._matrix import joint, log_mean

# One batch with a huge score would fill the average for thousands of steps, in which
# strangers weigh nothing and the critic runs away: the average forgets it at once.
MOST_BEHIND = 1.0


def donsker_varadhan(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """The value, with the mean of exp over all strangers.

    >>> import torch
    >>> donsker_varadhan(torch.full((3, 3), 7.0))
    tensor(0.)
    """
    return joint(scores).mean(-1) - log_mean(scores)


def mine_loss(
    scores: Float[Tensor, "*s n n"],
    log_average: Float[Tensor, "*s"] | None,
    rate: float | int = 0.05,
) -> tuple[Float[Tensor, "*s"], Float[Tensor, "*s"]]:
    """A loss with MINE's gradient, and the log of the new moving average.

    Its value is only the gradient's carrier; read ``donsker_varadhan`` instead.
    """
    now = log_mean(scores)
    if log_average is None:
        average = now.detach()
    else:
        average = torch.logaddexp(
            log_average + math.log1p(-rate), now.detach() + math.log(rate)
        )
        average = torch.minimum(average, now.detach() + MOST_BEHIND)
    return (now - average).exp() - joint(scores).mean(-1), average
