r"""Critics trained to tell partners from strangers: Jensen-Shannon and binary NCE.

$$J = -E_p\,\mathrm{sp}(-T) - E_q\,\mathrm{sp}(T)\le 0,\qquad
T^* = \log\frac{p(x,y)}{p(x)p(y)}$$

J itself says nothing about information (it is never above 0), but its critic is the log
ratio, and the NWJ bound of T + 1 turns that into nats. Without the + 1, as released
codes have it, the optimum reads I - 1/e. With k strangers a partner, binary NCE trains
sigmoid(T - log k); leaving out log k would make log r/k the optimum.
"""

import math

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from ._matrix import joint, mean_of_others


def jensen_shannon(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """J, to be maximised; -2 log 2 for a critic that knows nothing, 0 at best.

    >>> import torch
    >>> jensen_shannon(torch.zeros(3, 3))
    tensor(-1.3863)
    """
    partners = softplus(-joint(scores)).mean(-1)
    return -partners - mean_of_others(softplus(scores))


def binary_nce(
    scores: Float[Tensor, "*s n n"], noise: int | None = None
) -> Float[Tensor, "*s"]:
    """The log-likelihood with ``noise`` strangers a partner (all n - 1 by default)."""
    k = scores.shape[-1] - 1 if noise is None else noise
    shifted = scores - math.log(k)
    partners = softplus(-joint(shifted)).mean(-1)
    return -partners - k * mean_of_others(softplus(shifted))
