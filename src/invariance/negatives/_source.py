"""What every source of negatives is: rows with ids, and a memory of what it has seen.

A source hands over candidates; whatever bears the anchor's own id is no negative of it,
and the log-partition leaves it out. Sources keep their rows without gradient.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus

from ..checked_rows import divide_by_length, may_look, row_lengths
from ..devices import require_memory
from ..errors import NotFiniteError, SettingError, ShapeError, warn_caller
from ..partition import effective_share, gather_rows, has_company, log_partitions

Number = float | int | Tensor
Scales = Sequence[Number]
Anchors = Float[Tensor, "n d"]
Ids = Int[Tensor, " n"]
PerAnchor = Float[Tensor, " n"]
PerScale = Float[Tensor, "k n"]
EMPTY = "There are no negatives yet: let the source remember a first batch."


def require_tensors(**values: object) -> None:
    """Raise, by name, for what is no tensor."""
    for name, value in values.items():
        if not isinstance(value, Tensor):
            raise ShapeError(
                f"{name} is a tensor, one row or number per sample: got "
                f"{type(value).__name__}. Convert with torch.as_tensor(...)."
            )


def check_room(
    what: str, n_rows: float | int, width: int, device: torch.device | str = "cpu"
) -> None:
    """Refuse a memory of rows that does not fit."""
    require_memory(
        f"A {what} of {n_rows:,} rows of {width:,} numbers",
        n_rows * (4 * width + 8),  # float32, and an id
        device,
        "make the rows narrower (width), keep fewer (size, limit), or take negatives "
        "from the batch",
    )


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


ONE_OF_SEVERAL = (
    "This {} is one of several, each in its own process, and takes in only the rows of "
    "that process, so they come to differ: set its gather to True to take in the rows "
    "of all processes, or to False if it is given them already."
)


class NegativeSource(nn.Module):
    """Who the anchors are compared with. All its state is in ``state_dict``.

    One that is built on a memory bank takes the anchors' positives from there and lets
    it remember.
    """

    row_by_row = True
    """Whether an anchor's logits depend on that anchor alone, not on the others, so
    that processes may each ask about their own."""
    plain = False
    """Whether the negatives are the candidates as they are: no band, no weights."""
    shares: Callable[[], PerAnchor] | None = None
    """The effective share (``effective_share``) of each anchor's negatives in the last
    logits, computed when it is called: do so before ``remember``. None before any."""
    contrast: Callable[[], tuple[PerAnchor, PerAnchor]] | None = None
    """Each anchor's InfoNCE over the candidates of the last logits, and the logarithm
    of their number with the positive, computed as ``shares`` are. None where negatives
    are chosen or weighed: their InfoNCE says nothing about information."""
    gather: bool | None = None
    """Whether what it is to remember is gathered from all processes first. A memory
    that is one of several and was not told either way warns. False is for rows that
    were gathered already; a learner sets it, since it gathers them itself. Of a source
    that is built on a bank, the bank's counts."""
    n_refused: Tensor

    def __init__(self, bank: Any = None) -> None:
        super().__init__()
        numbered = getattr(bank, "numbered", False)
        if bank is not None and (not numbered or bank.bank is not None):
            raise SettingError(
                f"{type(self).__name__} chooses among the rows of a memory bank, one "
                f"per sample of the data: got {type(bank).__name__}. Pass an inv.Bank."
            )
        self.bank = bank
        if bank is None:  # rows of its own: how many could not be remembered
            self.register_buffer("n_refused", torch.tensor(0), persistent=False)

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
        ask = partial(sum_over, self.candidates(u, ids), ids=ids)
        self.sums = partial(ask, u.detach())
        self.shares = partial(read_shares, self.sums, without_graph(scales[0]))
        return ask(u, scales=scales)

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
        negative = self.negative(u, ids, scales=scales)
        if self.plain:
            known = positive.detach(), self.sums, without_graph(scale)
            self.contrast = partial(read_contrast, *known)
        return positive, negative

    def remember(self, z: Anchors, ids: Ids) -> None:
        """Take in rows that have been used; call it after the optimizer's step."""
        if self.bank is not None:
            self.bank.remember(z, ids)

    def take_rows(
        self, z: Anchors, ids: Ids
    ) -> tuple[Float[Tensor, "m d"], Int[Tensor, " m"]]:
        """What is to be remembered: these rows, or those of all processes."""
        if self.gather:
            return gather_rows(z.detach()), gather_rows(ids)
        if self.gather is None and has_company():
            warn_caller(ONE_OF_SEVERAL.format(type(self).__name__))
        return z, ids

    def refresh(self, progress: float | int) -> None:
        """Called before each epoch with the share of training that is done."""

    def advance(self, progress: Number) -> None:
        """Called after each step with the share of training that is done."""

    @property
    def host_state(self) -> tuple[Any, ...]:
        """What Python knows and a step depends on; steps of equal states are alike."""
        return ()

    @property
    def why_not_captured(self) -> str:
        """Why no CUDA graph can hold a step with it; nothing where one can."""
        return ""

    def own_loss(self) -> Tensor | None:
        """What the source itself learns from the last logits: value 0, a gradient."""
        return None

    def readings(self) -> dict[str, Tensor]:
        """Numbers worth logging about the last logits, and about the memory.

        ``rows_refused``: rows that were not finite, where saying so at once would have
        made an accelerator wait.
        """
        if self.bank is not None:
            return self.bank.readings()
        if self.n_refused.device.type == "cpu":  # where they are refused at once
            return {}
        return {"rows_refused": self.n_refused}

    def _load_from_state_dict(self, state: Any, prefix: str, *how: Any) -> None:
        for name, _ in self.named_buffers(recurse=False):
            saved = state.get(prefix + name)
            if isinstance(saved, Tensor) and not bool(saved.isfinite().all()):
                raise NotFiniteError(
                    f"The saved {name} of a {type(self).__name__} has NaN or "
                    "infinite numbers, and every loss against it would be NaN: "
                    "continue from an earlier state, or start again."
                )
        super()._load_from_state_dict(state, prefix, *how)


def sum_over(
    candidates: Candidates, u: Anchors, ids: Ids, *, scales: Scales
) -> PerScale:
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


def without_graph(scale: Number) -> Number:
    """A scale to be kept for readings: one that is learned comes with its graph.

    What holds a graph can neither be copied nor pickled.
    """
    return scale.detach() if isinstance(scale, Tensor) else scale


@torch.no_grad()
def read_shares(sums: Callable[..., PerScale], scale: Number) -> PerAnchor:
    """Effective share of the negatives, from their sums at three scales."""
    return effective_share(*sums(scales=[scale, 2 * scale, 0.0]))


@torch.no_grad()
def read_contrast(
    positive: PerAnchor, sums: Callable[..., PerScale], scale: Number
) -> tuple[PerAnchor, PerAnchor]:
    """InfoNCE of each anchor, and the logarithm of the number of its candidates."""
    negative, log_count = sums(scales=[scale, 0.0])
    return softplus(negative - positive), softplus(log_count)  # the positive is one


def prepare_rows(
    z: Float[Tensor, "n d"], like: Tensor
) -> tuple[Float[Tensor, "n d"], Bool[Tensor, "n 1"]]:
    """Rows of unit length, and which of them can be remembered.

    A row with NaN or infinite numbers, or too long for the memory's precision, cannot.
    On a CPU it is refused in words. Elsewhere looking would make the device wait: the
    memory leaves such a row out and counts it.
    """
    z = z.to(like)
    fine = row_lengths(z).isfinite()
    if may_look(z) and not bool(fine.all()):
        bad = int((~fine).sum())
        raise NotFiniteError(
            f"{bad} of the {len(z)} rows to remember are NaN, infinite or too long for "
            f"{like.dtype}: every later loss would be NaN. Nothing was remembered. The "
            "network has diverged or its input is broken: lower the learning rate, "
            "clip the gradient, or check the data."
        )
    return divide_by_length(z), fine


def read_counts(state: Any) -> tuple[int, int]:
    """Two counts of a checkpoint; older ones have the first alone.

    >>> read_counts(torch.tensor([5, 2])), read_counts(5)
    ((5, 2), (5, 0))
    """
    first, *rest = torch.as_tensor(state).flatten().tolist()
    return int(first), int(rest[0]) if rest else 0
