r"""The ball (the views paper's BALL): an anchor's nearest rows of the memory bank.

$$L_i = -s_i + \log\Big(e^{s_i} + \sum_{j\in B_i\setminus i} e^{s_j}\Big),\qquad
B_i = \text{the } k \text{ largest } u_i\cdot M_j$$

Near negatives are hard ones. Rows are ranked by the anchor as it is now, not by its old
row, and its own row is the positive, never one of the k. The n x bank matrix is never
held: the k-th score becomes the lower end of a band of the log-partition.
"""

from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError
from ._bank import Bank
from ._ranks import limits, rank_of
from ._source import Candidates, NegativeSource


class Ball(NegativeSource):
    """The ``k`` rows nearest to an anchor, a number (1) or a share (1.0)."""

    def __init__(self, bank: Bank, *, k: float | int = 4096) -> None:
        super().__init__(bank)
        self.k = rank_of("k", k, len(bank) - 1)
        if self.k < 1:
            raise SettingError(f"A ball needs at least one row: got k = {k}.")

    def candidates(self, u: Float[Tensor, "n d"], ids: Int[Tensor, " n"]) -> Candidates:
        """The bank, cut off below the k-th score."""
        self.bank.check(u, ids)
        (low,) = limits(u.detach(), self.bank.z, ids, [self.k])
        return Candidates(self.bank.z, self.bank.ids, low=low)

    def extra_repr(self) -> str:
        """How many rows that is."""
        return f"k = {self.k:,} of {len(self.bank) - 1:,} rows"
