"""The trained encoder as one .safetensors file that says how to rebuild itself."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from ..encoders import ENCODERS, Encoder, build_encoder, standardised
from ..errors import DataError
from . import _checkpoint

NAME = "encoder.safetensors"


def write(encoder: Encoder, path: Path) -> None:
    """Weights, and the name and input shape they belong to."""
    about = {"name": encoder.name, "input_shape": encoder.input_shape}
    tensors = {
        k: v.detach().cpu().contiguous() for k, v in encoder.state_dict().items()
    }
    data = save(tensors, metadata={"invariance": json.dumps(about)})
    _checkpoint.write_whole(path, lambda file: file.write(data))


def load(run_or_file: str | Path, *, network: nn.Module | None = None) -> Encoder:
    """The encoder of a run folder or file: images in [0, 1] in, features out.

    Args:
        run_or_file: A run folder, finished or not, or an ``encoder.safetensors``.
        network: The module itself, when the run was trained on one of your own.
    """
    path = Path(run_or_file)
    if path.is_dir() and (path / NAME).exists():
        path = path / NAME
    if path.is_dir():
        return _from_checkpoint(path, network)
    if not path.exists():
        raise DataError(
            f"There is no run or encoder file at {str(path)!r}: 'invariance list runs' "
            "shows what there is."
        )
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["invariance"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, OSError) as cause:
        raise DataError(f"{path} is not an encoder of this package: {cause}.") from None
    encoder = _blank(about["name"], tuple(about["input_shape"]), network)
    encoder.load_state_dict(tensors)
    return encoder.eval()


def _from_checkpoint(folder: Path, network: nn.Module | None) -> Encoder:
    state = _checkpoint.newest(folder / "checkpoints")
    if state is None:
        raise DataError(f"{folder} holds no encoder and no checkpoint.")
    encoder = _blank(
        state["encoder"]["name"], tuple(state["encoder"]["shape"]), network
    )
    prefix = "encoder."
    weights = {
        key.removeprefix(prefix): value
        for key, value in state["learner"].items()
        if key.startswith(prefix)
    }
    encoder.load_state_dict(weights)
    return encoder.eval()


def _blank(name: str, shape: tuple[int, ...], network: nn.Module | None) -> Encoder:
    """An encoder of this name with weights to be replaced."""
    channels, size = shape[0], shape[-1]
    if network is None and name not in ENCODERS:
        import timm

        if not name.startswith("torchvision/") and not timm.is_model(name):
            raise DataError(
                f"This encoder was made from a module called {name!r}: pass it as "
                "inv.load(..., network=module)."
            )
    with torch.random.fork_rng(devices=[]):
        encoder = build_encoder(
            network if network is not None else name, channels=channels, image_size=size
        )
    return standardised(encoder, [0.0] * channels, [1.0] * channels)
