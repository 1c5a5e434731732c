"""The trained encoder as one .safetensors file that says how to rebuild itself."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ..data import Image, Kind, kind_of
from ..errors import DataError, SettingError
from ..folder import ENCODER, require_encoder, write_whole
from ._by_name import build_encoder, is_known_name
from ._encoder import Encoder, split_encoder, standardize

UNREADABLE = (
    *(AttributeError, KeyError, OSError, RecursionError, RuntimeError),
    *(SafetensorError, TypeError, ValueError),
)
"""What reading a damaged file, or one of somebody else, raises."""


def write_encoder(
    encoder: Encoder, path: Path, *, advice: str = "", **about: float | int
) -> None:
    """Write weights, the name and input shape they belong to, and further facts.

    ``advice`` is what to do when the disk fails, if it is not to resume a run.
    """
    write_tensors(
        copy_weights(encoder), describe_encoder(encoder) | about, path, advice=advice
    )


def write_tensors(
    tensors: dict[str, Tensor], about: dict[str, Any], path: Path, *, advice: str = ""
) -> None:
    """Write tensors with what is to be known about them, whole or not at all."""
    metadata = {"invariance": json.dumps(about)}
    write_whole(path, save(tensors, metadata=metadata), advice=advice)


def read_tensors(path: Path) -> tuple[Any, dict[str, Tensor]]:
    """What ``write_tensors`` wrote about tensors, and these; or one of UNREADABLE."""
    with safe_open(path, framework="pt") as file:
        about = json.loads((file.metadata() or {})["invariance"])
        return about, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def part_of(state: dict[str, Any], name: str) -> dict[str, Any]:
    """The entries of one part of a module's state, as the part itself calls them.

    >>> part_of({"head.weight": 1, "encoder.weight": 2}, "head")
    {'weight': 1}
    """
    start = f"{name}."
    return {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}


def copy_weights(module: nn.Module) -> dict[str, Tensor]:
    """Weights as a file takes them: in the memory of the CPU, in order, each its own.

    Tied ones are written twice.
    """
    return {
        name: weight.detach().cpu().contiguous().clone()
        for name, weight in module.state_dict().items()
    }


def describe_encoder(encoder: Encoder) -> dict[str, Any]:
    """What is needed to build an encoder like this one."""
    about = {
        "name": encoder.name,
        "shape": list(encoder.input_shape),
        "stem": stem_of(encoder),
        "standardizes": split_encoder(encoder)[0] is not None,
    }
    if encoder.kind is None:
        return about
    dtype = str(encoder.kind.dtype).removeprefix("torch.")
    return about | {"kind": encoder.kind.describe(), "dtype": dtype}


def read_kind(about: dict[str, Any]) -> Kind | None:
    """What an encoder takes, by its description; before 0.1.0 all took images."""
    if "kind" in about:
        return kind_of(about["kind"], getattr(torch, about["dtype"]))
    return Image(about["shape"]) if len(about["shape"]) == 3 else None


def stem_of(encoder: Encoder) -> str:
    """Whether it begins as made for small images (see ``build_encoder``)."""
    parts = [getattr(part, "maxpool", None) for part in encoder.network.children()]
    return "small" if any(isinstance(p, nn.Identity) for p in parts) else "large"


def load_encoder(place: Any, *, network: nn.Module | None = None) -> Encoder:
    """The encoder of a finished run's folder or of a file, ready to use.

    Args:
        place: A run folder or an ``encoder.safetensors``.
        network: The module itself, when it was made from one of your own.
    """
    if not isinstance(place, str | Path):
        raise SettingError(
            "Expected a run, its folder or an encoder file: got "
            f"{type(place).__name__}."
        )
    path = Path(place).expanduser()
    if path.is_dir():
        path = path / ENCODER
    require_encoder(path)
    return rebuild_encoder(*read_encoder(path), network)


def read_encoder(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What an encoder file says of itself, and its weights."""
    try:
        about, tensors = read_tensors(path)
        check_description(about)
    except UNREADABLE as cause:
        raise DataError(
            f"{path} is damaged, or not an encoder of this package: {cause}."
        ) from None
    return about, tensors


def check_description(about: Any) -> None:
    """Raise one of ``UNREADABLE`` unless ``describe_encoder`` could have said this."""
    if not isinstance(about["name"], str):
        raise TypeError(f"its network is called {about['name']!r}")
    if not all(isinstance(size, int) for size in about["shape"]):
        raise TypeError(f"its samples have the shape {about['shape']!r}")
    if not isinstance(getattr(torch, about.get("dtype", "float32")), torch.dtype):
        raise TypeError(f"its samples are {about['dtype']!r}")
    read_kind(about)


def rebuild_encoder(
    about: dict[str, Any], weights: dict[str, Tensor], network: nn.Module | None
) -> Encoder:
    """The encoder of that description, with these weights."""
    name, kind = about["name"], read_kind(about)
    if network is None and not is_known_name(name):
        raise DataError(
            f"This encoder was made from a module called {name!r}: pass it as "
            "network=module to inv.load, inv.evaluate or inv.diagnose."
        )
    with torch.random.fork_rng(devices=[]):
        if kind is None:
            if network is None:
                raise DataError(f"{name!r} does not say what it takes.")
            encoder = Encoder(network, name=name, input_shape=tuple(about["shape"]))
        else:
            encoder = build_encoder(
                network if network is not None else name,
                stem="auto" if network is not None else about["stem"],
                kind=kind,
            )
    if about.get("standardizes", True):
        n = about["shape"][0]
        encoder = standardize(encoder, [0.0] * n, [1.0] * n)
    try:
        encoder.load_state_dict(weights)
    except RuntimeError:
        raise DataError(
            f"The weights do not fit {encoder.name!r}: pass the module they were "
            "trained in as inv.load(..., network=module)."
        ) from None
    return encoder.eval()
