r"""The queue (MoCo): the newest rows seen, first in, first out.

Rows enter after they have been used, so a key is never among its own negatives, and
each keeps the id of its sample, so an image's stale key from an earlier epoch is not
one either: a perfectly aligned query reaches a probability near 1.
"""

from typing import Any

import torch
from torch import Tensor

from ..errors import SettingError, ShapeError
from ..plain_numbers import plain_number
from ._source import (
    Anchors,
    Candidates,
    Ids,
    NegativeSource,
    check_room,
    prepare_rows,
    read_counts,
    require_tensors,
)


class Queue(NegativeSource):
    """The last ``size`` rows remembered. It starts empty and fills up.

    Settings:
        size (1 or more): Rows that are kept, a batch at least.

    >>> queue = Queue(4, width=2)
    >>> queue.remember(torch.eye(2), torch.tensor([7, 8]))
    >>> len(queue), queue.candidates().ids.tolist()
    (2, [7, 8])
    """

    plain = True
    z: Tensor
    ids: Tensor
    n_seen: Tensor
    """Rows that ever came in: where the next one goes."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        size, width = plain_number(size), plain_number(width)
        if type(size) is not int or type(width) is not int:
            raise SettingError(
                f"size and width are whole numbers: got {size!r} and {width!r}."
            )
        if size < 1 or width < 1:
            raise SettingError(
                f"A queue needs room for rows: got size {size} and width {width}."
            )
        check_room("queue", size, width)
        self.register_buffer("z", torch.zeros(size, width))
        self.register_buffer("ids", torch.full((size,), -1))
        # beside the rows, so that no step waits to hear where the next one goes
        self.register_buffer("n_seen", torch.tensor(0), persistent=False)
        self.n_filled = 0

    def __len__(self) -> int:
        return self.n_filled

    @property
    def host_state(self) -> tuple[Any, ...]:
        """How many rows there are, which decides shapes until it is full."""
        return (self.n_filled,)

    @property
    def n_negatives(self) -> int:
        """All rows there are."""
        return len(self)

    def candidates(
        self, u: Anchors | None = None, ids: Ids | None = None
    ) -> Candidates:
        """All rows there are, the same for every anchor."""
        if u is not None and u.shape[1] != self.z.shape[1]:
            raise ShapeError(
                f"The queue holds rows of width {self.z.shape[1]} and the anchors have "
                f"width {u.shape[1]}: build it with the width of the projections."
            )
        return Candidates(self.z[: len(self)], self.ids[: len(self)])

    @torch.no_grad()
    def remember(self, z: Anchors, ids: Ids) -> None:
        """Put rows in, unit length, in place of the oldest.

        Rows that are not finite are refused; on an accelerator, without waiting for it
        once the queue is full, by leaving the oldest where they are (``readings``
        counts the refused).
        """
        require_tensors(z=z, ids=ids)
        z, ids = self.take_rows(z, ids)
        size, width = self.z.shape
        if z.ndim != 2 or z.shape[1] != width or ids.shape != z.shape[:1]:
            raise ShapeError(
                f"A queue takes rows of width {width} with one id each: got "
                f"{tuple(z.shape)} and ids {tuple(ids.shape)}."
            )
        if ids.is_floating_point():
            raise ShapeError(
                f"ids say which sample a row is of, in whole numbers: got {ids.dtype}."
            )
        if len(z) > size:
            raise SettingError(
                f"A queue of {size} rows is shorter than the batch of {len(z)}: keys "
                f"would be lost before they are used. Make it {len(z)} or longer."
            )
        (rows, fine), ids = prepare_rows(z, self.z), ids.to(self.ids)
        self.n_refused += (~fine).sum()
        if self.n_filled < size:  # there is no older row to leave where it is
            rows, ids, fine = rows[fine[:, 0]], ids[fine[:, 0]], fine[fine[:, 0]]
            self.n_filled = min(self.n_filled + len(rows), size)
        places = (self.n_seen + torch.arange(len(rows), device=self.z.device)) % size
        self.z[places] = torch.where(fine, rows, self.z[places])
        self.ids[places] = torch.where(fine[:, 0], ids, self.ids[places])
        self.n_seen += len(rows)

    def extra_repr(self) -> str:
        """How full it is, and how wide."""
        size, width = self.z.shape
        return f"{len(self):,} of {size:,} rows, width {width}"

    def get_extra_state(self) -> Any:
        """How many rows have been seen, and how many of them were refused."""
        return torch.stack([self.n_seen, self.n_refused])

    def set_extra_state(self, state: Any) -> None:
        """Go on from a checkpoint."""
        n_seen, n_refused = read_counts(state)
        self.n_seen.fill_(n_seen)
        self.n_refused.fill_(n_refused)
        self.n_filled = min(n_seen, len(self.z))
