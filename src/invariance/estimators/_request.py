"""What is asked of an estimator."""

from dataclasses import dataclass, field

import torch

from ._fit import Progress
from ._options import Training
from ._samples import Samples


@dataclass(frozen=True)
class Request:
    """Checked samples, and how to treat them."""

    samples: Samples
    critic: str = "separable"
    training: Training = field(default_factory=Training)
    seed: int = 0
    device: str = "cpu"
    progress: Progress | None = None

    def generator(self) -> torch.Generator:
        """A generator that always starts at the seed."""
        return torch.Generator().manual_seed(self.seed)
