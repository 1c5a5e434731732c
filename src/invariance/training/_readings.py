"""What is read off a batch while training, and what is said about it in words."""

import contextlib
import copy
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..diagnostics import (
    alignment,
    collapse,
    contrastive_accuracy,
    effective_rank,
    mutual_information_bound,
    reachable_information,
    uniformity,
)
from ..errors import TrainingError
from ..folder import Finding, find_collapse, find_saturation
from ..methods import Step
from ..objectives import ALONE

UNTEMPERED = 0.1  # temperature of the readings for objectives that have none


class Glimpse:
    """A step as its reading needs it, which can be taken later.

    With a CUDA stream beside that of the steps, it copies what the next step writes
    over, and numbers are computed and waited for on that stream: the next steps run
    meanwhile.
    """

    def __init__(
        self, step: Step, objective: Any, beside: torch.cuda.Stream | None = None
    ) -> None:
        self.step, self.objective, self.beside = step, objective, beside
        self.temperature = getattr(objective, "temperature", UNTEMPERED)
        if beside is not None:
            self.step = step._replace(
                loss=step.loss.detach().clone(),
                u=step.u.clone(),
                v=step.v.clone(),
                parts={name: part.clone() for name, part in step.parts.items()},
                readings={name: x.clone() for name, x in step.readings.items()},
                contrasts=(),
                hits=None,
            )
            self.temperature = copy.deepcopy(self.temperature)  # it may move
            beside.wait_stream(torch.cuda.current_stream())

    def read(self) -> dict[str, float]:
        """The reading, or the loss alone if that is not finite."""
        own_stream = contextlib.nullcontext()
        with torch.cuda.stream(self.beside) if self.beside else own_stream:
            loss = float(self.step.loss.detach())
            if not math.isfinite(loss):
                return {"loss": loss}
            return read(self.step, self.objective, float(self.temperature))


def read(step: Step, objective: Any, temperature: float) -> dict[str, float]:
    """Loss, information, spread and rank of one batch's projections.

    The information is InfoNCE's bound among the rows of the other view or, where a
    queue or a whole bank are the negatives, among those; at the objective's temperature
    (``UNTEMPERED`` if it has none). Read from rows that are trained on, it certifies
    nothing. Where a loss is constant, as FlatNCE's is, InfoNCE is given instead.
    """
    u, v = step.u.float(), step.v.float()
    numbers = read_step(step)
    if "mi_ceiling" not in numbers:
        bound = mutual_information_bound(u, v, temperature=temperature)
        numbers |= {"mi_nats": bound.nats, "mi_ceiling": bound.ceiling}
        numbers["info_nce"] = bound.ceiling - bound.nats
    n_candidates = math.exp(numbers["mi_ceiling"])
    constant = objective.value_is_constant
    return {
        "loss": numbers["info_nce"] if constant else float(step.loss.detach()),
        "mi_reachable": reachable_information(n_candidates, temperature),
        "accuracy": contrastive_accuracy(u, v),
        "accuracy_chance": 1 / len(u),
        "alignment": alignment(u, v),
        "uniformity": uniformity(u),
        "effective_rank": effective_rank(u),
        "spread": collapse(u).ratio,
        "temperature": temperature,
        **{f"loss/{name}": float(part) for name, part in step.parts.items()},
        **numbers,
    }


def read_step(step: Step) -> dict[str, float]:
    """What the learner itself says of the step: ESS, and what its memory reports.

    There is no ESS where no anchor had a negative; that is said.
    """
    numbers = {name: float(value) for name, value in step.readings.items()}
    alone = [name for name in step.shares if math.isnan(numbers.get(name, 0.0))]
    if alone:
        warnings.warn(ALONE, stacklevel=2)
    return {name: x for name, x in numbers.items() if name not in alone}


def temperature_of(objective: Any) -> float:
    """That of the objective; a common one for objectives that have none."""
    return float(getattr(objective, "temperature", UNTEMPERED))


def check_finite(loss: float, step: int) -> None:
    """Stop before a NaN reaches a checkpoint."""
    if not math.isfinite(loss):
        raise diverged(step, f"the loss is {loss}.")


def diverged(step: int, what: str) -> TrainingError:
    """The sentence for a run that has blown up."""
    return TrainingError(
        f"Training diverged at step {step}: {what} The last good state is kept. "
        "Try a lower learning rate (--optim.lr), --optim.clip-norm 1, a longer warm-up "
        "or --machine.precision 32."
    )


@dataclass
class Health:
    """Finds what is wrong with a reading, each kind of thing once."""

    known: set[str] = field(default_factory=set)

    def examine(self, reading: Mapping[str, Any], *, first: bool) -> list[Finding]:
        """What is new to say about a reading; nothing in the first epoch.

        >>> sick = {"spread": 0.01, "effective_rank": 1.2}
        >>> health = Health()
        >>> [finding.title for finding in health.examine(sick, first=False)]
        ['Collapsed']
        >>> health.examine(sick, first=False)
        []
        """
        if first:
            return []
        finding = find_collapse(reading) or find_saturation(reading)
        if finding is None or finding.kind in self.known:
            return []
        self.known.add(finding.kind)
        return [finding]

    def state_dict(self) -> list[str]:
        """What a checkpoint must keep."""
        return sorted(self.known)

    def load_state_dict(self, kinds: list[str]) -> None:
        """Go on from a checkpoint; older ones called a collapse by its noun."""
        self.known |= {"collapsed" if kind == "collapse" else kind for kind in kinds}
