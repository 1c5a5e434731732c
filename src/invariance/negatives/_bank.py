r"""The memory bank (Instance Discrimination): one row per sample of the data set.

$$M_i \leftarrow \frac{m M_i + (1 - m) f}{\lVert m M_i + (1 - m) f\rVert}$$

A sample's positive is its own row, its negatives are the other rows, all of them or
``n_draws`` drawn anew at each step. With m = 0 a row is the sample's latest view. The
views paper's update (eq. 7) leaves out the normalization, without which rows shrink.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from ..errors import SettingError, ShapeError
from ..plain_numbers import check_number, plain_number
from ..randomness import draw_words, shift
from ._source import (
    Anchors,
    Candidates,
    Ids,
    NegativeSource,
    Number,
    PerAnchor,
    check_room,
    prepare_rows,
    read_counts,
    require_tensors,
)


class Bank(NegativeSource):
    """Rows of all samples; it starts with random directions.

    Settings:
        momentum (0 to below 1): Share of a sample's old row that stays when a new view
            of it comes.
        n_draws (1 or more): Rows drawn anew at each step as negatives; none: all rows.

    >>> bank = Bank(100, width=8, momentum=0.0)
    >>> f = torch.nn.functional.normalize(torch.randn(2, 8), dim=1)
    >>> bank.remember(f, torch.tensor([3, 99]))
    >>> torch.allclose(bank.z[99], f[1])
    True
    """

    plain = True
    numbered = True
    z: Tensor
    ids: Tensor
    n_drawn: Tensor
    """How often something was drawn: with the seed, what the next draw will be."""

    def __init__(
        self,
        n_samples: int,
        width: int,
        *,
        momentum: float | int = 0.5,
        n_draws: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        n_samples, width, n_draws = map(plain_number, (n_samples, width, n_draws))
        momentum, whole = plain_number(momentum), (n_samples, width, n_draws or 1)
        if any(type(number) is not int for number in whole):
            raise SettingError(
                "n_samples, width and n_draws of a bank are whole numbers: got "
                f"{n_samples!r}, {width!r} and {n_draws!r}."
            )
        check_number("The bank's momentum", momentum)
        if n_samples < 2 or width < 1:
            raise SettingError(
                "A bank holds one row for each of at least two samples: got "
                f"{n_samples} samples and width {width}."
            )
        if not 0 <= momentum < 1:
            raise SettingError(
                "The bank's momentum is the share of the old row that stays, from 0 "
                f"to below 1: got {momentum}."
            )
        if n_draws is not None and not 1 <= n_draws < n_samples:
            raise SettingError(
                f"A bank of {n_samples} rows has {n_samples - 1} negatives to draw "
                f"from: got n_draws = {n_draws}."
            )
        check_room("memory bank", n_samples, width)
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(n_samples, width, generator=generator)
        rows /= rows.norm(dim=1, keepdim=True)  # in place: a bank can be large
        self.register_buffer("z", rows)
        self.register_buffer("ids", torch.arange(n_samples), persistent=False)
        self.momentum = momentum
        self.n_draws = n_draws
        self.seed = seed
        # beside the rows: draws are made there, and a captured step can contain them
        self.register_buffer("n_drawn", torch.tensor(0), persistent=False)

    def __len__(self) -> int:
        return len(self.z)

    @property
    def n_negatives(self) -> int:
        """The other samples' rows, or as many as are drawn."""
        return len(self) - 1 if self.n_draws is None else self.n_draws

    def check(self, u: Tensor, ids: Tensor) -> None:
        """Raise unless rows of this width and these samples can be in the bank.

        On an accelerator, looking at ids would stall the queue.
        """
        if u.shape[1] != self.z.shape[1]:
            raise ShapeError(
                f"The bank holds rows of width {self.z.shape[1]} and these have width "
                f"{u.shape[1]}: build it with the width of the projections."
            )
        if ids.device.type == "cpu" and len(ids):
            first, last = int(ids.min()), int(ids.max())
            if first < 0 or last >= len(self):
                raise SettingError(
                    f"The bank has {len(self):,} rows, one per sample, but the batch "
                    f"names sample {first if first < 0 else last:,}: build it with "
                    "the size of the data set."
                )

    def candidates(self, u: Anchors, ids: Ids) -> Candidates:
        """All rows, or the ones drawn, the same for every anchor."""
        self.check(u, ids)
        if self.n_draws is None:
            return Candidates(self.z, self.ids)
        drawn = self.draw(self.n_draws)
        return Candidates(self.z[drawn], drawn)

    def draw(self, k: int) -> Int[Tensor, " k"]:
        """Row numbers drawn uniformly: others each time, the same after a resume."""
        return (shift(self._draw_words(k), 33) * len(self)) >> 31

    def throw_dice(self, n: int, m: int) -> Float[Tensor, "{n} {m}"]:
        """Multiples of 2^-24 in [0, 1): others each time, the same after a resume."""
        return shift(self._draw_words(n * m), 40).float().view(n, m) * 2.0**-24

    def draw_seed(self) -> int:
        """A seed for work on the host; the device is waited for."""
        self.n_drawn += 1
        start = self.seed * 1_000_003 + int(self.n_drawn)
        generator = torch.Generator().manual_seed(start)
        return int(torch.randint(2**31, (), generator=generator))

    def _draw_words(self, k: int) -> Int[Tensor, " {k}"]:
        self.n_drawn += 1
        return draw_words(self.seed, self.n_drawn, k)

    def positive(
        self, u: Anchors, v: Anchors | None, ids: Ids, *, scale: Number
    ) -> PerAnchor:
        """Logits of the anchors with their own rows; v is not asked for."""
        self.check(u, ids)
        return scale * (u * self.z[ids]).sum(1)

    @torch.no_grad()
    def remember(self, z: Anchors, ids: Ids) -> None:
        """Move the samples' rows towards these.

        Rows that are not finite are refused; on an accelerator, without waiting for it,
        by leaving the samples' rows as they are (``readings`` counts the refused).
        """
        require_tensors(z=z, ids=ids)
        z, ids = self.take_rows(z, ids)
        self.check(z, ids)
        fresh, fine = prepare_rows(z, self.z)
        ids, m = ids.to(self.ids), self.momentum
        old = self.z[ids]
        self.z[ids] = torch.where(
            fine, normalize(m * old + (1 - m) * fresh, dim=1), old
        )
        self.n_refused += (~fine).sum()

    def extra_repr(self) -> str:
        """How large it is, and how slowly its rows move."""
        drawn = "" if self.n_draws is None else f", {self.n_draws:,} drawn"
        size = f"{len(self):,} rows, width {self.z.shape[1]}"
        return f"{size}, momentum {self.momentum:g}{drawn}"

    def get_extra_state(self) -> Any:
        """How often something was drawn, and how many rows were refused."""
        return torch.stack([self.n_drawn, self.n_refused])

    def set_extra_state(self, state: Any) -> None:
        """Go on from a checkpoint."""
        n_drawn, n_refused = read_counts(state)
        self.n_drawn.fill_(n_drawn)
        self.n_refused.fill_(n_refused)
