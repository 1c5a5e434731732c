r"""InfoNCE: find the partner among n candidates.

$$I \ge \log n - \frac1n\sum_i\Big[\log\sum_j e^{g_{ij}} - g_{ii}\Big]$$

A lower bound for any critic, with little variance, that never exceeds log n. Its best
critic is free up to c(x), so the mean of g over partners is no estimate of anything.
"""

import math

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from ._matrix import joint, others


def info_nce(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """The bound, in nats; the positive is one of the n candidates.

    >>> import torch
    >>> info_nce(torch.zeros(4, 4))
    tensor(0.)
    """
    n = scores.shape[-1]
    loss = softplus(others(scores).logsumexp(-1) - joint(scores))
    return math.log(n) - loss.mean(-1)
