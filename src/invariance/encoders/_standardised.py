"""Pixels to zero mean and unit variance, as the first layer of an encoder.

Inside the encoder, so that whoever loads it hands over images in [0, 1] and need
remember nothing else.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

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
        return (images - self.mean) / self.std


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
