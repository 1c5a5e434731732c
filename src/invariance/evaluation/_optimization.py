"""How protocols that train move their weights: the optimizer and its learning rate.

Published protocols differ in little else: MoCo's linear layer learns by SGD with a rate
that drops at 60 and 80 % of the way, FlatNCE fine-tunes by NAdam with a constant one.
"""

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from ..checked_rows import above_zero
from ..errors import SettingError, choose
from ._score import Setting

SCHEDULES: dict[str, Callable[[float], float]] = {
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done: 1 - done,
    "step": lambda done: 0.1 ** ((done >= 0.6) + (done >= 0.8)),
    "constant": lambda _: 1.0,
}
"""The learning rate as a share of its peak, after a share of the steps."""
OPTIMIZERS = ("adamw", "adam", "nadam", "sgd")


def check_training(
    *,
    epochs: int,
    batch_size: int,
    lr: float | int,
    weight_decay: float | int,
    momentum: float | int,
) -> None:
    """Refuse what cannot train."""
    above_zero(lr, "lr")
    if min(epochs, batch_size) < 1:
        raise SettingError(
            f"epochs and batch_size need to be 1 or more: got {epochs}, {batch_size}."
        )
    if not 0 <= weight_decay < float("inf") or not 0 <= momentum < 1:
        raise SettingError(
            "weight_decay is 0 or more and momentum lies between 0 and 1: got "
            f"{weight_decay} and {momentum}."
        )


def make_optimizer(
    name: str,
    weights: Iterable[nn.Parameter],
    *,
    lr: float | int,
    weight_decay: float | int,
    momentum: float | int,
    steps: int,
    schedule: str = "cosine",
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """An optimizer, and its schedule over so many steps.

    Args:
        name: "adamw", "adam", "nadam" or "sgd", which has Nesterov's momentum.
        weights: what is trained.
        lr: the peak, which is where it begins.
        weight_decay: of all weights alike.
        momentum: of SGD, or the first beta of the others.
        steps: in all.
        schedule: a name in ``SCHEDULES``.
    """
    rate = choose(SCHEDULES, schedule, "schedule")
    choose(dict.fromkeys(OPTIMIZERS), name, "optimizer")
    optimizer: torch.optim.Optimizer
    if name == "sgd":
        optimizer = torch.optim.SGD(
            weights,
            lr=lr,
            momentum=momentum,
            nesterov=momentum > 0,
            weight_decay=weight_decay,
        )
    else:
        kinds = {
            "adamw": torch.optim.AdamW,
            "adam": torch.optim.Adam,
            "nadam": torch.optim.NAdam,
        }
        optimizer = kinds[name](
            weights, lr=lr, betas=(momentum, 0.999), weight_decay=weight_decay
        )
    return optimizer, torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate(step / steps)
    )


def default_settings(function: Callable[..., Any]) -> dict[str, Any]:
    """What a function does where it is not told."""
    given = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in given if p.default is not p.empty}


def other_than_usual(
    protocol: Callable[..., Any], **chosen: Setting
) -> dict[str, Setting]:
    """The settings that are not the protocol's defaults.

    Only these are named in a score: a row from before there was a choice does not have
    them, and asked the same question.
    """
    usual = default_settings(protocol)
    return {key: value for key, value in chosen.items() if value != usual[key]}
