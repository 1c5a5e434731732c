r"""The ring (the views paper's ANN): the ball without its innermost part.

$$L_i = -s_i + \log\Big(e^{s_i} + \sum_{j\in B_i\setminus C_i} e^{s_j}\Big)$$

C_i is the ``inner`` nearest rows, likely of the anchor's own class, B_i the ``outer``
nearest. The positive stays in the denominator: the paper's definition divides by the
ring alone, and without the positive the value overshoots the mutual information. The
outer end can start wide and close in over training (``outer_start``).
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import SettingError
from ._bank import Bank
from ._ranks import limits, rank_of
from ._source import Candidates, NegativeSource


class Annulus(NegativeSource):
    """Rows ranked from ``inner`` to ``outer``: numbers, or shares of the bank."""

    def __init__(
        self,
        bank: Bank,
        *,
        inner: float | int = 0.01,
        outer: float | int = 0.1,
        outer_start: float | int | None = None,
    ) -> None:
        super().__init__(bank)
        others = len(bank) - 1
        self.inner = rank_of("inner", inner, others)
        self.outer = rank_of("outer", outer, others)
        self.outer_start = self.outer
        if outer_start is not None:
            self.outer_start = rank_of("outer_start", outer_start, others)
        if not self.inner < min(self.outer, self.outer_start):
            raise SettingError(
                f"The ring's inner rank {self.inner} lies at or beyond its outer rank "
                f"{min(self.outer, self.outer_start)}: nothing is left between them."
            )
        self.progress = 0.0

    @property
    def outer_now(self) -> int:
        """The outer rank at this point of training."""
        way = self.outer - self.outer_start
        return self.outer_start + round(way * self.progress)

    def candidates(self, u: Float[Tensor, "n d"], ids: Int[Tensor, " n"]) -> Candidates:
        """The bank, cut off above the inner and below the outer rank."""
        self.bank.check(u, ids)
        ranks = [self.inner, self.outer_now]
        high, low = limits(u.detach(), self.bank.z, ids, ranks)
        return Candidates(self.bank.z, self.bank.ids, low=low, high=high)

    def advance(self, progress: float | int) -> None:
        """Move the outer end."""
        self.progress = float(progress)

    def get_extra_state(self) -> Any:
        """How far the outer end has moved."""
        return torch.tensor(self.progress, dtype=torch.float64)

    def set_extra_state(self, state: Any) -> None:
        """Go on from a checkpoint."""
        self.progress = float(state)

    def extra_repr(self) -> str:
        """Where the ring lies, in rows."""
        ends = f"inner = {self.inner:,}, outer = {self.outer:,}"
        return f"{ends} of {len(self.bank) - 1:,} rows"
