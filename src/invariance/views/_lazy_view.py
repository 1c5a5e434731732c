"""Views that are made when they are asked for, of some samples of a batch at a time.

A batch that is encoded in pieces need never hold all of its views. What a view shows
depends on seed, epoch, sample and view alone, so a piece that is asked for twice is the
same both times, and the same as in the whole batch.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor


class LazyViews:
    """The views of a batch; remembers those of the piece that was asked for last.

    Args:
        make: All views of the samples at some places of the batch.
        n: Samples in the batch.
        like: For each view, a tensor of its shape (but for the number of samples).

    >>> images = torch.rand(8, 3, 4, 4)
    >>> make = lambda where: [images[where], -images[where]]
    >>> u, v = LazyViews(make, n=8, like=[images, images])
    >>> v.shape, v[2:4].shape
    (torch.Size([8, 3, 4, 4]), torch.Size([2, 3, 4, 4]))
    """

    def __init__(
        self, make: Callable[[slice], list[Tensor]], n: int, like: Sequence[Tensor]
    ) -> None:
        self.make, self.n, self.like = make, n, like
        self.where: slice | None = None
        self.views: list[Tensor] = []

    def __iter__(self) -> Iterator["LazyView"]:
        for k, view in enumerate(self.like):
            yield LazyView(self, k, torch.Size([self.n, *view.shape[1:]]), view.device)

    def take(self, where: slice) -> list[Tensor]:
        """All views of some samples."""
        where = slice(*where.indices(self.n))
        if where != self.where:
            self.views = []  # those before need not be kept meanwhile
            self.views, self.where = self.make(where), where
        return self.views


class LazyView:
    """One of the views; ``view[2:4]`` makes that of two samples."""

    def __init__(
        self, views: LazyViews, k: int, shape: torch.Size, device: torch.device
    ) -> None:
        self.views, self.k, self.shape, self.device = views, k, shape, device

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, where: slice) -> Tensor:
        return self.views.take(where)[self.k]
