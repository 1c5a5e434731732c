"""Weights that ``timm.create_model("hf_hub:user/name", pretrained=True)`` takes.

Two files beside each other: model.safetensors with timm's own names, without a
classifier, and config.json with the architecture and what images are standardized by.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from ..encoders import (
    Encoder,
    compare_features,
    copy_weights,
    require_timm,
    standardize_first,
    stem_of,
    timm_name,
    timm_settings,
)
from ..errors import SettingError
from ..folder import write_json, write_whole

TIMM_CONFIG = "config.json"
TIMM_WEIGHTS = "model.safetensors"


def write_timm_files(encoder: Encoder, folder: Path, *, advice: str) -> None:
    """Write both files and check them; raises a sentence where timm cannot have them.

    Args:
        encoder: Whose network is written.
        folder: Where to.
        advice: What to do when the disk fails.
    """
    network = require_timm(encoder)
    if stem_of(encoder) == "small":
        raise SettingError(
            f"{encoder.name} begins as made for small images, which timm's settings "
            "cannot say: 'invariance export --to timm' shows the code that can."
        )
    config = describe_for_timm(encoder)
    data = save(copy_weights(network), metadata={"format": "pt"})
    try:
        write_whole(folder / TIMM_WEIGHTS, data, advice=advice)
        model = rebuild(config, folder / TIMM_WEIGHTS)
        network_again = standardize_first(model, config["pretrained_cfg"])
        compare_features(encoder, network_again, "timm")
    except BaseException:  # half of it would be worse than nothing
        (folder / TIMM_WEIGHTS).unlink(missing_ok=True)
        raise
    write_json(folder / TIMM_CONFIG, config, advice=advice)


def describe_for_timm(encoder: Encoder) -> dict[str, Any]:
    """What timm's config.json says of a network without a classifier.

    ``first_conv`` is left out: with it timm would adapt weights for three channels.
    """
    import timm

    settings = timm_settings(encoder)
    known = timm.get_pretrained_cfg(timm_name(encoder))
    overlay = settings.pop("pretrained_cfg_overlay")
    kept = ("fixed_input_size", "interpolation", "classifier")
    usual = {} if known is None else {key: getattr(known, key) for key in kept}
    return {
        "architecture": timm_name(encoder),
        "num_classes": 0,
        "num_features": encoder.width,
        "model_args": {k: v for k, v in settings.items() if k != "num_classes"},
        "pretrained_cfg": {
            **usual,
            **overlay,
            "input_size": list(overlay["input_size"]),
            "crop_pct": 1.0,
            "num_classes": 0,
            "custom_load": False,
        },
    }


def rebuild(config: dict[str, Any], weights: Path) -> torch.nn.Module:
    """The network by timm alone, as it will be built of the files on the hub."""
    import timm

    about = config["pretrained_cfg"] | {"file": str(weights)}
    with torch.random.fork_rng(devices=[]):
        model: torch.nn.Module = timm.create_model(
            config["architecture"],
            pretrained=True,
            pretrained_cfg=about,
            **config["model_args"],
        )
    return model
