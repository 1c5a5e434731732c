"""What an encoder can be exported to: how each format is written, read back and used.

Files of torch.export and ONNX take float images in [0, 1] and standardize them
themselves, as the encoder does. timm keeps the two apart: weights in a file, mean and
std in the model's settings, where its own transforms find them. So a file for timm
holds the network alone, and mean and std go along in the code that is printed and in
the file's metadata. They are not folded into the first convolution: that would be wrong
at the borders, where zeros are padded.
"""

import copy
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from ..data import Image
from ..encoders import (
    Encoder,
    copy_weights,
    fit_stem,
    has_known_name,
    require_timm,
    split_encoder,
    standardize,
    standardize_first,
    stem_of,
    timm_name,
    timm_settings,
    write_encoder,
)
from ..errors import InvarianceError, SettingError
from ..folder import write_whole
from ..training import load

Network = Callable[[Tensor], Tensor]
ADVICE = "Free some space or fix the disk, and export again."


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        suffix: what the default name of a file ends in.
        write: the file.
        read: images in [0, 1] in, features out, by what is in the file.
        usage: code that does so.
        notes: what else a user should know.
        packages: what has to be installed first.
    """

    suffix: str
    write: Callable[[Encoder, Path], None]
    read: Callable[[Encoder, Path], Network]
    usage: Callable[[Encoder, Path], str]
    notes: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


# ---------------------------------------------------------------- safetensors


def write_safetensors(encoder: Encoder, path: Path) -> None:
    """As in a run folder, where every encoder of images standardizes them."""
    if split_encoder(encoder)[0] is None and isinstance(encoder.kind, Image):
        n = encoder.input_shape[0]
        encoder = standardize(encoder, [0.0] * n, [1.0] * n)
    write_encoder(encoder, path, advice=ADVICE)


def read_safetensors(encoder: Encoder, path: Path) -> Network:
    """By name, or into a copy of the module where that has no name."""
    named = has_known_name(encoder)
    network = None if named else copy.deepcopy(split_encoder(encoder)[1])
    return load(path, network=network)


def use_safetensors(encoder: Encoder, path: Path) -> str:
    """With this package."""
    module = "" if has_known_name(encoder) else ", network=module"
    return (
        f"encoder = invariance.load({str(path)!r}{module})\n"
        f"features = encoder({name_input(encoder)})  # {describe_input(encoder)}"
        f"{explain_samples(encoder)}"
    )


# ---------------------------------------------------------------- torch.export


def write_pt2(encoder: Encoder, path: Path) -> None:
    """A program for any number of samples at once."""
    blank = encoder.blank().repeat(2, *[1] * len(encoder.input_shape))
    sizes = ({0: torch.export.Dim("n")},)
    with silence(), torch.no_grad(), explain_failure(encoder, "torch.export"):
        program = torch.export.export(encoder, (blank,), dynamic_shapes=sizes)
    with silence(), path.open("wb") as file:
        torch.export.save(program, file)


def read_pt2(encoder: Encoder, path: Path) -> Network:
    """With torch alone."""
    with silence(), path.open("rb") as file:
        return torch.export.load(file).module()


def use_pt2(encoder: Encoder, path: Path) -> str:
    """With torch alone."""
    return (
        f"encoder = torch.export.load({str(path)!r}).module()\n"
        f"features = encoder({name_input(encoder)})  # {describe_input(encoder)}, any "
        "batch size"
    )


# ---------------------------------------------------------------- ONNX


def write_onnx(encoder: Encoder, path: Path) -> None:
    """One file, for any number of samples at once."""
    blank = encoder.blank().repeat(2, *[1] * len(encoder.input_shape))
    with silence(), torch.no_grad(), explain_failure(encoder, "ONNX"):
        torch.onnx.export(
            encoder,
            (blank,),
            str(path),
            dynamo=True,
            input_names=[name_input(encoder)],
            output_names=["features"],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            external_data=False,
            verbose=False,
        )


def read_onnx(encoder: Encoder, path: Path) -> Network:
    """With onnxruntime on the CPU."""
    import onnxruntime

    providers = ["CPUExecutionProvider"]
    with explain_failure(encoder, "ONNX"):
        session = onnxruntime.InferenceSession(str(path), providers=providers)

    def run(images: Tensor) -> Tensor:
        (features,) = session.run(["features"], {name_input(encoder): images.numpy()})
        return torch.from_numpy(features)

    return run


def use_onnx(encoder: Encoder, path: Path) -> str:
    """With onnxruntime."""
    name = name_input(encoder)
    return (
        f"session = onnxruntime.InferenceSession({str(path)!r})\n"
        f'(features,) = session.run(None, {{"{name}": {name}}})'
        f"  # {describe_input(encoder)}, any batch size"
    )


# ---------------------------------------------------------------- timm


def write_timm(encoder: Encoder, path: Path) -> None:
    """The state of the network under timm's own names, the settings as metadata."""
    settings = {"architecture": timm_name(encoder), **timm_settings(encoder)}
    text = json.dumps(settings | {"stem": stem_of(encoder)})
    metadata = {"timm": text, "format": "pt"}
    data = save(copy_weights(require_timm(encoder)), metadata=metadata)
    write_whole(path, data, advice=ADVICE)


def read_timm(encoder: Encoder, path: Path) -> Network:
    """A fresh network of timm with the weights of the file, standardizing first."""
    import timm

    settings = timm_settings(encoder)
    with torch.random.fork_rng(devices=[]):
        model = timm.create_model(timm_name(encoder), **settings)
        if stem_of(encoder) == "small":
            size = encoder.input_shape[-1]
            model = fit_stem(
                model, name=encoder.name, stem="small", image_size=size, pretrained=True
            )
    timm.models.load_checkpoint(model, str(path))
    return standardize_first(model, settings["pretrained_cfg_overlay"])


def use_timm(encoder: Encoder, path: Path) -> str:
    """With timm, and the settings it needs to build the same network."""
    settings = timm_settings(encoder)
    arguments = ", ".join(f"{k}={v!r}" for k, v in settings.items())
    lines = [
        "import timm, torch",
        f"model = timm.create_model({timm_name(encoder)!r}, {arguments})",
    ]
    if stem_of(encoder) == "small":  # made for small images: see encoders
        first = getattr(require_timm(encoder), "conv1", None)
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
    overlay = settings["pretrained_cfg_overlay"]
    lines += [
        f"timm.models.load_checkpoint(model, {str(path)!r})",
        f"mean = torch.tensor({overlay['mean']}).view(-1, 1, 1)",
        f"std = torch.tensor({overlay['std']}).view(-1, 1, 1)",
        "features = model.eval()((images - mean) / std)",
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------- all of them

FORMATS = {
    "safetensors": Format(
        ".safetensors", write_safetensors, read_safetensors, use_safetensors
    ),
    "timm": Format(
        ".timm.safetensors",
        write_timm,
        read_timm,
        use_timm,
        notes=(
            "The file holds only the network; standardize the images yourself, with "
            "the mean and std printed (also in the file's metadata).",
        ),
    ),
    "pt2": Format(".pt2", write_pt2, read_pt2, use_pt2),
    "onnx": Format(
        ".onnx",
        write_onnx,
        read_onnx,
        use_onnx,
        packages=("onnx", "onnxscript", "onnxruntime"),
    ),
}


def name_input(encoder: Encoder) -> str:
    """What the input of a program is called."""
    return "images" if isinstance(encoder.kind, Image) else "samples"


def describe_input(encoder: Encoder) -> str:
    """What is handed to it."""
    if isinstance(encoder.kind, Image):
        return "float32 in [0, 1]"
    dtype = str(encoder.blank().dtype).removeprefix("torch.")
    return f"{dtype}, each of shape {encoder.input_shape}"


def explain_samples(encoder: Encoder) -> str:
    """Where this package makes such a sample; images need no word."""
    kind = encoder.kind
    if kind is None or isinstance(kind, Image):
        return ""
    return f"; encoder.kind.read makes one of a {kind.word}"


@contextmanager
def silence() -> Iterator[None]:
    """No warnings of exporters: what they warn of is checked afterwards."""
    names = ("torch.onnx", "torch.export", "torch.fx", "onnxscript")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def explain_failure(encoder: Encoder, to: str) -> Iterator[None]:
    """Whatever an exporter raises, as one sentence."""
    try:
        yield
    except (InvarianceError, OSError):
        raise
    except Exception as cause:
        lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
        why = lines[0] if lines else type(cause).__name__
        raise SettingError(
            f"{encoder.name} cannot be exported to {to}: {why}"
        ) from cause
