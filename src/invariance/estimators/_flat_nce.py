r"""FlatNCE and FDV: InfoNCE's critic trained without its vanishing gradient.

$$L = \frac1n\sum_i\exp\big(v_i - \mathrm{sg}\,v_i\big),\qquad
v_i = \log\sum_{j\ne i} e^{g_{ij}-g_{ii}}$$

L is always 1; its gradient is that of v, InfoNCE's divided by the probability of a
mistake. What is read off is the InfoNCE value of the critic, with its ceiling: the
leave-one-out value of v overshoots. FDV is the same gradient with that value written
into the loss.
"""

from jaxtyping import Float
from torch import Tensor

from ._info_nce import info_nce
from ._matrix import joint, others


def flat_nce_loss(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """The constant 1 with FlatNCE's gradient."""
    v = others(scores).logsumexp(-1) - joint(scores)
    return (v - v.detach()).exp().mean(-1)


def fdv_loss(scores: Float[Tensor, "*s n n"]) -> Float[Tensor, "*s"]:
    """Minus the InfoNCE value, with FlatNCE's gradient."""
    return flat_nce_loss(scores) - 1 - info_nce(scores.detach())
