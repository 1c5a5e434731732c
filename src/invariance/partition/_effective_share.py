r"""Which share of its terms makes up a partition: the effective sample size (ESS).

$$\mathrm{ESS}_i = \frac{1}{m_i\sum_j w_{ij}^2}
= \frac{\big(\sum_j e^{s_{ij}}\big)^2}{m_i\sum_j e^{2s_{ij}}},\qquad
w_{ij} = \operatorname{softmax}_j(s_{ij})$$

Two log-partitions, at the scale of the loss and at twice that scale, say it, so it
streams like the loss and its memory is linear in the rows.
"""

from itertools import permutations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ._partition import log_partitions
from ._processes import Share, number_rows

Number = float | int | Tensor


def effective_share(
    single: Float[Tensor, " n"],
    double: Float[Tensor, " n"],
    log_count: Float[Tensor, " n"] | float,
) -> Float[Tensor, " n"]:
    """Effective number of the terms of each partition, over their number.

    Between 1/m (one term is all) and 1 (all are the same); NaN where there is no term.

    Args:
        single: Log-partitions at some scale.
        double: At twice that scale.
        log_count: Logarithm of the number m of terms: the log-partition at scale 0.

    >>> four = torch.tensor([4.0]).log()  # four equal terms
    >>> effective_share(four, four, four)
    tensor([1.])
    """
    return (2 * single - double - log_count).exp().clamp(max=1)  # against rounding


@torch.no_grad()
def shares_in_batch(
    z: Float[Tensor, "v n d"],
    *,
    scale: Number,
    negatives: str,
    ids: Int[Tensor, " n"] | None = None,
    one_sided: bool = False,
    precision: str = "auto",
    share: Share | None = None,
) -> Float[Tensor, " a"]:
    """Effective share of the negatives of every anchor of a batch.

    Args:
        z: Rows of the samples' views, as the loss scores them.
        scale: Of the scores in the softmax over the negatives.
        negatives: The other samples in "all" views, in each of the others ("cross") or
            in the anchor's own ("within").
        ids: Which sample, or class, each row is of; equal ones are no negatives.
        one_sided: Whether the first view's rows alone are anchors.
        precision: As in ``log_partition``.
        share: Which samples of all processes these are, if all are meant.

    >>> shares_in_batch(torch.eye(4)[None], scale=10.0, negatives="within")
    tensor([1., 1., 1., 1.])
    """
    if ids is None:
        ids = number_rows(z[0], share)
    if negatives == "all":
        rows, ids = z.flatten(0, 1), ids.repeat(len(z))
        share = None if share is None else share.repeat(len(z))
        sides = [(rows, rows)]
    elif negatives == "within":
        sides = [(x, x) for x in z]
    else:
        sides = list(permutations(z, 2))
    parts = [
        log_partitions(
            x,
            y,
            scales=(scale, 2 * scale, 0.0),
            row_ids=ids,
            column_ids=ids,
            precision=precision,
            share=share,
        )
        for x, y in (sides[:1] if one_sided else sides)
    ]
    return torch.cat([effective_share(*part) for part in parts])
