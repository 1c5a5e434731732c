"""How protocols that train learn from labels: batches, optimizer and learning rate.

Published protocols differ in little else: MoCo's linear layer learns by SGD with a rate
that drops at 60 and 80 % of the way, FlatNCE fine-tunes by NAdam with a constant one.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from ..checked_rows import above_zero
from ..errors import SettingError, choose
from ._images import Augment, Images
from ._predictions import Targets, prediction_loss
from ._score import Setting

SCHEDULES: dict[str, Callable[[float], float]] = {
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done: 1 - done,
    "step": lambda done: 0.1 ** ((done >= 0.6) + (done >= 0.8)),
    "constant": lambda _: 1.0,
}
"""The learning rate as a share of its peak, after a share of the steps."""
ADAPTIVE = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "nadam": torch.optim.NAdam,
}
OPTIMIZERS = (*ADAPTIVE, "sgd")


@dataclass(frozen=True, kw_only=True)
class Training:
    """How weights are moved by labels; what cannot train is refused."""

    epochs: int
    """Passes over the rows."""
    batch_size: int
    """At most all rows."""
    lr: float | int
    """The peak, which is where it begins."""
    weight_decay: float | int
    """Of all weights alike."""
    momentum: float | int
    """Of SGD (Nesterov's), or the first beta of the others."""
    schedule: str
    """A name in ``SCHEDULES``."""
    optimizer: str = "sgd"
    """A name in ``OPTIMIZERS``."""
    seed: int
    """Of the order of the images."""
    augment: Augment | None
    """Applied to the images."""
    device: torch.device | str

    def __post_init__(self) -> None:
        above_zero(self.lr, "lr")
        if min(self.epochs, self.batch_size) < 1:
            raise SettingError(
                "epochs and batch_size need to be 1 or more: got "
                f"{self.epochs}, {self.batch_size}."
            )
        decay, momentum = self.weight_decay, self.momentum
        if not 0 <= decay < float("inf") or not 0 <= momentum < 1:
            raise SettingError(
                "weight_decay is 0 or more and momentum lies between 0 and 1: got "
                f"{decay} and {momentum}."
            )
        choose(SCHEDULES, self.schedule, "schedule")
        choose(dict.fromkeys(OPTIMIZERS), self.optimizer, "optimizer")

    def learn(
        self,
        guess: Callable[[Tensor], Float[Tensor, "b c"]],
        weights: Sequence[nn.Parameter],
        images: Images,
        rows: Int[Tensor, " k"],
        y: Targets,
    ) -> None:
        """Move weights so that labeled images are guessed better, to the last step.

        Args:
            guess: From images, prepared or augmented, to a number per image and class.
            weights: What is trained.
            images: All of them.
            rows: The images that may be seen.
            y: The class numbers of all images, or a 0 or 1 per image and class.
        """
        steps = self.epochs * (len(rows) // min(self.batch_size, len(rows)))
        share = SCHEDULES[self.schedule]
        mover = self.make_optimizer(weights)
        rate = torch.optim.lr_scheduler.LambdaLR(mover, lambda k: share(k / steps))
        with torch.enable_grad():
            for part, views in self.draw_batches(images, rows):
                logits = guess(views)
                loss = prediction_loss(logits, y[part].to(logits.device))
                mover.zero_grad()
                loss.backward()
                mover.step()
                rate.step()

    def make_optimizer(self, weights: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        """What moves the weights."""
        how: Any = {"lr": self.lr, "weight_decay": self.weight_decay}
        if self.optimizer == "sgd":
            how |= {"momentum": self.momentum, "nesterov": self.momentum > 0}
            return torch.optim.SGD(weights, **how)
        return ADAPTIVE[self.optimizer](weights, betas=(self.momentum, 0.999), **how)

    def draw_batches(
        self, images: Images, rows: Int[Tensor, " n"]
    ) -> Iterator[tuple[Int[Tensor, " k"], Shaped[Tensor, "k ..."]]]:
        """Numbers and samples of batches, each epoch in a new order.

        Rows that do not fill a batch are left for the next epoch.
        """
        generator = torch.Generator().manual_seed(self.seed)
        size = min(self.batch_size, len(rows))
        for epoch in range(self.epochs):
            order = rows[torch.randperm(len(rows), generator=generator)]
            parts = order[: len(rows) // size * size].split(size)
            batches = images.batches(parts, device=self.device)
            for part, batch in zip(parts, batches, strict=True):
                if self.augment is None:
                    yield part, images.kind.prepare(batch)
                else:
                    yield part, self.augment(batch, part, epoch)


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
