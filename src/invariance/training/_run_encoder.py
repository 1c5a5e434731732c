"""The encoders of a run: which network, whose weights, for samples of what spread."""

import copy
import math

import torch
from torch import nn

from ..data import Image, Source
from ..encoders import Encoder, build_encoder, standardize, stem_of
from ..errors import SettingError
from ..evaluation import spread_rows
from ..methods import Learner
from ._trained_encoder import load

MOST_VALUES = 1 << 28  # of samples that stand for the colors of all
IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def make_encoder(
    name: str,
    source: Source,
    given: nn.Module | None,
    *,
    pretrained: bool = False,
    dropout: float | None = None,
) -> Encoder:
    """The encoder asked for, standardizing its samples itself.

    Args:
        name: Of the network; "auto" fits the samples.
        source: What it is for.
        given: The network itself, instead of a name.
        pretrained: Whether to start from published weights.
        dropout: Of a text tower; None is the tower's own.
    """
    kind = source.kind
    name = kind.seen.encoder if name == "auto" else name
    chosen = given if given is not None else name
    encoder = build_encoder(chosen, kind=kind, pretrained=pretrained, dropout=dropout)
    if pretrained and isinstance(kind, Image) and kind.shape[0] == 3:
        return standardize(encoder, IMAGENET_MEAN, IMAGENET_STD)
    if not kind.measured or kind.seen is not kind:
        return encoder
    most = max(min(1000, MOST_VALUES // math.prod(source.shape)), 1)
    some = source.batches([spread_rows(len(source), most)])
    values = kind.prepare(next(iter(some)), torch.float64)
    if not values.is_floating_point():
        return encoder  # tokens have no mean
    axes = [axis for axis in range(values.ndim) if axis != 1]
    mean, std = values.mean(axes).tolist(), values.std(axes).tolist()
    if isinstance(kind, Image):
        mean, std = [round(m, 4) for m in mean], [round(s, 4) for s in std]
    return standardize(encoder, mean, std)


def start_weights_from(
    run: str, network: Encoder, given: nn.Module | None, *, side: str = "first"
) -> Encoder:
    """The encoder with the weights of another run's."""
    start = load(run, network=copy.deepcopy(given), side=side)
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


def refuse_single_samples(learner: Learner) -> None:
    """Refuse batch norms over pieces of one sample.

    Two views by themselves come out of a batch norm as each other's negative.
    """
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d)
    if any(isinstance(part, kinds) for part in learner.online.modules()):
        raise SettingError(
            "micro_batch 1 lets batch norms see one sample at a time, whose views they "
            "would turn into opposites: use --micro-batch 32 or so, 2 at least, or an "
            "encoder and a head without batch norm."
        )
