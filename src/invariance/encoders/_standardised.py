"""Pixels to zero mean and unit variance, as the first layer of an encoder.

Inside the encoder, so that whoever loads it hands over images in [0, 1] and need
remember nothing else.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import ShapeError
from ._encoder import Encoder


class Standardise(nn.Module):
    """(x - mean) / std of every channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
        """Standardised images."""
        if not torch.jit.is_tracing():  # which would take the shape for a tensor
            self._check(images)
        return (images - self.mean) / self.std

    def _check(self, images: Any) -> None:
        """Raise on the usual mistakes, which would give wrong features or none."""
        if not isinstance(images, Tensor):
            raise ShapeError(
                f"An encoder takes a tensor of images, not {type(images).__name__}: "
                "use torch.from_numpy or torch.stack."
            )
        channels = len(self.mean)
        if images.ndim != 4 or images.shape[1] != channels:
            raise ShapeError(
                f"An encoder takes images of shape (n, {channels}, height, width): got "
                f"{tuple(images.shape)}. One image needs [None], and channels that "
                "come last .permute(0, 3, 1, 2)."
            )
        if not images.dtype.is_floating_point:
            raise ShapeError(
                f"An encoder takes floats in [0, 1], not {images.dtype}: divide pixels "
                "by 255."
            )


def standardised(encoder: Encoder, mean: list[float], std: list[float]) -> Encoder:
    """The same encoder for images in [0, 1] whose channels have this mean and spread.

    >>> encoder = Encoder(nn.Identity(), input_shape=(1, 2, 2))
    >>> encoder = standardised(encoder, [0.5], [2.0])
    >>> encoder(torch.ones(1, 1, 2, 2))
    tensor([[0.2500]])
    """
    # a constant channel has no spread to divide by
    layer = Standardise(list(mean), [s if s > 1e-4 else 1.0 for s in std])
    network = nn.Sequential(layer, encoder.network)
    return Encoder(network, name=encoder.name, input_shape=encoder.input_shape)
