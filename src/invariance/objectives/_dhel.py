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

from ..partition import log_partition
from ._contrast import Contrast, decoupled, paired_loss, with_negatives
from ._declare import (
    Reduction,
    Temperature,
    check_settings,
    one_of,
    reduce,
    scale_of,
    settings_of,
)
from ._inputs import paired_rows, sample_ids, tile_precision
from ._objective import Objective


@check_settings
def dhel(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Temperature = 0.3,
    views: Annotated[str, one_of("mean", "sum", "first")] = "mean",
    normalize: bool = True,
    gather: bool = False,
    reduction: Reduction = "mean",
) -> Float[Tensor, "*n"]:
    """Within-view log-partition minus the positive's logit.

    >>> import torch
    >>> z = torch.eye(3)
    >>> dhel(z, z, temperature=1.0)  # log 2 - 1
    tensor(-0.3069)
    """
    if views != "first":
        return paired_loss(
            u,
            v,
            decoupled if views == "mean" else _both_spreads,
            fused="decoupled" if views == "mean" else None,
            temperature=temperature,
            negatives="within",
            normalize=normalize,
            gather=gather,
            reduction=reduction,
        )
    precision, scale = tile_precision(u, v), scale_of(temperature)
    u, v = paired_rows(u, v, normalize=normalize, gather=gather)
    ids = sample_ids(u)
    spread = log_partition(
        u, u, scale=scale, row_ids=ids, column_ids=ids, precision=precision
    )
    return reduce(spread - scale * (u * v).sum(1), reduction)


def _both_spreads(logits: Contrast) -> Tensor:
    return logits.first.sum(0) - logits.positive[0]


class DHEL(Objective):
    """``dhel`` with its settings."""

    __init__ = settings_of(dhel)

    def of(self, logits: Contrast) -> Tensor:
        """Log-partition minus positive: a source stands for the anchor's own view."""
        return decoupled(with_negatives(logits))
