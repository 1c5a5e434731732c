r"""The k most similar rows of a gallery of any length, in one pass over it.

$$s_{qi} = \frac{\langle h_q, h_i\rangle}{\|h_q\|\,\|h_i\|},\qquad
\text{top-}k_i\ s_{qi}\ \text{for every query}\ q$$

Only the best k so far are held. Of equal scores the earlier row comes first.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from ..errors import NotFiniteError, SettingError, ShapeError


class Nearest:
    """The best rows so far, ``scores`` and ``rows`` (q k), best first.

    A gallery of fewer than k rows gives them all.

    >>> best = Nearest(torch.tensor([[0.0, 1.0]]), k=2)
    >>> best.add(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    >>> best.add(torch.tensor([[3.0, 3.0]]))
    >>> best.rows.tolist(), best.n
    ([[1, 2]], 3)
    """

    def __init__(self, queries: Float[Tensor, "q e"], *, k: int) -> None:
        if k < 1:
            raise SettingError(f"k is 1 or more: got {k}.")
        self.k, self.n = k, 0
        self.unit = normalize(queries.float(), dim=1)
        if not bool(self.unit.isfinite().all()):
            raise NotFiniteError(
                "The features of a query are not finite: the encoder has diverged."
            )
        self.scores: Float[Tensor, "q k"] = self.unit.new_empty(len(queries), 0)
        self.rows: Int[Tensor, "q k"] = torch.empty(len(queries), 0, dtype=torch.long)

    def add(self, block: Float[Tensor, "b e"]) -> None:
        """The next rows of the gallery."""
        if block.shape[1] != self.unit.shape[1]:
            raise ShapeError(
                f"The gallery has {block.shape[1]} features and the queries have "
                f"{self.unit.shape[1]}: embed both with the same encoder."
            )
        scores = self.unit @ normalize(block.float(), dim=1).T
        scores = scores.nan_to_num(-torch.inf)  # what is no number is like nothing
        scores = torch.cat([self.scores, scores], 1)
        rows = torch.arange(self.n, self.n + len(block)).expand(len(scores), -1)
        rows = torch.cat([self.rows, rows], 1)
        order = scores.argsort(dim=1, descending=True, stable=True)[:, : self.k]
        self.scores, self.rows = scores.gather(1, order), rows.gather(1, order)
        self.n += len(block)
