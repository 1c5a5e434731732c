"""How much memory the activations of a step take: what its backward pass needs.

It is counted, tensor by tensor, as autograd puts them aside and lets them go. Weights
are not counted, and tensors that share memory are counted once.
"""

import contextlib
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from ._sharded import local_part


class Activations:
    """What autograd holds at the moment, and the most that it has held, in bytes."""

    def __init__(self, weights: Iterable[Tensor]) -> None:
        self.weights = {place_of(weight) for weight in weights}
        self.holders: Counter[int] = Counter()
        self.now = self.most = 0

    def keep(self, tensor: Tensor) -> "Kept | Tensor":
        """Count a tensor that autograd puts aside."""
        place = place_of(tensor)
        if place in self.weights:
            return tensor
        size = local_part(tensor).untyped_storage().nbytes()
        self.holders[place] += 1
        if self.holders[place] == 1:
            self.now += size
            self.most = max(self.most, self.now)
        kept = Kept(tensor.detach())  # an output would hold on to its own graph
        weakref.finalize(kept, self.let_go, place, size)
        return kept

    def let_go(self, place: int, size: int) -> None:
        """Count a tensor off once autograd has let go of it."""
        self.holders[place] -= 1
        if not self.holders[place]:
            self.now -= size


class Kept:
    """A tensor that was put aside."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def take_back(kept: Kept | Tensor) -> Tensor:
    """A tensor that was put aside, for the backward pass."""
    return kept.tensor if isinstance(kept, Kept) else kept


def place_of(tensor: Tensor) -> int:
    """Where its numbers lie in memory; of a sharded tensor, this process's share."""
    return local_part(tensor).untyped_storage().data_ptr()


@contextlib.contextmanager
def count_activations(weights: Iterable[Tensor]) -> Iterator[Activations]:
    """Count what autograd holds within this.

    >>> x = torch.ones(256, requires_grad=True)
    >>> with count_activations([x]) as count:
    ...     x.sin().exp().sum().backward()
    >>> count.most, count.now
    (1024, 0)
    """
    count = Activations(weights)
    with torch.autograd.graph.saved_tensors_hooks(count.keep, take_back):
        yield count
