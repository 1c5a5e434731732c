"""Samples as evaluations that run an encoder ask for them: by number, in batches."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ..data import Kind, Resident

Augment = Callable[[Tensor, Tensor, int], Tensor]
"""(images, their numbers, epoch) to images in [0, 1]; the numbers key the draws."""


@runtime_checkable
class Images(Protocol):
    """Samples by number; ``invariance.data.load`` gives such a thing."""

    @property
    def kind(self) -> Kind:
        """What a sample is."""
        ...

    def __len__(self) -> int: ...

    def batches(
        self, index_batches: Iterable[Tensor], *, device: torch.device | str = "cpu"
    ) -> Iterator[Tensor]:
        """The batches asked for, in that order, on ``device``."""
        ...


def as_images(images: Images | Tensor) -> Images:
    """A tensor of images, bytes or in [0, 1], as a source; anything else as it is."""
    return Resident(images) if isinstance(images, Tensor) else images
