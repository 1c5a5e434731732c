r"""InfoNCE: pick each anchor's partner out of the n rows of the other view.

$$L = \frac1n\sum_i \mathrm{softplus}\Big(\log\sum_{j\ne i} e^{s_{ij}} - s_{ii}\Big),
\qquad s_{ij} = u_i\cdot v_j/\tau$$

L >= 0; chance is log n; with independent samples, to which the encoder was not fitted,
log n - L is on average a lower bound of I(U;V), in nats, for any encoder, and can never
pass log n. The symmetric form averages both directions: it is CLIP's loss.
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
def info_nce(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.1,
    symmetric: bool = True,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Cross-entropy of finding v_i among all of v (and u_i among all of u).

    Settings:
        symmetric: Whether v's rows look for u's as well, both directions averaged.

    >>> import torch
    >>> z = torch.ones(4, 8)
    >>> info_nce(z, z)  # nothing to tell the samples apart: log 4
    tensor(1.3863)
    """
    return paired_loss(
        u,
        v,
        cross_entropy,
        fused="cross_entropy",
        temperature=temperature,
        negatives="cross",
        both=symmetric,
        normalize=normalize,
        gather=gather,
        reduction=reduction,
    )


class InfoNCE(Objective):
    """``info_nce`` with its settings."""

    __init__ = settings_of(info_nce)
    negatives = "cross"

    @property
    def one_sided(self) -> bool:
        """Whether u asks alone."""
        return not self.symmetric

    batch_only = ("symmetric",)

    def of(self, logits: Contrast) -> Tensor:
        """Cross-entropy of the positive among itself and the negatives."""
        return cross_entropy(logits)

    def chance(self, n: int, n_views: int = 2) -> float:
        """Any of the n rows of the other view."""
        return math.log(n)
