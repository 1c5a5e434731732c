r"""Effective rank: how many directions the embeddings use (RankMe).

$$\mathrm{rank} = \exp\Big(-\sum_k p_k\log p_k\Big),\qquad
  p_k = \frac{\sigma_k}{\sum_l\sigma_l} + 10^{-7}$$

with $\sigma$ the singular values of the matrix as it is: neither centred nor
normalised, and not squared. Between 1 (all rows on one line) and min(n, d) (all
directions equally strong); 0 for a matrix of zeros. A fall during training is
dimensional collapse. Compare only readings with the same n and d.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ._rows import as_rows

EPSILON = 1e-7


def singular_spectrum(z: Float[Tensor, "n d"]) -> Float[Tensor, " k"]:
    """The min(n, d) singular values of the rows, largest first, on their device.

    >>> import torch
    >>> singular_spectrum(torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
    tensor([4., 3.])
    """
    return torch.linalg.svdvals(as_rows(z))


def effective_rank(z: Float[Tensor, "n d"]) -> float:
    """Exponential of the entropy of the singular values.

    >>> import torch
    >>> round(effective_rank(torch.eye(6)), 3)
    6.0
    """
    spectrum = singular_spectrum(z)
    total = spectrum.sum()
    if total == 0:
        return 0.0
    p = spectrum / total + EPSILON
    return torch.exp(-(p * p.log()).sum()).item()
