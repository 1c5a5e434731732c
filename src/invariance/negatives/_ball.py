r"""The ball and the ring (the views paper's BALL and ANN): an anchor's nearest rows.

$$L_i = -s_i + \log\Big(e^{s_i} + \sum_{j\in B_i\setminus C_i} e^{s_j}\Big)$$

B_i is the rows of the memory bank with the k largest $u_i\cdot M_j$. C_i is empty for
the ball; for the ring it is the innermost of them, likely of the anchor's own class.
Near negatives are hard ones. Rows are ranked by the anchor as it is now, not by its old
row, and its own row is the positive, never one of the k. It stays in the denominator:
the paper's ring divides by the ring alone, and without the positive the value
overshoots the mutual information.

The n x bank matrix is never held: ranks become scores, the ends of a band of the
log-partition. An end lies halfway between two neighboring scores, since other tiles may
compute them with other last bits. Rows of equal score stay together.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..checked_rows import exact_product
from ..errors import SettingError
from ..plain_numbers import check_number, plain_number
from ._bank import Bank
from ._source import Anchors, Candidates, Ids, NegativeSource, Number

CPU_BYTES = 128 * 2**20  # of scores held at a time: some anchors against the whole bank
DEVICE_BYTES = 512 * 2**20
NEAREST_ROWS = 4096  # where neither a number nor a share is asked for


class Ball(NegativeSource):
    """The ``k`` rows nearest to an anchor, the nearest ``share``, or all that are near.

    Settings:
        k (1 or more): Nearest rows that are negatives.
        share (0 to 1): k as a part of the bank.
        min_similarity (-1 to 1): Instead, rows of this cosine or more, however many: an
            anchor may be left without any, and then costs nothing.

    >>> Ball(Bank(101, width=8), share=0.1)
    Ball(
      k = 10 of 100 rows
      (bank): Bank(101 rows, width 8, momentum 0.5)
    )
    """

    def __init__(
        self,
        bank: Bank,
        *,
        k: int | None = None,
        share: float | int | None = None,
        min_similarity: float | int | None = None,
    ) -> None:
        super().__init__(bank)
        check_similarities(min_similarity, None)
        self.min_similarity = min_similarity
        if cuts_by_similarity(min_similarity, "min_similarity", k=k, share=share):
            self.k = len(bank) - 1
        else:
            self.k = count_rows(bank, k=k, share=share, default=NEAREST_ROWS)

    @property
    def n_negatives(self) -> int:
        """The k nearest; with a similarity, all other rows if they are near enough."""
        return self.k

    def candidates(self, u: Anchors, ids: Ids) -> Candidates:
        """The bank, cut off below the k-th score or the similarity."""
        self.bank.check(u, ids)
        (low,) = find_ends(u, self.bank, ids, (self.k, self.min_similarity))
        return Candidates(self.bank.z, self.bank.ids, low=low)

    def extra_repr(self) -> str:
        """How many rows that is, or how near."""
        if self.min_similarity is not None:
            return f"similarity {self.min_similarity:g} or more"
        return f"k = {self.k:,} of {len(self.bank) - 1:,} rows"


class Annulus(NegativeSource):
    """The ``outer`` nearest rows without the ``inner`` nearest, or shares of the bank.

    Either end can be a similarity instead. The outer end can start wide and close in
    over training: ``outer_start``.

    Settings:
        inner (0 or more): Nearest rows that are left out, likely of the same class.
        inner_share (0 to 1): inner as a part of the bank; none: 0.01.
        max_similarity (-1 to 1): Instead, rows above this cosine are left out.
        outer (1 or more): Nearest rows, of which the inner ones are left out.
        outer_share (0 to 1): outer as a part of the bank; none: 0.1.
        min_similarity (-1 to 1): Instead, rows below this cosine are left out. With a
            similarity an anchor may be left without any row, and then costs nothing.
        outer_start (1 or more): Where the outer end is when training starts.
        outer_start_share (0 to 1): outer_start as a part of the bank.

    >>> ring = Annulus(Bank(101, width=8), inner_share=0.05, outer_share=0.3)
    >>> ring
    Annulus(
      inner = 5, outer = 30, of 100 rows
      (bank): Bank(101 rows, width 8, momentum 0.5)
    )
    >>> ring.n_negatives
    25
    """

    def __init__(
        self,
        bank: Bank,
        *,
        inner: int | None = None,
        inner_share: float | int | None = None,
        max_similarity: float | int | None = None,
        outer: int | None = None,
        outer_share: float | int | None = None,
        min_similarity: float | int | None = None,
        outer_start: int | None = None,
        outer_start_share: float | int | None = None,
    ) -> None:
        super().__init__(bank)
        check_similarities(min_similarity, max_similarity)
        self.min_similarity, self.max_similarity = min_similarity, max_similarity
        within: Any = {"inner": inner, "inner_share": inner_share}
        beyond: Any = {"outer": outer, "outer_share": outer_share}
        start: Any = {
            "outer_start": outer_start,
            "outer_start_share": outer_start_share,
        }
        self.inner, self.outer, self.outer_start = 0, len(bank) - 1, len(bank) - 1
        if not cuts_by_similarity(max_similarity, "max_similarity", **within):
            if inner is None and inner_share is None:
                within["inner_share"] = 0.01
            self.inner = count_rows(bank, least=0, **within)
        if not cuts_by_similarity(min_similarity, "min_similarity", **beyond, **start):
            if outer is None and outer_share is None:
                beyond["outer_share"] = 0.1
            self.outer = count_rows(bank, **beyond)
            self.outer_start = count_rows(bank, default=self.outer, **start)
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

    @property
    def n_negatives(self) -> int:
        """The rows between the ends as they are now; at a similarity perhaps fewer."""
        return self.outer_now - self.inner

    def candidates(self, u: Anchors, ids: Ids) -> Candidates:
        """The bank, cut off above the inner and below the outer end."""
        self.bank.check(u, ids)
        inner = (self.inner, self.max_similarity)
        outer = (self.outer_now, self.min_similarity)
        high, low = find_ends(u, self.bank, ids, inner, outer)
        return Candidates(self.bank.z, self.bank.ids, low=low, high=high)

    def advance(self, progress: Number) -> None:
        """Move the outer end, if it moves."""
        if self.moves:
            self.progress = float(progress)

    @property
    def moves(self) -> bool:
        """Whether the outer end closes in over training."""
        return self.outer_start != self.outer

    @property
    def why_not_captured(self) -> str:
        """Each step ranks other rows while the ring closes in."""
        return "its ring closes in step by step" if self.moves else ""

    def get_extra_state(self) -> Any:
        """How far the outer end has moved."""
        return torch.tensor(self.progress, dtype=torch.float64)

    def set_extra_state(self, state: Any) -> None:
        """Go on from a checkpoint."""
        self.progress = float(state)

    def extra_repr(self) -> str:
        """Where the ring lies, in rows or similarities."""
        inner, outer = f"inner = {self.inner:,}", f"outer = {self.outer:,}"
        if self.moves:
            outer += f" from {self.outer_start:,}"
        if self.max_similarity is not None:
            inner = f"similarity {self.max_similarity:g} or less"
        if self.min_similarity is not None:
            outer = f"similarity {self.min_similarity:g} or more"
        return f"{inner}, {outer}, of {len(self.bank) - 1:,} rows"


# ---------------------------------------------------------------- settings


def check_similarities(low: float | int | None, high: float | int | None) -> None:
    """Raise unless they are cosines in this order."""
    for name, value in (("min_similarity", low), ("max_similarity", high)):
        if value is not None:
            check_number(name, plain_number(value))
        if value is not None and not -1 <= value <= 1:
            raise SettingError(f"{name} is a cosine, from -1 to 1: got {value}.")
    if low is not None and high is not None and not low < high:
        raise SettingError(
            f"min_similarity = {low} lies at or above max_similarity = {high}: nothing "
            "is left between them."
        )


def cuts_by_similarity(similarity: float | int | None, name: str, **ranks: Any) -> bool:
    """Whether an end is a similarity; raises where ranks are given as well."""
    if similarity is None:
        return False
    for other, value in ranks.items():
        if value is not None:
            raise SettingError(
                f"{other} = {value} cuts by rank and {name} = {similarity} by cosine: "
                "give one of them."
            )
    return True


def count_rows(
    bank: Bank, *, least: int = 1, default: int | None = None, **asked: Any
) -> int:
    """How many of an anchor's other rows are meant by a number or by a share.

    >>> bank = Bank(100, width=8)
    >>> count_rows(bank, k=10, share=None), count_rows(bank, k=None, share=0.5)
    (10, 50)
    """
    (number, rows), (fraction, share) = (
        (name, plain_number(value)) for name, value in asked.items()
    )
    n_others = len(bank) - 1
    if rows is not None and share is not None:
        raise SettingError(
            f"{number} = {rows} and {fraction} = {share} say the same thing twice: "
            "give one of them."
        )
    if share is not None:
        if not 0 <= share <= 1:
            raise SettingError(f"{fraction} lies between 0 and 1: got {share}.")
        name, value, rows = fraction, share, round(share * n_others)
    else:
        rows = default if rows is None else rows
        name, value = number, rows
        if not isinstance(rows, int) or rows < 0:
            raise SettingError(
                f"{number} is a number of rows: got {rows}. For a part of the bank use "
                f"{fraction}, between 0 and 1."
            )
    if rows > n_others:
        raise SettingError(
            f"{name} = {value} is more than the {n_others:,} other rows of the bank: "
            f"give fewer, or a part of the bank as {fraction}."
        )
    if rows < least:
        raise SettingError(
            f"{name} = {value} of {n_others:,} rows leaves none: at least one row is "
            "needed."
        )
    return rows


# ---------------------------------------------------------------- ranks and scores

End = tuple[int, float | int | None]  # a rank, or a similarity in its place


def find_ends(
    u: Anchors, bank: Bank, ids: Ids, *ends: End
) -> list[Float[Tensor, " n"]]:
    """The score of each end, for each anchor."""
    ranks = [rank for rank, similarity in ends if similarity is None]
    scores = iter(limits(u.detach(), bank.z, ids, ranks) if ranks else ())
    return [
        next(scores) if similarity is None else u.new_full((len(u),), similarity)
        for _, similarity in ends
    ]


@torch.no_grad()
def limits(
    u: Anchors, z: Float[Tensor, "m d"], ids: Ids, ranks: Sequence[int]
) -> list[Float[Tensor, " n"]]:
    """For each rank r, a score that r of the other rows are above.

    Args:
        u: Anchors.
        z: The bank.
        ids: The anchors' own rows, which are not ranked.
        ranks: Each from 0 (infinity) to m - 1 (minus infinity).
    """
    most = min(max(ranks) + 1, len(z) - 1)
    parts: list[list[Tensor]] = [[] for _ in ranks]
    for some, scores in score_some(u, z):
        scores.scatter_(1, ids[some, None], -torch.inf)
        best = scores.topk(most, dim=1).values if most else scores[:, :0]
        infinity = scores.new_full((len(scores), 1), torch.inf)
        # 0: above the best; m - 1: below the worst
        edges = torch.cat([infinity, best, -infinity], dim=1)
        for part, rank in zip(parts, ranks, strict=True):
            part.append(_between(edges[:, rank], edges[:, rank + 1]))
    return [torch.cat(part) for part in parts]


def score_some(
    u: Anchors, z: Float[Tensor, "m d"]
) -> Iterator[tuple[slice, Float[Tensor, "k m"]]]:
    """Scores of some anchors at a time with all rows, such that they fit a budget."""
    budget = CPU_BYTES if u.device.type == "cpu" else DEVICE_BYTES
    dtype = torch.promote_types(u.dtype, z.dtype)
    step = max(budget // (len(z) * dtype.itemsize), 1)
    for start in range(0, max(len(u), 1), step):  # of no anchors, no scores
        some = slice(start, min(start + step, len(u)))
        yield some, exact_product(u[some].to(dtype), z.to(dtype))


def _between(above: Tensor, below: Tensor) -> Tensor:
    """Halfway; infinite where one side is."""
    middle = below + (above - below) / 2
    middle = torch.where(above.isinf(), above, middle)
    return torch.where(below.isinf(), below, middle)
