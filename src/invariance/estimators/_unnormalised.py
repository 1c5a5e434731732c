r"""Unnormalised Barber-Agakov: a bound whose normaliser must be estimated.

$$I \ge E_p[g] - E_{p(x)}\log Z(x),\qquad Z(x) = E_{p(y)}e^{g(x,y)}$$

With Z known this is a bound. With Z the mean over the other n - 1 rows, as here, the
logarithm is too low on average (Jensen), so the value comes out too HIGH: it is the
leave-one-out number, an estimate that overshoots and not a bound.
"""

from jaxtyping import Float
from torch import Tensor

from ._matrix import joint, log_mean_by_row


def leave_one_out(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """E_p[g] less the mean log of the leave-one-out normalisers.

    >>> import torch
    >>> leave_one_out(torch.eye(3))
    tensor(1.)
    """
    return (joint(scores) - log_mean_by_row(scores)).mean(-1)


def unnormalised_ba(
    positive: Float[Tensor, "*s n"], log_normaliser: Float[Tensor, "*s n"]
) -> Float[Tensor, "*s"]:
    """The bound itself, where log Z(x) is known."""
    return (positive - log_normaliser).mean(-1)
