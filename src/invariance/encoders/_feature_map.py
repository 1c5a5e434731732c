r"""Feature maps: what an encoder says of every place, beside its row per image.

$$f(x) = g(L(x)),\qquad L:\ (n, \ldots) \to (n, c, h, w)$$

An encoder has a map at the end of every stage, the earlier the finer. They come from

    networks of timm       forward_intermediates, which nearly all of them have
    torchvision's ResNets  the ends of their four layers
    "tiny", your own       a method ``maps(images)``: a list, whose last it averages
    any other              its output, where that is (n, c, h, w)
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..errors import SettingError
from ._encoder import Encoder, leave_undisturbed, split_encoder

Images = Float[Tensor, "n _ _ _"]
Rows = Float[Tensor, "n e"]
Map = Float[Tensor, "n _ _ _"]
STEM = ("conv1", "bn1", "relu", "maxpool")
LAYERS = ("layer1", "layer2", "layer3", "layer4")


class Mapped(nn.Module):
    """An encoder that gives the map of one of its stages, too, in the same pass.

    Args:
        encoder: Of images.
        stage: Which map: -1 is the last one, -2 that of the stage before, and so on;
            None is -2 where there are several.

    >>> from ._by_name import build_encoder
    >>> mapped = Mapped(build_encoder("tiny"))
    >>> mapped.shape  # of one image's map
    (128, 4, 4)
    >>> features, places = mapped(torch.zeros(2, 3, 32, 32))
    >>> features.shape, places.shape
    (torch.Size([2, 256]), torch.Size([2, 128, 4, 4]))
    """

    def __init__(self, encoder: Encoder, stage: int | None = None) -> None:
        super().__init__()
        with leave_undisturbed(encoder.network), torch.no_grad():
            _, maps = run_stages(encoder, encoder.blank())
        self.encoder, self.stage = encoder, find_stage(encoder, maps, stage)
        self.shape: tuple[int, ...] = tuple(maps[self.stage].shape[1:])

    def forward(self, images: Images) -> tuple[Rows, Map]:
        """A row of features per image, and its map."""
        features, maps = run_stages(self.encoder, images)
        return features, maps[self.stage]


def find_stage(encoder: Encoder, maps: list[Map], stage: int | None) -> int:
    """Where the map that is asked for is among these."""
    if not maps:
        raise SettingError(
            f"{encoder.name} has no feature map, whose places this method compares: "
            "use tiny, a convolutional network of timm such as resnet18, a module "
            "that gives (n, c, h, w), or one with a method maps(images) that lists "
            "its maps."
        )
    stage = -min(2, len(maps)) if stage is None else stage
    if not -len(maps) <= stage <= -1:
        raise SettingError(
            f"{encoder.name} has feature maps from stage -1, the last, to "
            f"{-len(maps)}: got {stage}."
        )
    return stage


def run_stages(encoder: Encoder, images: Images) -> tuple[Rows, list[Map]]:
    """The rows that the encoder gives, and its maps, the finest first."""
    first, network = split_encoder(encoder)
    images = images if first is None else first(images)
    layers: Any = network
    if callable(getattr(network, "maps", None)):
        maps = layers.maps(images)
        return maps[-1].mean((2, 3)), maps
    if callable(getattr(network, "forward_intermediates", None)):
        last, maps = layers.forward_intermediates(images)
        return layers.forward_head(last), maps
    if all(hasattr(network, name) for name in (*STEM, *LAYERS, "avgpool")):
        for name in STEM:
            images = getattr(layers, name)(images)
        maps = []
        for name in LAYERS:
            maps.append(images := getattr(layers, name)(images))
        return layers.avgpool(images).flatten(1), maps
    features = network(images)
    if features.ndim == 4:
        return features.mean((2, 3)), [features]
    return features, []
