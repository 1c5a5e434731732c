r"""TUBA and NWJ: the logarithm of the normaliser made linear.

$$I \ge 1 + E_p\Big[g - \log a(x)\Big] - E_q\Big[\frac{e^{g}}{a(x)}\Big],\qquad
\text{NWJ: } a = e:\; E_p[g] - E_q[e^{g-1}]$$

Unbiased on a mini-batch and a lower bound for any critic g and any positive a, with a
variance that grows like e^I. The best NWJ critic is 1 + log p(x,y)/p(x)p(y); mixing
that up with log p(x,y)/p(x)p(y) costs 1/e nats at the optimum.
"""

from jaxtyping import Float
from torch import Tensor

from ._matrix import joint, log_mean


def tuba(
    scores: Float[Tensor, "*s n n"], log_baseline: Float[Tensor, "*s n"]
) -> Float[Tensor, "*s"]:
    """The bound with log a(x_i) of each row."""
    tilted = scores - log_baseline[..., None]
    return 1 + joint(tilted).mean(-1) - log_mean(tilted).exp()


def nwj(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """The bound with a = e; also called f-GAN KL.

    >>> import torch
    >>> nwj(torch.ones(3, 3))
    tensor(0.)
    """
    return joint(scores).mean(-1) - log_mean(scores - 1).exp()


def nwj_of_log_ratio(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """The same bound for critics of log p(x,y)/p(x)p(y): ``nwj(scores + 1)``."""
    return 1 + joint(scores).mean(-1) - log_mean(scores).exp()
