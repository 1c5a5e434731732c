"""The network of an encoder as timm knows it, with what timm needs to rebuild it.

An encoder here is a standardisation, (x - mean) / std, and a network. timm keeps the
two apart: weights in a file, mean and std in the model's settings, where its own
transforms find them. So the file holds the network alone, and mean and std go along in
the code that is printed and in the file's metadata. They are not folded into the first
convolution: that would be wrong at the borders, where zeros are padded.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from ..encoders import ENCODERS, Encoder, Standardize, fit_stem
from ..errors import SettingError
from ..training._checkpoint import write_whole
from ..training._encoder_file import stem_of


def inner(encoder: Encoder) -> tuple[Standardize | None, nn.Module]:
    """The standardisation, if there is one, and the network behind it."""
    network = encoder.network
    if isinstance(network, nn.Sequential) and len(network) == 2:
        first, second = network
        if isinstance(first, Standardize):
            return first, second
    return None, network


def network_of_timm(encoder: Encoder) -> nn.Module:
    """The network, or a sentence that says why timm has none like it."""
    import timm

    name = encoder.name
    if name in ENCODERS:
        why = f"{name!r} is a network of this package"
    elif name.startswith("torchvision/"):
        why = f"{name!r} is a network of torchvision"
    elif not timm.is_model(name.removeprefix("timm/")):
        why = f"{name!r} is a module of your own"
    else:
        return inner(encoder)[1]
    raise SettingError(
        f"{why}, which timm cannot build: export it to safetensors, torchscript or "
        "onnx, or train a timm network such as --encoder resnet18."
    )


def settings(encoder: Encoder) -> dict[str, Any]:
    """What timm's ``create_model`` is to be told, besides the name."""
    import timm

    channels, size = encoder.input_shape[0], encoder.input_shape[-1]
    standard = inner(encoder)[0]
    mean, std = [0.0] * channels, [1.0] * channels
    if standard is not None:
        mean = [float(f"{m:.7g}") for m in standard.mean.flatten().tolist()]
        std = [float(f"{s:.7g}") for s in standard.std.flatten().tolist()]
    overlay = {"input_size": (channels, size, size), "mean": mean, "std": std}
    known = timm.get_pretrained_cfg(encoder.name.removeprefix("timm/"))
    fixed = {"img_size": size} if known and known.fixed_input_size else {}
    told: dict[str, Any] = {"num_classes": 0, "in_chans": channels}
    return told | fixed | {"pretrained_cfg_overlay": overlay}


def write_timm(encoder: Encoder, path: Path, advice: str) -> None:
    """The state of the network, and the settings as metadata."""
    network = network_of_timm(encoder)
    tensors = {
        k: v.detach().cpu().contiguous().clone()
        for k, v in network.state_dict().items()
    }
    said = {"architecture": encoder.name.removeprefix("timm/"), **settings(encoder)}
    told = {"timm": json.dumps(said | {"stem": stem_of(encoder)}), "format": "pt"}
    data = save(tensors, metadata=told)
    write_whole(path, lambda file: file.write(data), advice=advice)


def read_timm(encoder: Encoder, path: Path) -> Callable[[Tensor], Tensor]:
    """A fresh network of timm with the weights of the file, standardising first."""
    import timm

    told = settings(encoder)
    with torch.random.fork_rng(devices=[]):
        model = timm.create_model(encoder.name.removeprefix("timm/"), **told)
        if stem_of(encoder) == "small":
            size = encoder.input_shape[-1]
            model = fit_stem(
                model, name=encoder.name, stem="small", image_size=size, pretrained=True
            )
    timm.models.load_checkpoint(model, str(path))
    model.eval()
    overlay = told["pretrained_cfg_overlay"]
    mean, std = (torch.tensor(overlay[k]).view(-1, 1, 1) for k in ("mean", "std"))

    def run(images: Tensor) -> Tensor:
        features = model((images - mean) / std)
        return features.mean((2, 3)) if features.ndim == 4 else features

    return run


def code(encoder: Encoder, path: Path) -> str:
    """Python that gives the features of ``images``, float in [0, 1]."""
    told = settings(encoder)
    network = network_of_timm(encoder)
    arguments = ", ".join(f"{k}={v!r}" for k, v in told.items())
    lines = [
        "import timm, torch",
        f"model = timm.create_model({encoder.name.removeprefix('timm/')!r}, "
        f"{arguments})",
    ]
    if stem_of(encoder) == "small":  # made for small images: see encoders
        first = getattr(network, "conv1", None)
        if isinstance(first, nn.Conv2d):
            bias = first.bias is not None
            lines.append(
                f"model.conv1 = torch.nn.Conv2d({first.in_channels}, "
                f"{first.out_channels}, 3, padding=1, bias={bias})"
            )
        else:
            lines.append(
                "for part in model.conv1.modules():\n"
                "    if isinstance(part, torch.nn.Conv2d): part.stride = (1, 1)"
            )
        lines.append("model.maxpool = torch.nn.Identity()")
    overlay = told["pretrained_cfg_overlay"]
    lines += [
        f"timm.models.load_checkpoint(model, {str(path)!r})",
        f"mean = torch.tensor({overlay['mean']}).view(-1, 1, 1)",
        f"std = torch.tensor({overlay['std']}).view(-1, 1, 1)",
        "features = model.eval()((images - mean) / std)",
    ]
    return "\n".join(lines)
