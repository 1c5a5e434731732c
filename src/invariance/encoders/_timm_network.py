"""An encoder as timm knows it: its name there, and what builds the same network.

timm keeps two things apart: weights in a file, mean and std in the model's settings,
where its own transforms find them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Image
from ..errors import SettingError
from ._by_name import is_known_name, is_ours
from ._encoder import Encoder, split_encoder

LIBRARIES = {
    "torchvision": "torchvision",
    "transformers": "transformers",
    "geometric": "torch-geometric",
}
"""Whose networks are named after them, as "torchvision/resnet18" is."""


def timm_name(encoder: Encoder) -> str:
    """As timm knows the architecture."""
    return encoder.name.removeprefix("timm/")


def timm_settings(encoder: Encoder) -> dict[str, Any]:
    """What timm's ``create_model`` needs besides the name."""
    import timm

    channels, size = encoder.input_shape[0], encoder.input_shape[-1]
    layer = split_encoder(encoder)[0]
    mean, std = [0.0] * channels, [1.0] * channels
    if layer is not None:
        mean = [float(f"{m:.7g}") for m in layer.mean.flatten().tolist()]
        std = [float(f"{s:.7g}") for s in layer.std.flatten().tolist()]
    overlay = {"input_size": (channels, size, size), "mean": mean, "std": std}
    known = timm.get_pretrained_cfg(timm_name(encoder))
    fixed = {"img_size": size} if known and known.fixed_input_size else {}
    settings: dict[str, Any] = {"num_classes": 0, "in_chans": channels}
    return settings | fixed | {"pretrained_cfg_overlay": overlay}


def require_timm(encoder: Encoder) -> nn.Module:
    """The network, or a sentence that says why timm has none like it."""
    name = encoder.name
    if is_ours(name):
        why = f"{name!r} is a network of this package"
    elif (library := LIBRARIES.get(name.split("/")[0])) is not None:
        why = f"{name!r} is a network of {library}"
    elif not has_known_name(encoder):
        why = f"{name!r} is your own module"
    else:
        return split_encoder(encoder)[1]
    other = ""
    if encoder.kind is None or isinstance(encoder.kind, Image):
        other = ", or train a timm network such as --encoder resnet18"
    raise SettingError(
        f"{why}, which timm cannot build: export it to safetensors, pt2 or onnx{other}."
    )


def has_known_name(encoder: Encoder) -> bool:
    """Whether the encoder can be built from its name."""
    return is_known_name(encoder.name)


def standardize_first(
    model: nn.Module, about: Mapping[str, Any]
) -> Callable[[Tensor], Tensor]:
    """Images in [0, 1] in, features out, by a network of timm and its settings."""
    mean, std = (torch.tensor(about[key]).view(-1, 1, 1) for key in ("mean", "std"))
    model.eval()

    def run(images: Tensor) -> Tensor:
        features = model((images - mean) / std)
        return features.mean((2, 3)) if features.ndim == 4 else features

    return run
