r"""The temperature follows a target effective sample size of the negatives.

$$\mathrm{ESS}_i = \frac{1}{n_-\sum_j w_{ij}^2},\qquad
w_{ij} = \mathrm{softmax}_{j\ne i}(\beta\,s_{ij})$$

over the negatives that the loss has, from the batch or from a memory. ESS falls as the
inverse temperature $\beta$ rises, so: above the target $\beta$ grows by (1 + rate),
otherwise it shrinks by (1 - rate). The paper prints the comparison the other way round
(Algorithm S2), which runs away to $\beta = 0$; a test shows both.
"""

import math
from typing import Any

import torch
from torch import Tensor

from ..errors import SettingError
from ..objectives import Objective
from ..partition import from_first_process
from ._settings import Ess

LOWEST, HIGHEST = 0.005, 10.0  # temperatures beyond which no objective learns


class EssController:
    """Moves an objective's temperature after every step.

    No device waits for it. Where a step stays on its device (``move_to``), so does the
    temperature. Elsewhere a controller of an accelerator acts one step later, on the
    reading that has arrived by then. A reading that is not finite (no anchor had a
    negative) moves nothing.

    >>> from invariance.objectives import NTXent
    >>> objective = NTXent(temperature=1.0)
    >>> u, v = torch.randn(2, 64, 32, generator=torch.Generator().manual_seed(0))
    >>> controller = EssController(objective, Ess(target=0.3))
    >>> for _ in range(400):
    ...     ess = objective.shares(u, v).mean()
    ...     controller.update(ess, progress=0.0)
    >>> bool(abs(ess - 0.3) < 0.02), objective.temperature < 1
    (True, True)
    """

    def __init__(
        self, objective: Objective, ess: Ess, *, n_negatives: int | None = None
    ) -> None:
        if not objective.temperature_may_move:
            raise SettingError(
                "An ESS target needs a softmax over negatives with a temperature that "
                f"may move, and {type(objective).__name__} has none: leave ess.target "
                "unset, or choose simclr, dcl, flatclr, dhel or another softmax method."
            )
        names = ["ess.schedule"] * len(ess.schedule) or ["ess.target", "ess.end"]
        for name, value in zip(names, ess.targets, strict=False):
            if not 0 < value < 1:
                raise SettingError(f"{name} lies between 0 and 1: got {value}.")
            if n_negatives and value <= 1 / n_negatives:
                raise SettingError(
                    f"At least one of {n_negatives} negatives carries the weight, so "
                    f"no temperature brings the ESS to {name} = {value}: ask for "
                    f"more than {1 / n_negatives:.3g}, or use more negatives."
                )
        if not 0 < ess.rate < 1:
            raise SettingError(f"ess.rate lies between 0 and 1: got {ess.rate}.")
        self.objective: Any = objective
        self.ess = ess
        self.arriving: Arriving | None = None

    def move_to(self, device: torch.device) -> None:
        """Keep the temperature on a device from now on, for steps that stay there."""
        now = float(self.objective.temperature)
        self.objective.temperature = torch.tensor(now, device=device)

    def target(self, progress: Any) -> Any:
        """The ESS asked for when this share of training is done."""
        first, *others = targets = self.ess.targets
        now: Any = first
        for k, (start, end) in enumerate(zip(targets, others, strict=False)):
            way = progress * len(others) - k  # of this stretch, below 0 before it
            way = way.clamp(0, 1) if isinstance(way, Tensor) else min(max(way, 0), 1)
            now = now + (end - start) * way
        return now

    def update(self, ess: Tensor | float, progress: float | Tensor) -> None:
        """Move the temperature by the ESS of a batch, on all processes alike."""
        if isinstance(ess, Tensor):  # rounding may tell them apart
            ess = from_first_process(ess)
        if isinstance(progress, Tensor):
            self.move_there(ess, progress)
            return
        if not isinstance(ess, Tensor) or ess.device.type == "cpu":
            self.move(float(ess), progress)
            return
        before, self.arriving = self.arriving, Arriving(ess)
        if before is not None:
            self.move(float(before), progress)

    def move_there(self, ess: Any, progress: Tensor) -> None:
        """What ``move`` does, without a look at the numbers."""
        temperature = self.objective.temperature
        sign = 2.0 * (ess > self.target(progress)) - 1
        moved = (temperature / (1 + self.ess.rate * sign)).clamp(LOWEST, HIGHEST)
        temperature.copy_(torch.where(ess.isfinite(), moved, temperature))

    def move(self, ess: float, progress: float) -> None:
        """Towards a lower temperature if the ESS is above its target."""
        if math.isfinite(ess):
            towards = 1 + self.ess.rate * (1 if ess > self.target(progress) else -1)
            moved = self.objective.temperature / towards
            self.objective.temperature = min(max(moved, LOWEST), HIGHEST)

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint must keep."""
        state = {"temperature": float(self.objective.temperature)}
        if self.arriving is not None:
            state["arriving"] = float(self.arriving)
        return state

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on from a checkpoint."""
        temperature = self.objective.temperature
        if isinstance(temperature, Tensor):
            temperature.fill_(state["temperature"])
        else:
            self.objective.temperature = state["temperature"]
        self.arriving = None
        if "arriving" in state:
            self.arriving = Arriving(torch.tensor(state["arriving"]))


class Arriving:
    """A number on its way from a device, which goes on working meanwhile."""

    def __init__(self, number: Tensor) -> None:
        self.number = number.detach().to("cpu", non_blocking=number.is_cuda)
        self.here: Any = None
        if number.is_cuda:
            self.here = torch.cuda.Event()
            self.here.record()

    def __float__(self) -> float:
        if self.here is not None:
            self.here.synchronize()  # with that copy, not with what was asked since
        return float(self.number)
