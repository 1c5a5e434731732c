r"""DCL, the decoupled loss: InfoNCE without the positive in the denominator.

$$L = \frac1{2n}\sum_a \Big(\log\sum_{k\in N(a)} e^{z_a\cdot z_k/\tau}
- w_a\,z_a\cdot z_{\mathrm{pos}(a)}/\tau\Big)$$

N(a) is the 2n - 2 rows of other samples ("all") or the n - 1 of them in the other view
("cross"). Dropping the positive takes the factor 1 - p off InfoNCE's gradient, which
vanishes when a batch is small or solved. w is 1, or with ``weight_sigma`` (DCLW)
$w_i = 2 - n\,\mathrm{softmax}_k(u_k\cdot v_k/\sigma)_i$: mean 1, more weight to pairs
far apart, a weight and hence detached (one public code differentiates through it).

L can be negative and has no floor; it is neither capped by log n nor a bound of the
mutual information.
"""

from functools import partial
from typing import Annotated, Any

from jaxtyping import Float
from torch import Tensor

from ._contrast import Contrast, Negatives, decoupled, paired_loss, with_negatives
from ._declared_settings import (
    Gather,
    Reduction,
    Temperature,
    check_positive,
    check_settings,
    optional,
    settings_of,
)
from ._learned_temperature import value_of
from ._objective import Objective


@check_settings
def dcl(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.1,
    negatives: Negatives = "all",
    weight_sigma: Annotated[float | int | None, optional(check_positive)] = None,
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Log-partition over the negatives minus the positive's logit.

    Settings:
        negatives (all, cross): The other samples' rows in both views, or in the other
            view alone.
        weight_sigma (above 0): Width of DCLW's weights, which favor positives that are
            far apart; the paper has 0.5.

    >>> import torch
    >>> z = torch.eye(4)
    >>> dcl(z, z, temperature=1.0)  # six orthogonal negatives: log 6 - 1
    tensor(0.7918)
    """
    return paired_loss(
        u,
        v,
        partial(_weighted, temperature=temperature, weight_sigma=weight_sigma),
        fused="decoupled" if weight_sigma is None else None,
        temperature=temperature,
        negatives=negatives,
        normalize=normalize,
        gather=gather,
        reduction=reduction,
    )


def _weighted(
    logits: Contrast, temperature: Any, weight_sigma: float | int | None
) -> Tensor:
    positive = logits.positive
    if weight_sigma is not None:
        cosine = (value_of(temperature) * positive).detach()
        nearness = (cosine / weight_sigma).softmax(-1)
        positive = positive * (2 - positive.shape[-1] * nearness)
    return decoupled(logits._replace(positive=positive))


class DCL(Objective):
    """``dcl`` with its settings; a ``weight_sigma`` (the paper: 0.5) makes it DCLW."""

    __init__ = settings_of(dcl)
    batch_only = ("negatives",)

    def of(self, logits: Contrast) -> Tensor:
        """Log-partition minus the (weighted) positive."""
        return _weighted(with_negatives(logits), self.temperature, self.weight_sigma)
