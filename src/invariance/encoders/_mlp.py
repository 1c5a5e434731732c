"""MLP: a few linear layers for samples that are rows of numbers.

d -> 256 -> 256 -> 256, each with batch norm and ReLU
"""

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

LAYERS = (256, 256, 256)


class MLP(nn.Module):
    """A perceptron for samples of any shape; a sample's numbers are one row.

    Args:
        width: how many numbers a sample has.

    >>> import torch
    >>> MLP(10)(torch.zeros(4, 2, 5)).shape
    torch.Size([4, 256])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = [
            part
            for before, after in pairwise((width, *LAYERS))
            for part in (
                nn.Linear(before, after, bias=False),  # the norm would cancel a bias
                nn.BatchNorm1d(after),
                nn.ReLU(inplace=True),
            )
        ]
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def forward(self, samples: Float[Tensor, "n ..."]) -> Float[Tensor, "n e"]:
        """The last layer."""
        return self.layers(samples)
