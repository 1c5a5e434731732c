r"""How similar partners and strangers are: two histograms of cosines.

Positive: u_i·v_i, the views of one sample. Negative: u_i·v_j for i ≠ j. Densities, so
each sums to 1 over the width of its bins; the further apart the two, the better.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ._rows import score_chunks, unit_pair

MOST = 2000  # rows whose cosines with each other are counted


def similarity_histograms(
    u: Float[Tensor, "n d"], v: Float[Tensor, "n d"], *, bins: int = 50
) -> dict[str, list[float]]:
    """The bins' "edges" from -1 to 1, and the densities "positive" and "negative".

    >>> import torch
    >>> similarity_histograms(torch.eye(3), torch.eye(3), bins=2)
    {'edges': [-1.0, 0.0, 1.0], 'positive': [0.0, 1.0], 'negative': [0.0, 1.0]}
    """
    if bins < 1:
        raise SettingError(f"bins must be at least 1: got {bins}.")
    u, v = unit_pair(u, v, at_least=2)
    positive = (u * v).sum(1)
    u, v = u[:MOST], v[:MOST]
    counts = torch.zeros(bins, dtype=torch.double)
    for rows, scores in score_chunks(u, v):
        own = torch.zeros_like(scores, dtype=torch.bool)
        own.diagonal(rows.start).fill_(True)
        counts += count(scores[~own], bins)
    return {
        "edges": torch.linspace(-1, 1, bins + 1, dtype=torch.double).tolist(),
        "positive": density(count(positive, bins)),
        "negative": density(counts),
    }


def count(cosines: Float[Tensor, " m"], bins: int) -> Float[Tensor, " b"]:
    """How many fall into each bin; rounding may not push one out."""
    kept = cosines.detach().float().cpu().clamp(-1, 1)
    return torch.histc(kept, bins, -1, 1).double()


def density(counts: Float[Tensor, " b"]) -> list[float]:
    """Counts divided so that the bins, each 2 / b wide, hold 1 together."""
    return (counts / counts.sum() * len(counts) / 2).tolist()
