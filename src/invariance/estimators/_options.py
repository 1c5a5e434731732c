"""How critics are trained: the settings of the one loop that all of them share."""

from dataclasses import dataclass

from ..errors import SettingError


@dataclass(frozen=True)
class Training:
    """Settings of the critic and its training."""

    width: int | None = None
    """Hidden units of the critic; None is its own default."""
    depth: int | None = None
    """Hidden layers of the critic."""
    embed: int | None = None
    """Numbers that a separable or cosine critic meets in."""
    base: str = "gaussian"
    """What the critic starts from: the critic of a Gaussian copula, or none."""
    batch_size: int = 256
    """Rows a step, and so candidates of a row in training."""
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

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        counts = (self.max_steps, self.check_every, self.patience)
        if self.batch_size < 4 or min(counts) < 1:
            raise SettingError(
                "Training needs batch_size >= 4, and max_steps, check_every and "
                f"patience >= 1, got {self.batch_size}, {', '.join(map(str, counts))}."
            )
        if not self.lr > 0 or self.weight_decay < 0 or self.penalty_weight < 0:
            raise SettingError("lr must be above 0, and weights not below.")
        if self.max_candidates < 16:
            raise SettingError("max_candidates must be at least 16.")
        if self.base not in ("gaussian", "none"):
            raise SettingError(f"base is 'gaussian' or 'none', got {self.base!r}.")
        if self.margins not in ("normal", "standard", "raw"):
            raise SettingError(
                f"margins are 'normal', 'standard' or 'raw', got {self.margins!r}."
            )
