r"""NT-Xent, SimCLR's loss: each view picks its partner out of all 2n - 1 other rows.

$$L = \frac1{2n}\sum_{a} \mathrm{softplus}\Big(\log\sum_{k\notin\{a,\mathrm{pos}(a)\}}
e^{z_a\cdot z_k/\tau} - z_a\cdot z_{\mathrm{pos}(a)}/\tau\Big),\qquad z = [u; v]$$

L >= 0; chance is log(2n - 1). The two views of a negative are correlated, so
log(2n - 1) - L is no bound of the mutual information; ``readings`` gives one that is.
"""

import math

from jaxtyping import Float
from torch import Tensor

from ._contrast import Contrast, cross_entropy, paired_loss
from ._declared_settings import (
    Gather,
    Reduction,
    Temperature,
    check_settings,
    settings_of,
)
from ._objective import Objective


@check_settings
def nt_xent(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.5,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Cross-entropy of finding the other view among the 2n - 1 other rows.

    >>> import torch
    >>> z = torch.ones(4, 8)
    >>> nt_xent(z, z)  # log 7
    tensor(1.9459)
    """
    return paired_loss(
        u,
        v,
        cross_entropy,
        fused="cross_entropy",
        temperature=temperature,
        negatives="all",
        normalize=normalize,
        gather=gather,
        reduction=reduction,
    )


class NTXent(Objective):
    """``nt_xent`` with its settings."""

    __init__ = settings_of(nt_xent)
    negatives = "all"

    def of(self, logits: Contrast) -> Tensor:
        """Cross-entropy of the positive among itself and the negatives."""
        return cross_entropy(logits)

    def chance(self, n: int, n_views: int = 2) -> float:
        """Any of the other rows of both views."""
        return math.log(2 * n - 1)
