"""MLP: a few linear layers for samples that are rows of numbers.

mlp                 d -> 256 -> 256 -> 256, each with batch norm and ReLU
mlp-128-128-2       d -> 128 -> 128, each with batch norm and ReLU, -> 2 as it is
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SettingError

LAYERS = (256, 256, 256)
NAME = re.compile(r"mlp((-\d+)+)")
WIDEST = 65_536


class MLP(nn.Module):
    """A perceptron for samples of any shape; a sample's numbers are one row.

    Args:
        width: how many numbers a sample has.
        layers: how wide each layer is.
        last: of a further layer, without norm and ReLU, whose features may have any
            sign: two of them are a picture. None: there is no such layer.

    >>> import torch
    >>> MLP(10)(torch.zeros(4, 2, 5)).shape
    torch.Size([4, 256])
    """

    def __init__(
        self, width: int, layers: Sequence[int] = LAYERS, last: int | None = None
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = [
            part
            for before, after in pairwise((width, *layers))
            for part in (
                nn.Linear(before, after, bias=False),  # the norm would cancel a bias
                nn.BatchNorm1d(after),
                nn.ReLU(inplace=True),
            )
        ]
        if last is not None:
            parts.append(nn.Linear([width, *layers][-1], last))
        self.layers = nn.Sequential(nn.Flatten(), *parts)

    def forward(self, samples: Float[Tensor, "n ..."]) -> Float[Tensor, "n e"]:
        """The last layer."""
        return self.layers(samples)


def is_mlp(name: str) -> bool:
    """Whether a name is that of a perceptron.

    >>> is_mlp("mlp"), is_mlp("mlp-128-2"), is_mlp("mlp_mixer")
    (True, True, False)
    """
    return name == "mlp" or NAME.fullmatch(name) is not None


def build_perceptron(name: str, width: int) -> MLP:
    """The perceptron of that name.

    >>> build_perceptron("mlp-8-2", 3).layers[-1]
    Linear(in_features=8, out_features=2, bias=True)
    """
    if name == "mlp":
        return MLP(width)
    *layers, last = (int(part) for part in name.split("-")[1:])
    if not all(0 < size <= WIDEST for size in (*layers, last)):
        raise SettingError(
            f"The layers of an mlp are 1 to {WIDEST:,} wide: got {name!r}."
        )
    return MLP(width, layers, last)
