r"""Tolerance: how close samples of one class lie (after Wang and Liu, 2021).

$$\mathrm{tolerance} = \operatorname{mean}_{\,i<j,\ y_i = y_j}\; z_i\cdot z_j$$

The mean runs over the pairs of equal label, so the number of classes does not scale
it, and every pair counts once, so a class weighs as its number of pairs. Cosines that
happen to be 0 count like any other. (Wang and Liu average z·z' 1[y = y'] over all
pairs: this value times the share of pairs that agree.)

Between -1 and 1: high when classes stay together, 0 for unrelated rows, 1 for collapse.
Pairs are never listed: $\sum_{i\ne j} z_i\cdot z_j = \lVert\sum_i z_i\rVert^2 -
\sum_i\lVert z_i\rVert^2$ within a class.
"""

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from ..errors import DataError
from ._rows import as_labels, unit_rows


def tolerance(z: Float[Tensor, "n d"], labels: Integer[Tensor, " n"]) -> float:
    """Mean cosine over all pairs of rows with the same label.

    >>> import torch
    >>> z = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> round(tolerance(z, torch.tensor([7, 7, 3])), 4)
    0.7071
    """
    z = unit_rows(z, at_least=2)
    labels = as_labels(labels, len(z)).to(z.device)
    order = labels.argsort(stable=True)
    _, counts = labels.unique(return_counts=True)
    sizes = counts.tolist()
    n_pairs = sum(size * (size - 1) for size in sizes)
    if n_pairs == 0:
        raise DataError(
            f"No two of the {len(z)} rows share a label. "
            "Pass class labels, not sample numbers, or more rows."
        )
    sums = torch.stack([rows.sum(0) for rows in z[order].split(sizes)])
    return ((sums.square().sum() - z.square().sum()) / n_pairs).item()
