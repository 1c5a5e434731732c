r"""FLO, the Fenchel-Legendre bound: every pair gets its own normaliser.

$$I \ge 1 - E_p[u(x,y)] - E\big[e^{-u(x,y) + g(x,y') - g(x,y)}\big],\qquad
u^* = \log E_{y'}e^{g(x,y')-g(x,y)}$$

A lower bound in expectation for any critic g and any dual u, unbiased on mini-batches
and not stopped by log n; at the best critic u* is minus the pointwise information. The
mean over the n - 1 strangers of a row only lowers the variance.
"""

from jaxtyping import Float
from torch import Tensor

from ._matrix import joint, log_mean_by_row


def flo(
    scores: Float[Tensor, "*s n n"], dual: Float[Tensor, "*s n"]
) -> Float[Tensor, "*s"]:
    """The bound with u(x_i, y_i) of each pair of partners.

    >>> import torch
    >>> flo(torch.zeros(3, 3), torch.zeros(3))
    tensor(0.)
    """
    contrast = log_mean_by_row(scores) - joint(scores)
    return 1 - (dual + (contrast - dual).exp()).mean(-1)
