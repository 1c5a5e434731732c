"""The trained encoder as one .safetensors file that says how to rebuild itself."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ..encoders import ENCODERS, Encoder, build_encoder, standardize
from ..errors import DataError, SettingError, near_path
from ..folder import CHECKPOINTS, ENCODER, write_whole
from . import _checkpoint


def write_encoder(
    encoder: Encoder, path: Path, *, advice: str = "", **about: float | int
) -> None:
    """Write weights, the name and input shape they belong to, and further facts.

    ``advice`` is what to do when the disk fails, if it is not to resume a run.
    """
    tensors = {
        k: v.detach().cpu().contiguous().clone()  # tied weights are written twice
        for k, v in encoder.state_dict().items()
    }
    metadata = {"invariance": json.dumps(describe_encoder(encoder) | about)}
    write_whole(path, save(tensors, metadata=metadata), advice=advice)


def describe_encoder(encoder: Encoder) -> dict[str, Any]:
    """What is needed to build an encoder like this one."""
    shape = list(encoder.input_shape)
    return {"name": encoder.name, "shape": shape, "stem": stem_of(encoder)}


def stem_of(encoder: Encoder) -> str:
    """Whether it begins as made for small images (see ``build_encoder``)."""
    parts = [getattr(part, "maxpool", None) for part in encoder.network.children()]
    return "small" if any(isinstance(p, nn.Identity) for p in parts) else "large"


def load(run_or_file: Any, *, network: nn.Module | None = None) -> Encoder:
    """The encoder of a run folder or file: images in [0, 1] in, features out.

    Args:
        run_or_file: What ``train`` returned, a run folder, finished or not, or an
            ``encoder.safetensors``.
        network: The module itself, when the run was trained on one of your own.
    """
    if not isinstance(run_or_file, str | Path):
        run_or_file = getattr(run_or_file, "folder", run_or_file)  # what train returns
    if not isinstance(run_or_file, str | Path):
        raise SettingError(
            "Expected a run, its folder or an encoder file: got "
            f"{type(run_or_file).__name__}."
        )
    path = Path(run_or_file).expanduser()
    if path.is_dir() and (path / ENCODER).exists():
        path = path / ENCODER
    if path.is_dir():
        return _from_checkpoint(path, network)
    if not path.exists():
        raise DataError(
            f"There is no run or encoder file at {str(path)!r}: 'invariance list runs' "
            f"shows what there is.{near_path(path)}"
        )
    return _rebuild(*read_encoder(path), network)


def read_encoder(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What an encoder file says of itself, and its weights."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["invariance"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, OSError) as cause:
        raise DataError(
            f"{path} is damaged, or not an encoder of this package: {cause}."
        ) from None
    return about, tensors


def _from_checkpoint(folder: Path, network: nn.Module | None) -> Encoder:
    state = _checkpoint.newest_checkpoint(folder / CHECKPOINTS)
    if state is None:
        raise DataError(f"{folder} holds no encoder and no checkpoint.")
    prefix = "encoder."
    weights = {
        key.removeprefix(prefix): value
        for key, value in state["learner"].items()
        if key.startswith(prefix)
    }
    return _rebuild(state["encoder"], weights, network)


def _rebuild(
    about: dict[str, Any], weights: dict[str, Tensor], network: nn.Module | None
) -> Encoder:
    """The encoder of that description, with these weights."""
    name, channels, size = about["name"], about["shape"][0], about["shape"][-1]
    if network is None and name not in ENCODERS:
        import timm

        known = timm.is_model(name.removeprefix("timm/"))
        if not name.startswith("torchvision/") and not known:
            raise DataError(
                f"This encoder was made from a module called {name!r}: pass it as "
                "network=module to inv.load, inv.evaluate or inv.diagnose."
            )
    with torch.random.fork_rng(devices=[]):
        encoder = build_encoder(
            network if network is not None else name,
            channels=channels,
            image_size=size,
            stem="auto" if network is not None else about["stem"],
        )
    encoder = standardize(encoder, [0.0] * channels, [1.0] * channels)
    try:
        encoder.load_state_dict(weights)
    except RuntimeError:
        raise DataError(
            f"The weights do not fit {encoder.name!r}: pass the module they were "
            "trained in as inv.load(..., network=module)."
        ) from None
    return encoder.eval()
