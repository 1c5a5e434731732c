r"""Negatives within a batch of sequences: other samples, other times, or both.

A prediction of sample i at time t is compared with the code that came, z_it, and with

    other_samples      z_jt,   j != i              the same time in other sequences
    other_times        z_is,   s != t              the same sequence at other times
    samples_and_times  z_js,   (j, s) != (i, t)    every other code of the batch

Other samples of one recording have much in common, so the first tells recordings apart
by whatever does not change within them; the second cannot, and sees only what changes.
The log-partitions of the first and the last stream over tiles; the second's scores are
n t^2 numbers, as many as codes when t is about their width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..partition import Share, gather_last, log_partitions, number_rows

Number = float | int | Tensor
Rows = Float[Tensor, "n t d"]
Sums = Float[Tensor, "k a"]
"""One number per scale and row; of all processes' rows, sample by sample."""


def other_samples(
    u: Rows, v: Rows, scales: Sequence[Number], share: Share | None
) -> Sums:
    """Log-partitions over the same time in other sequences."""
    ids = number_rows(u, share)
    each = [
        log_partitions(
            u[:, s], v[:, s], scales=scales, row_ids=ids, column_ids=ids, share=share
        )
        for s in range(u.shape[1])
    ]
    return torch.stack(each, 2).flatten(1)


def other_times(
    u: Rows, v: Rows, scales: Sequence[Number], share: Share | None
) -> Sums:
    """Log-partitions over the same sequence at other times."""
    scores = u @ v.transpose(1, 2)
    itself = torch.eye(u.shape[1], dtype=torch.bool, device=u.device)
    sums = [
        (scale * scores).masked_fill(itself, -torch.inf).logsumexp(2).flatten()
        for scale in scales
    ]
    return gather_last(torch.stack(sums), share and share.repeat(u.shape[1]))


def samples_and_times(
    u: Rows, v: Rows, scales: Sequence[Number], share: Share | None
) -> Sums:
    """Log-partitions over every other code of the batch."""
    rows = share and share.repeat(u.shape[1])
    u, v = u.flatten(0, 1), v.flatten(0, 1)
    ids = number_rows(u, rows)
    return log_partitions(u, v, scales=scales, row_ids=ids, column_ids=ids, share=rows)


@dataclass(frozen=True)
class InTime:
    """A choice of negatives: their log-partitions, and how many there are."""

    sums: Callable[..., Sums]
    """Of anchors, positives, scales and whose samples they are."""
    count: Callable[[int, int], int]
    """Of n samples (of all processes) at t times."""


IN_TIME = {
    "other_samples": InTime(other_samples, lambda n, t: n - 1),
    "other_times": InTime(other_times, lambda n, t: t - 1),
    "samples_and_times": InTime(samples_and_times, lambda n, t: n * t - 1),
}
