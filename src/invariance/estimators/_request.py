"""What is asked of an estimator: samples, and how critics are to be trained."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from ..critics import PENALTIES
from ..errors import SettingError, choose
from ..plain_numbers import (
    check_least,
    check_number,
    check_positive_number,
    check_whole,
)
from ._estimate import Checkpoint
from ._samples import Samples

OnCheckpoint = Callable[[Checkpoint], None]
OF_LOOP = frozenset(
    {"batch_size", "max_steps", "check_every", "patience", "lr", "weight_decay"}
    | {"max_candidates"}
)
"""Settings of everything that is trained."""
OF_CRITIC = frozenset(
    {"critic", "width", "depth", "embed", "base", "spectral_norm"}
    | {"gradient_penalty", "penalty_weight"}
)
"""Settings of what trains a critic."""


@dataclass(frozen=True)
class Training:
    """Settings of the critic and its training."""

    width: int | None = None
    """Hidden units of the critic; None is the default of that critic."""
    depth: int | None = None
    """Hidden layers of the critic."""
    embed: int | None = None
    """Numbers that a separable or cosine critic meets in."""
    base: str = "gaussian"
    """What the critic starts from: the critic of a Gaussian copula, or none."""
    batch_size: int = 256
    """Rows per step, and so candidates per row in training."""
    max_steps: int = 3000
    """Steps at most."""
    check_every: int = 100
    """Steps between two looks at the validation rows."""
    patience: int = 6
    """Looks without a better validation value until training stops."""
    lr: float | int = 1e-3
    """Learning rate of Adam."""
    weight_decay: float | int = 0.0
    """Pull of the weights to zero (AdamW's, decoupled)."""
    spectral_norm: bool = False
    """Keep every layer's gain at one."""
    gradient_penalty: str = "none"
    """'wgan' (slopes of one), 'zero' (flat critics) or 'none'."""
    penalty_weight: float | int = 0.1
    """How much the penalty counts."""
    margins: str = "normal"
    """'normal' makes each column normal, 'standard' scales it, 'raw' leaves it."""
    max_candidates: int = 4096
    """Held-out rows at most; they are the candidates, and their log is the ceiling."""
    alpha: float | int | None = None
    """Of ``interpolated``: 1 is InfoNCE, 0 is TUBA; None is 0.5."""
    clip: float | int | None = None
    """Of ``smile``: strangers' scores are clipped to ± this; None is 5."""
    fraction: float | int | None = None
    """Of ``vince``: the share of the strangers, hardest first; None is 0.5."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_whole("batch_size", self.batch_size, 4)
        for name in ("max_steps", "check_every", "patience"):
            check_whole(name, getattr(self, name), 1)
        check_positive_number("lr", self.lr)
        for name in ("weight_decay", "penalty_weight"):
            check_number(name, getattr(self, name))
            check_least(name, getattr(self, name), 0)
        check_whole("max_candidates", self.max_candidates, 16)
        if self.base not in ("gaussian", "none"):
            raise SettingError(f"base is 'gaussian' or 'none', got {self.base!r}.")
        if self.margins not in ("normal", "standard", "raw"):
            raise SettingError(
                f"margins are 'normal', 'standard' or 'raw', got {self.margins!r}."
            )
        choose(dict.fromkeys(PENALTIES), self.gradient_penalty, "gradient penalty")
        if self.alpha is not None and not 0 <= self.alpha <= 1:
            raise SettingError(f"alpha is 0 to 1, got {self.alpha}.")
        if self.clip is not None and not self.clip > 0:
            raise SettingError(f"clip must be above 0, got {self.clip}.")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise SettingError(
                f"fraction must be above 0 and at most 1, got {self.fraction}."
            )


@dataclass(frozen=True)
class Request:
    """Checked samples, and how to treat them."""

    samples: Samples
    critic: str = "separable"
    training: Training = field(default_factory=Training)
    seed: int = 0
    device: str | torch.device = "cpu"
    progress: OnCheckpoint | None = None

    def generator(self) -> torch.Generator:
        """A generator that always starts at the seed."""
        return torch.Generator().manual_seed(self.seed)
