"""What every source of negatives is: rows with ids, and a memory of what it has seen.

A source hands over candidates; whatever bears the anchor's own id is no negative of it,
and the log-partition leaves it out. Sources keep their rows without gradient.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from ..errors import SettingError
from ..partition import log_partitions

Number = float | int | Tensor
Scales = Sequence[Number]
Anchors = Float[Tensor, "n d"]
Ids = Int[Tensor, " n"]
PerAnchor = Float[Tensor, " n"]
PerScale = Float[Tensor, "k n"]
EMPTY = "There are no negatives yet: let the source remember a first batch."


@dataclass(frozen=True)
class Candidates:
    """Rows that anchors may be compared with."""

    z: Float[Tensor, "m d"]
    ids: Int[Tensor, " m"]
    """Which sample each row is."""
    low: PerAnchor | None = None
    """Scores below this, one per anchor, are left out."""
    high: PerAnchor | None = None
    """Scores above this are left out."""

    def __repr__(self) -> str:
        band = "" if self.low is None and self.high is None else ", in a band of scores"
        return f"Candidates({len(self.z):,} rows of width {self.z.shape[1]}{band})"


class NegativeSource(nn.Module):
    """Who the anchors are compared with. All its state is in ``state_dict``.

    One that is built on a memory bank takes the anchors' positives from there and lets
    it remember.
    """

    plain = False
    """Whether the negatives are the candidates as they are: no band, no weights."""

    def __init__(self, bank: Any = None) -> None:
        super().__init__()
        self.bank = bank

    @property
    def numbered(self) -> bool:
        """Whether its ids are rows of a bank, so that nothing else can be an id."""
        return self.bank is not None

    @property
    @abstractmethod
    def n_negatives(self) -> int:
        """How many negatives an anchor can have now, at most; needs no look at rows."""

    @abstractmethod
    def candidates(self, u: Anchors, ids: Ids) -> Candidates:
        """The rows anchors ``u`` of samples ``ids`` are compared with."""

    def negative(self, u: Anchors, ids: Ids, *, scales: Scales) -> PerScale:
        """Log-partitions over the negatives, one per scale; scale 0 counts them."""
        return over(self.candidates(u, ids), u, ids, scales)

    def positive(
        self, u: Anchors, v: Anchors | None, ids: Ids, *, scale: Number
    ) -> PerAnchor:
        """Logits of the anchors' positives: their bank rows, or v without a bank."""
        if self.bank is not None:
            return self.bank.positive(u, v, ids, scale=scale)
        if v is None:
            raise SettingError(
                f"A {type(self).__name__} holds no positives: pass v, the anchors' "
                "other views."
            )
        return scale * (u * v).sum(1)

    def logits(
        self, u: Anchors, v: Anchors | None, ids: Ids, *, scale: Number, scales: Scales
    ) -> tuple[PerAnchor, PerScale]:
        """Logits of the positives, and log-partitions of the negatives."""
        positive = self.positive(u, v, ids, scale=scale)
        return positive, self.negative(u, ids, scales=scales)

    def remember(self, z: Anchors, ids: Ids) -> None:
        """Take in rows that have been used; call it after the optimizer's step."""
        if self.bank is not None:
            self.bank.remember(z, ids)

    def refresh(self, progress: float | int) -> None:
        """Called before each epoch with the share of training that is done."""

    def advance(self, progress: float | int) -> None:
        """Called after each step with the share of training that is done."""

    def own_loss(self) -> Tensor | None:
        """What the source itself learns from the last logits: value 0, a gradient."""
        return None

    def readings(self) -> dict[str, Tensor]:
        """Numbers about the last logits worth logging."""
        return {}


def over(candidates: Candidates, u: Anchors, ids: Ids, scales: Scales) -> PerScale:
    """Log-partitions of anchors over candidates that are not of their own sample.

    Which rows a band lets in must not depend on rounding: its scores are exact.
    """
    if not len(candidates.z):
        raise SettingError(EMPTY)
    banded = candidates.low is not None or candidates.high is not None
    return log_partitions(
        u,
        candidates.z,
        scales=scales,
        row_ids=ids,
        column_ids=candidates.ids,
        low=candidates.low,
        high=candidates.high,
        precision="exact" if banded else "auto",
    )
