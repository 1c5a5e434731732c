"""Tiny: five convolutions that learn 32 x 32 images on two CPU cores.

Each layer is a 3 x 3 convolution, batch norm and ReLU; the strides come early, where
pixels are many, and the width late, where it is cheap:

    32x32 -> 16x16x24 -> 8x8x48 -> 4x4x96 -> 4x4x128 -> 2x2x256 -> mean -> 256

0.46 million weights and 4.4 million multiply-adds per 32 x 32 image.
"""

from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SettingError

LAYERS = ((24, 2), (48, 2), (96, 2), (128, 1), (256, 2))  # (channels, stride)


class Tiny(nn.Module):
    """A small convolutional network for small images of any size.

    Args:
        channels: of the images.
        growth: every layer's number of channels is multiplied by it.

    >>> import torch
    >>> Tiny()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 256])
    >>> Tiny(channels=1, growth=0.5)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 128])
    """

    def __init__(self, *, channels: int = 3, growth: float = 1.0):
        super().__init__()
        if growth <= 0:
            raise SettingError(f"growth needs to be above 0: got {growth}.")
        layers: list[nn.Module] = []
        for width, stride in LAYERS:
            width = max(8, round(width * growth / 8) * 8)
            layers.append(layer(channels, width, stride))
            channels = width
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n e"]:
        """The last layer's maps, averaged over places."""
        return self.layers(images).mean((2, 3))

    def maps(self, images: Float[Tensor, "n c h w"]) -> list[Float[Tensor, "n _ _ _"]]:
        """The last map of every size, the largest first."""
        maps: list[Tensor] = []
        for layer, (_, stride) in zip(self.layers, LAYERS, strict=True):
            images = layer(images)
            maps = [*(maps if stride > 1 else maps[:-1]), images]
        return maps


def layer(channels: int, width: int, stride: int) -> nn.Sequential:
    """Convolution, batch norm, ReLU; the norm would cancel a bias."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, stride, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
    )
