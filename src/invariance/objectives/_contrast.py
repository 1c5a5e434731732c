"""The two numbers every two-view softmax objective is made of.

For each of the 2n anchors, u's rows first: the logit of its positive, and the
log-partition over its negatives. The positive stays outside the partition, where its
precision does not depend on the negatives.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..partition import log_partitions, two_sided_log_partition
from ._rows import Number, sample_ids

NEGATIVES = ("all", "cross")


class Contrast(NamedTuple):
    """Logits of a batch, anchors of u in row 0 and of v in row 1."""

    positive: Float[Tensor, "2 n"]
    negative: Float[Tensor, "k 2 n"]
    n_negatives: int


def contrast(
    u: Float[Tensor, "n d"],
    v: Float[Tensor, "n d"],
    *,
    temperature: Number,
    negatives: str,
    powers: tuple[float, ...] = (1.0,),
    precision: str = "auto",
) -> Contrast:
    """Positive logits, and log-partitions of the negatives at each power of them.

    Args:
        u: One view, rows ready for use.
        v: The other view.
        temperature: Divides every score.
        negatives: "all", the other samples' rows in both views (2n - 2), or "cross",
            those in the other view alone (n - 1).
        powers: k factors on the logits, each giving one log-partition.
        precision: Of the products, see ``tile_precision``.
    """
    n, ids, scale = len(u), sample_ids(u), 1 / temperature
    positive = (scale * (u * v).sum(1)).expand(2, n)
    scales = [power * scale for power in powers]
    if negatives == "all":
        z, twice = torch.cat([u, v]), ids.repeat(2)
        negative = log_partitions(
            z,
            z,
            scales=scales,
            row_ids=twice,
            column_ids=twice,
            precision=precision,
        )
        return Contrast(positive, negative.unflatten(1, (2, n)), 2 * n - 2)
    if negatives == "cross":
        both = [
            torch.stack(
                two_sided_log_partition(
                    u, v, scale=s, row_ids=ids, column_ids=ids, precision=precision
                )
            )
            for s in scales
        ]
        return Contrast(positive, torch.stack(both), n - 1)
    raise SettingError(f"negatives must be one of {NEGATIVES}: got {negatives!r}.")
