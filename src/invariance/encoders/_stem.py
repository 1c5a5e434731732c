"""The small-image stem: keep the pixels that a large-image ResNet throws away.

A ResNet made for 224 x 224 begins with a 7 x 7 convolution of stride 2 and a max-pool
of stride 2, which leave 8 x 8 of a 32 x 32 image. For small images the convolution
becomes 3 x 3 with stride 1 and the max-pool goes; the rest stays as it is.
"""

from typing import Any

from torch import nn

from ..errors import SettingError, choose

SMALL_IMAGE = 64
KEPT = (
    *("in_channels", "out_channels", "kernel_size", "stride", "padding"),
    *("dilation", "groups", "padding_mode"),
)
STEMS = {"auto": None, "small": True, "large": False}


def fit_stem(
    network: nn.Module, *, name: str, stem: str, image_size: int, pretrained: bool
) -> nn.Module:
    """The network with the requested stem, changed in place.

    "auto" is "small" for images up to 64 x 64 on a network that has such a stem,
    unless it is pretrained: its weights belong to the stem they were trained with.
    """
    small = choose(STEMS, stem, "stem")
    if small is None:
        small = image_size <= SMALL_IMAGE and is_resnet_like(network) and not pretrained
    if not small:
        return network
    if not is_resnet_like(network):
        raise SettingError(
            f"stem='small' needs a network that begins like a ResNet (conv1, maxpool, "
            f"layer1): {name} does not. Use stem='auto', or a ResNet."
        )
    network.conv1 = remove_stride(network.conv1)
    network.maxpool = nn.Identity()
    return network


def is_resnet_like(network: nn.Module) -> bool:
    """Whether it begins as the ResNets of timm and torchvision do."""
    parts = ("conv1", "maxpool", "layer1")
    return all(isinstance(getattr(network, part, None), nn.Module) for part in parts)


def remove_stride(conv1: Any) -> nn.Module:
    """conv1 as 3 x 3 of stride 1; a stem of several convolutions loses its stride."""
    if isinstance(conv1, nn.Conv2d):
        return copy_convolution(conv1, kernel_size=3, stride=1, padding=1)
    for part in conv1.modules():
        if isinstance(part, nn.Conv2d):
            part.stride = (1, 1)
    return conv1


def copy_convolution(conv: nn.Conv2d, **changes: Any) -> nn.Conv2d:
    """A fresh convolution with the settings of another, but for the changes.

    >>> copy_convolution(nn.Conv2d(3, 64, 7, 2, 3, bias=False), stride=1).stride
    (1, 1)
    """
    settings: dict[str, Any] = {name: getattr(conv, name) for name in KEPT}
    fresh = nn.Conv2d(bias=conv.bias is not None, **{**settings, **changes})
    nn.init.kaiming_normal_(fresh.weight, mode="fan_out", nonlinearity="relu")
    return fresh
