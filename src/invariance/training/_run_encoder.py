"""The encoder of a run: which network, whose weights, for images of what colors."""

import copy
import math

from torch import nn

from ..data import Source
from ..encoders import Encoder, build_encoder, standardize, stem_of
from ..errors import SettingError
from ..evaluation import spread_rows
from ._checkpoint import load
from ._settings import Train

MOST_VALUES = 1 << 28  # of images that stand for the colors of all
IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def make_encoder(settings: Train, source: Source, given: nn.Module | None) -> Encoder:
    """The encoder asked for, standardizing its images itself."""
    channels, size, _ = source.shape
    name = settings.encoder
    if name == "auto":
        name = "tiny" if size <= 64 else "resnet18"
    encoder = build_encoder(
        given if given is not None else name,
        channels=channels,
        image_size=size,
        pretrained=settings.pretrained,
    )
    if settings.pretrained and channels == 3:
        return standardize(encoder, IMAGENET_MEAN, IMAGENET_STD)
    most = max(min(1000, MOST_VALUES // math.prod(source.shape)), 1)
    some = source.batches([spread_rows(len(source), most)])
    pixels = next(iter(some)).double() / 255
    mean, std = pixels.mean((0, 2, 3)).tolist(), pixels.std((0, 2, 3)).tolist()
    return standardize(encoder, [round(m, 4) for m in mean], [round(s, 4) for s in std])


def start_weights_from(run: str, network: Encoder, given: nn.Module | None) -> Encoder:
    """The encoder with the weights of another run's."""
    start = load(run, network=copy.deepcopy(given))
    if (
        given is None
        and start.name == network.name
        and stem_of(start) != stem_of(network)
    ):
        return start.train()
    try:
        network.load_state_dict(start.state_dict())
    except RuntimeError:
        raise SettingError(
            f"The encoder of {run} is {start.name!r} and this run's is "
            f"{network.name!r}: --start-from needs the same one, for images with the "
            "same number of channels."
        ) from None
    return network
