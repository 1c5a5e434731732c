"""Views of samples that stay on the device, from their rows, for a captured step.

What changes from step to step are rows, and from epoch to epoch `keys`; both are
tensors on the device. Nothing else enters, and nothing waits for the host, so that a
CUDA graph which captured a call makes new views when those two are overwritten.
"""

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from ._draws import Draws
from ._view_set import ViewSet, epoch_keys


class DeviceViews:
    """The views of a `ViewSet`, of samples on a device, in the encoder's own layout.

    Args:
        views: What is done to the samples.
        images: All samples of a set.
        dtype: Of the views; all arithmetic is float32.
        channels_last: Whether a view's channels are stored beside each other.

    >>> import invariance as inv
    >>> images = torch.randint(256, (50, 3, 32, 32), dtype=torch.uint8)
    >>> views = inv.views.DeviceViews(inv.views.ViewSet(inv.views.simclr(32)), images)
    >>> keys = views.keys(seed=0, epoch=0)
    >>> u, v = views(torch.tensor([7, 3]), keys)
    >>> u.shape
    torch.Size([2, 3, 32, 32])
    """

    def __init__(
        self,
        views: ViewSet,
        images: Shaped[Tensor, "n ..."],
        *,
        dtype: torch.dtype = torch.float32,
        channels_last: bool = False,
    ) -> None:
        self.views, self.images, self.dtype = views, images, dtype
        self.channels_last = channels_last

    @property
    def can_be_captured(self) -> bool:
        """Whether a CUDA graph may hold a call."""
        return self.views.is_built_in

    def explain(self) -> str:
        """How the views are made, in a line.

        >>> from invariance.views import simclr
        >>> images = torch.zeros(1, 3, 32, 32, dtype=torch.uint8)
        >>> DeviceViews(ViewSet(simclr(32)), images).explain()
        'views: operation by operation, because the images are on a CPU'
        """
        groups, reason = self.views.plan(self.images)
        if not groups:
            return f"views: operation by operation, because {reason}"
        return f"views: fused kernels, {2 * len(groups)} launches per batch"

    def keys(self, seed: int, epoch: int) -> Int[Tensor, "1"]:
        """What a call needs to know of seed and epoch, on the device."""
        return epoch_keys(seed, epoch, self.images.device)

    def __call__(
        self, rows: Int[Tensor, " n"], keys: Int[Tensor, "1"]
    ) -> list[Shaped[Tensor, "n ..."]]:
        """The views of these rows of the samples; a row is its sample's id too."""
        plan = self.views.plan(self.images)
        if plan.groups:
            form = (self.dtype, self.channels_last)
            return plan.make(self.images, rows, keys, rows, *form)
        batch = self.views.start(self.images.index_select(0, rows))
        views = []
        for view in range(len(self.views)):
            draws = Draws.from_key(keys[0], rows, view)
            made = self.views.make(view, batch, draws)
            if made.ndim == 4 and self.channels_last:
                made = made.contiguous(memory_format=torch.channels_last)
            views.append(made.to(self.dtype) if made.is_floating_point() else made)
        return views
