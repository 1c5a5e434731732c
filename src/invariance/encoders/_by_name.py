"""From a name, or a module, to an encoder.

    "tiny"                      ours, in ENCODERS; "mlp" takes any numbers
    "mlp-128-128-2"             a perceptron with layers of these widths
    "resnet18", "timm/..."      any timm name, with or without pretrained weights
    "torchvision/resnet18"      any torchvision classifier
    a module                    itself

Networks lose their classifier; what is left gives one row of features per sample.
"""

import contextlib
import difflib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from ..data import Graph, Image, Kind, Row
from ..errors import DataError, SettingError
from ._columns import count_inputs, lay_out
from ._encoder import Encoder
from ._gin import GEOMETRIC, GRAPH_ENCODERS, build_geometric
from ._mlp import MLP, build_perceptron, is_mlp
from ._network import hub_without_retries, is_reachable
from ._sequence import SEQUENCE_ENCODERS
from ._stem import copy_convolution, fit_stem
from ._text_tower import TEXT_TOWERS, TRANSFORMERS, build_text_tower
from ._tiny import Tiny


def build_tiny(kind: Kind) -> Tiny:
    """A small convolutional network for small images of any size."""
    return Tiny(channels=kind.shape[0])


def build_mlp(kind: Kind) -> MLP:
    """A perceptron of three layers for samples that are numbers, of any shape."""
    return MLP(count_inputs(kind))


ENCODERS: dict[str, Callable[[Kind], nn.Module]] = {
    "tiny": build_tiny,
    "mlp": build_mlp,
}
"""Our own networks by name, made for samples of a kind."""
OTHERS: dict[str, Mapping[str, Any]] = {
    "sequence": SEQUENCE_ENCODERS,
    "text": TEXT_TOWERS,
    "graph": GRAPH_ENCODERS,
}
"""The names of further networks, by the kind of samples that they take."""
CLASSIFIERS = ("fc", "classifier", "heads", "head")  # torchvision's names for the last


def build_encoder(
    name: str | nn.Module,
    *,
    channels: int = 3,
    image_size: int = 32,
    pretrained: bool = False,
    stem: str = "auto",
    kind: Kind | None = None,
    dropout: float | None = None,
) -> Encoder:
    """An encoder by name, or around a module of your own.

    Args:
        name: "tiny", "mlp-128-2", a timm name, "torchvision/" and one of its names, or
            a module.
        channels: of the images.
        image_size: height and width of the images, in pixels.
        pretrained: whether to fetch the trained weights of a timm or torchvision name.
        stem: "small" is 3 x 3 without a max-pool, "large" is as published; "auto" is
            small for untrained ResNets on images up to 64 x 64.
        kind: what a sample is; it says what channels and image_size say of images.
        dropout: of a text tower; None is the tower's own.

    >>> import torch
    >>> encoder = build_encoder("tiny", channels=1)
    >>> encoder.name, encoder.width, encoder(torch.zeros(2, 1, 32, 32)).shape
    ('tiny', 256, torch.Size([2, 256]))
    >>> mine = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 5))
    >>> build_encoder(mine, image_size=8).width
    5
    """
    if channels < 1 or image_size < 1:
        raise SettingError(
            "channels and image_size need to be 1 or more: "
            f"got {channels} and {image_size}."
        )
    if isinstance(name, Encoder):
        return name
    kind = Image((channels, image_size, image_size)) if kind is None else kind.seen
    if not isinstance(kind, Image):
        return build_other(name, kind, pretrained, dropout)
    channels, _, image_size = kind.shape
    if isinstance(name, nn.Module):
        network, label = name, type(name).__name__
        pretrained = True  # its weights, and so its stem, are the caller's
    else:
        try:
            network, label = find_network(name, kind, pretrained), name
        except OSError as cause:  # of a download; nothing else here touches a disk
            why = " ".join(str(cause).split()).rstrip(".")
            raise DataError(
                f"The pretrained weights of {name!r} could not be downloaded "
                f"({why}): connect to the network once, or leave pretrained out."
            ) from None
    network = fit_stem(
        network, name=label, stem=stem, image_size=image_size, pretrained=pretrained
    )
    return Encoder(network, name=label, kind=kind)


def build_other(
    name: str | nn.Module, kind: Kind, pretrained: bool, dropout: float | None
) -> Encoder:
    """An encoder of samples that are no images."""
    if isinstance(name, nn.Module):
        return Encoder(lay_out(name, kind), name=type(name).__name__, kind=kind)
    if kind.name == "text" and (name in TEXT_TOWERS or name.startswith(TRANSFORMERS)):
        text: Any = kind
        network = build_text_tower(
            name,
            vocabulary=text.vocabulary,
            length=kind.shape[0],
            pad=text.pad,
            pretrained=pretrained,
            dropout=dropout,
        )
        return Encoder(network, name=name, kind=kind)
    refuse_pretrained(name, pretrained)
    if kind.name == "sequence" and name in SEQUENCE_ENCODERS:
        network = SEQUENCE_ENCODERS[name](channels=kind.shape[0])
    elif isinstance(kind, Graph) and name in GRAPH_ENCODERS:
        network = GRAPH_ENCODERS[name](kind)
    elif isinstance(kind, Graph) and name.startswith(GEOMETRIC):
        network = build_geometric(name, kind)
    elif is_mlp(name) and takes_numbers(kind):
        network = lay_out(build_perceptron(name, count_inputs(kind)), kind)
    else:
        check_encoder_name(name)
        numbers = ["mlp"] if takes_numbers(kind) else []
        refuse_for_kind(name, kind, [*numbers, *OTHERS.get(kind.name, ())])
    return Encoder(network, name=name, kind=kind)


def refuse_for_kind(name: str, kind: Kind, able: Sequence[str]) -> NoReturn:
    """Say which networks can read such samples."""
    known = ", ".join(map(repr, able))
    raise SettingError(
        f"{name!r} is not a network for {kind.word}s: use "
        f"{f'{known} or ' if known else ''}your own module."
    )


def takes_numbers(kind: Kind) -> bool:
    """Whether a perceptron can make sense of samples."""
    laid_out = isinstance(kind, Row)  # into numbers, see ``lay_out``
    return kind.dtype.is_floating_point and (kind.measured or laid_out)


def refuse_pretrained(name: str, pretrained: bool) -> None:
    """Our own networks have no weights to begin with."""
    if pretrained:
        raise SettingError(
            f"{name!r} has no pretrained weights: leave pretrained out, or name a "
            "timm network such as 'resnet18'."
        )


def is_known_name(name: str) -> bool:
    """Whether ``build_encoder`` can build a network like one with this name.

    >>> is_known_name("geometric/GCN"), is_known_name("resnet18"), is_known_name("Net")
    (True, True, False)
    """
    if is_ours(name) or name.startswith(("torchvision/", TRANSFORMERS, GEOMETRIC)):
        return True
    import timm  # slow to import: only those who need it pay

    return timm.is_model(name.removeprefix("timm/"))


def check_encoder_name(name: str) -> None:
    """Raise a sentence, with names that are near, unless there is such an encoder."""
    if is_ours(name) or name.startswith((TRANSFORMERS, GEOMETRIC)):
        return
    if name.startswith("torchvision/"):
        from torchvision import models

        known = [f"torchvision/{k}" for k in models.list_models(module=models)]
        is_known = name in known
    else:
        import timm  # slow to import: only those who need it pay

        name = name.removeprefix("timm/")
        is_known = timm.is_model(name)
        known = [] if is_known else [*ENCODERS, *other_names(), *timm.list_models()]
    if not is_known:
        raise SettingError(describe_unknown(name, known))


def other_names() -> list[str]:
    """The names of networks that take samples other than images, but for mlp."""
    return [name for names in OTHERS.values() for name in names]


def is_ours(name: str) -> bool:
    """Whether a network of that name is this package's."""
    return name in ENCODERS or is_mlp(name) or name in other_names()


def find_network(name: str, kind: Kind, pretrained: bool) -> nn.Module:
    """The network with this name, without its classifier."""
    check_encoder_name(name)
    if name in ENCODERS:
        refuse_pretrained(name, pretrained)
        return ENCODERS[name](kind)
    if is_mlp(name):
        return build_perceptron(name, count_inputs(kind))
    if name in other_names() or name.startswith((TRANSFORMERS, GEOMETRIC)):
        refuse_for_kind(name, kind, [*ENCODERS, "resnet18"])
    channels, _, image_size = kind.shape
    if name.startswith("torchvision/"):
        short = name.removeprefix("torchvision/")
        return from_torchvision(short, channels, image_size, pretrained)
    return from_timm(name.removeprefix("timm/"), channels, image_size, pretrained)


def from_timm(name: str, channels: int, image_size: int, pretrained: bool) -> nn.Module:
    """The network of timm; those with a fixed image size get ours."""
    import timm

    try:
        settings = timm.get_pretrained_cfg(name)
        fixed: dict[str, Any] = {}
        if settings and settings.fixed_input_size:  # vision transformers, mostly
            fixed["img_size"] = image_size
        with hub_without_retries() if pretrained else contextlib.nullcontext():
            return timm.create_model(
                name, pretrained=pretrained, num_classes=0, in_chans=channels, **fixed
            )
    except OSError:  # of a download: to the hub before 1.0 it is a ValueError as well
        raise
    except (RuntimeError, AssertionError, TypeError, ValueError) as cause:
        raise SettingError(
            f"timm could not build {name!r} for {channels} x {image_size} x "
            f"{image_size} images, pretrained={pretrained}: {cause}"
        ) from cause


def from_torchvision(
    name: str, channels: int, image_size: int, pretrained: bool
) -> nn.Module:
    """The classifier of torchvision with its last part taken off."""
    from torchvision import models

    if pretrained and channels != 3:
        raise SettingError(
            f"torchvision's weights are for 3 channels: got {channels}. timm's names "
            f"adapt theirs: try {name!r} without 'torchvision/'."
        )
    fixed = {"image_size": image_size} if name.startswith("vit_") else {}
    weights = models.get_model_weights(name).DEFAULT if pretrained else None
    if weights is not None and not (
        is_fetched(weights.url) or is_reachable(weights.url)
    ):
        raise OSError("the server cannot be reached")
    network: nn.Module = models.get_model(name, weights=weights, **fixed)
    last = next(part for part in CLASSIFIERS if hasattr(network, part))
    setattr(network, last, nn.Identity())
    if hasattr(network, "aux_logits"):  # second classifiers, on during training only
        off = {"aux_logits": False, "aux1": None, "aux2": None, "AuxLogits": None}
        for side in off.keys() & set(dir(network)):
            setattr(network, side, off[side])
    return network if channels == 3 else change_channels(network, channels)


def change_channels(network: nn.Module, channels: int) -> nn.Module:
    """The network with its first convolution made for this many channels."""
    for path, part in network.named_modules():
        if isinstance(part, nn.Conv2d):
            parent, _, child = path.rpartition(".")
            fresh = copy_convolution(part, in_channels=channels)
            setattr(network.get_submodule(parent), child, fresh)
            return network
    raise SettingError(f"{type(network).__name__} has no convolution to change.")


def is_fetched(address: str) -> bool:
    """Whether torch has this file of weights from an earlier time."""
    return Path(torch.hub.get_dir(), "checkpoints", Path(address).name).is_file()


def describe_unknown(name: str, known: list[str]) -> str:
    """The message for an unknown name; there are too many names to list them all."""
    near = [repr(n) for n in difflib.get_close_matches(name, known, n=3, cutoff=0.5)]
    hint = (
        f"Did you mean {' or '.join(near)}?"
        if near
        else "Ours: " + ", ".join(ENCODERS) + "; timm.list_models() names the others."
    )
    return f"Unknown encoder {name!r}. {hint}"
