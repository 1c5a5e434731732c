r"""SMILE: Donsker-Varadhan on a Jensen-Shannon critic, with the partition clipped.

$$\hat I = E_p[T] - \log E_q\big[\mathrm{clip}(e^T, e^{-c}, e^{c})\big]$$

Clipping the partition (and only it) trades variance for bias; c = inf is plain
Donsker-Varadhan. An estimate, not a bound, but one that log n does not stop.
"""

from jaxtyping import Float
from torch import Tensor

from ._matrix import joint, log_mean


def smile(
    scores: Float[Tensor, "*s n n"], clip: float | int = 5.0
) -> Float[Tensor, "*s"]:
    """The estimate; ``clip`` is the c above.

    >>> import torch
    >>> smile(torch.diag(torch.full((3,), 9.0)), clip=1)
    tensor(9.)
    """
    return joint(scores).mean(-1) - log_mean(scores.clamp(-clip, clip))
