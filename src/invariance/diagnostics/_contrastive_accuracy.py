r"""Contrastive accuracy: how often an anchor finds its partner.

$$\mathrm{accuracy} = \frac1n\sum_i
  \frac{\mathbb 1[\,u_i\cdot v_i = \max_j u_i\cdot v_j\,]}
       {|\{j : u_i\cdot v_j = \max_k u_i\cdot v_k\}|}$$

Anchors are the rows of u, candidates all n rows of v. Partners that tie for the first
place share the point, so a collapsed encoder reads chance, 1/n. At 1 the batch has
become too easy to teach by. Scores are computed a few rows at a time: memory is linear.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ._rows import score_chunks, unit_pair


def contrastive_accuracy(u: Float[Tensor, "n d"], v: Float[Tensor, "n d"]) -> float:
    """Share of rows of ``u`` whose nearest row of ``v`` is their own partner.

    >>> import torch
    >>> contrastive_accuracy(torch.eye(4), torch.eye(4).roll(1, 0))
    0.0
    >>> contrastive_accuracy(torch.ones(4, 3), torch.ones(4, 3))    # collapsed
    0.25
    """
    u, v = unit_pair(u, v, at_least=2)
    points = 0.0
    for rows, scores in score_chunks(u, v):
        best = scores == scores.amax(1, keepdim=True)
        own = best.diagonal(rows.start)
        points += torch.where(own, 1 / best.sum(1), 0).sum().item()
    return points / len(u)
