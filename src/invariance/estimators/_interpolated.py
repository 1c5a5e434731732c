r"""The interpolated bound: between InfoNCE and a learned baseline.

$$I \ge 1 + E\Big[g_{ii} - \log b_i\Big] - E\Big[\frac{e^{g_{ij}}}{b'_i}\Big],\qquad
b = \alpha\,m + (1-\alpha)\,a(x)$$

m is the mean of exp(g) over n - 1 candidates: with the partner and without one other
row in the first term, without the partner in the second. Both have n - 1 members, which
is what keeps it a bound. alpha = 1 is InfoNCE over n - 1 candidates (less variance,
ceiling log(n - 1)), alpha = 0 is TUBA; between, no sample shows more than
1 + log((n-1)/alpha).
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ._matrix import joint, log_mean_by_row, mean_of_others


def interpolated(
    scores: Float[Tensor, "*s n n"],
    log_baseline: Float[Tensor, "*s n"],
    alpha: float | int = 0.5,
) -> Float[Tensor, "*s"]:
    """The bound; ``log_baseline`` is log a(x_i)."""
    with_partner = _log_mean_without_each(scores)
    without_partner = log_mean_by_row(scores)
    first = _mix(with_partner, log_baseline[..., None].expand_as(scores), alpha)
    second = _mix(without_partner, log_baseline, alpha)
    partners = mean_of_others(joint(scores)[..., None] - first)
    strangers = (log_mean_by_row(scores) - second).exp().mean(-1)
    return 1 + partners - strangers


def _mix(a: Tensor, b: Tensor, alpha: float | int) -> Tensor:
    """Log of alpha e^a + (1 - alpha) e^b."""
    if alpha in (0, 1):
        return a if alpha == 1 else b
    return torch.logaddexp(a + math.log(alpha), b + math.log1p(-alpha))


def _log_mean_without_each(scores: Tensor) -> Tensor:
    """Entry ij: log of the mean of exp over row i without column j."""
    n = scores.shape[-1]
    total = scores.logsumexp(-1, keepdim=True)
    # log(e^total - e^score): safe unless the score is nearly the whole row, which only
    # the largest can be; that one is summed anew without it
    largest = torch.zeros_like(scores, dtype=torch.bool).scatter(
        -1, scores.argmax(-1, keepdim=True), True
    )
    rest = scores.masked_fill(largest, -math.inf).logsumexp(-1, keepdim=True)
    share = (scores - total).exp().masked_fill(largest, 0.0)
    without = total + torch.log1p(-share.clamp(max=0.75))
    return torch.where(largest, rest, without) - math.log(n - 1)
