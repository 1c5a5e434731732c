r"""DHEL: positives attract across views, negatives repel within a view only.

$$L = \frac1n\sum_i\Big(-u_i\cdot v_i/\tau + A_i\Big),\qquad
P^u_i = \log\sum_{j\ne i} e^{u_i\cdot u_j/\tau}$$

with $A = P^u$ ("first"), $(P^u + P^v)/2$ ("mean", both directions averaged) or
$P^u + P^v$ ("sum", the authors' released code: twice the weight on spreading). Neither
the positive nor the other view is in a denominator, so alignment and spreading are
decoupled. For n <= d + 1 the optimum is u = v = a regular simplex, cosine -1/(n - 1).
"""

from typing import Annotated

from jaxtyping import Float
from torch import Tensor

from ._contrast import Contrast, decoupled, paired_loss, with_negatives
from ._declared_settings import (
    Gather,
    Reduction,
    Temperature,
    check_settings,
    one_of,
    settings_of,
)
from ._objective import Objective


@check_settings
def dhel(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.3,
    views: Annotated[str, one_of("mean", "sum", "first")] = "mean",
    normalize: bool = True,
    gather: Gather = None,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Within-view log-partition minus the positive's logit.

    Settings:
        views (mean, sum, first): Which views spread their rows: both, averaged; both,
            added, as in the released code; or u alone.

    >>> import torch
    >>> z = torch.eye(3)
    >>> dhel(z, z, temperature=1.0)  # log 2 - 1
    tensor(-0.3069)
    """
    return paired_loss(
        u,
        v,
        _both_spreads if views == "sum" else decoupled,
        fused=None if views == "sum" else "decoupled",
        temperature=temperature,
        negatives="within",
        both=views != "first",
        normalize=normalize,
        gather=gather,
        reduction=reduction,
    )


def _both_spreads(logits: Contrast) -> Tensor:
    return logits.first.sum(0) - logits.positive[0]


class DHEL(Objective):
    """``dhel`` with its settings."""

    __init__ = settings_of(dhel)
    negatives = "within"

    @property
    def one_sided(self) -> bool:
        """Whether u is spread alone."""
        return bool(self.views == "first")

    batch_only = ("views",)

    def of(self, logits: Contrast) -> Tensor:
        """Log-partition minus positive: a source stands for the anchor's own view."""
        return decoupled(with_negatives(logits))
