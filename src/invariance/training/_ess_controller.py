r"""The temperature follows a target effective sample size of the negatives.

$$\mathrm{ESS}_i = \frac{1}{n_-\sum_j w_{ij}^2},\qquad
w_{ij} = \mathrm{softmax}_{j\ne i}(\beta\,s_{ij})$$

ESS falls as the inverse temperature $\beta$ rises, so: above the target $\beta$ grows
by (1 + rate), otherwise it shrinks by (1 - rate). The paper prints the comparison the
other way round (Algorithm S2), which runs away to $\beta = 0$; a test shows both.
"""

from typing import Any

from torch import Tensor

from ..diagnostics import effective_sample_size
from ..errors import SettingError
from ..objectives import Objective
from ._settings import Ess

LOWEST, HIGHEST = 0.005, 10.0  # temperatures beyond which no objective learns


class EssController:
    """Moves an objective's temperature after every step.

    >>> import torch
    >>> from invariance.objectives import NTXent
    >>> objective = NTXent(temperature=1.0)
    >>> u, v = torch.randn(2, 64, 32, generator=torch.Generator().manual_seed(0))
    >>> controller = EssController(objective, Ess(target=0.3))
    >>> for _ in range(400):
    ...     ess = controller.update(u, v, progress=0.0)
    >>> abs(ess - 0.3) < 0.02, objective.temperature < 1
    (True, True)
    """

    def __init__(self, objective: Objective, ess: Ess) -> None:
        if not objective.temperature_may_move:
            raise SettingError(
                "An ESS target needs a softmax over negatives with a temperature that "
                f"may move, and {type(objective).__name__} has none: leave ess.target "
                "unset, or choose simclr, dcl, flatclr, dhel or another softmax method."
            )
        for name, value in (("ess.target", ess.target), ("ess.end", ess.end)):
            if value is not None and not 0 < value < 1:
                raise SettingError(f"{name} lies between 0 and 1: got {value}.")
        if not 0 < ess.rate < 1:
            raise SettingError(f"ess.rate lies between 0 and 1: got {ess.rate}.")
        self.objective: Any = objective
        self.ess = ess

    def target(self, progress: float) -> float:
        """The ESS asked for when this share of training is done."""
        start = self.ess.target
        assert start is not None
        end = start if self.ess.end is None else self.ess.end
        return start + (end - start) * progress

    def update(self, u: Tensor, v: Tensor, progress: float) -> float:
        """Read the ESS of a batch, move the temperature, return the reading."""
        now = self.objective.temperature
        ess = effective_sample_size(u, v, temperature=now)
        towards = 1 + self.ess.rate * (1 if ess > self.target(progress) else -1)
        self.objective.temperature = min(max(now / towards, LOWEST), HIGHEST)
        return ess

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint must keep."""
        return {"temperature": float(self.objective.temperature)}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on from a checkpoint."""
        self.objective.temperature = state["temperature"]
