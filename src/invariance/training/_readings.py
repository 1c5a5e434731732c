"""What is read off a batch while training, and what is said about it in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..diagnostics import (
    alignment,
    collapse,
    contrastive_accuracy,
    effective_rank,
    effective_sample_size,
    mutual_information_bound,
    uniformity,
)
from ..methods import Step

UNTEMPERED = 0.1  # temperature of the readings for objectives that have none


def read(step: Step, objective: Any) -> dict[str, float]:
    """Loss, information, spread and rank of one batch's projections.

    Where a loss is constant, as FlatNCE's is, the InfoNCE it stands for is given.
    """
    u, v = step.u.float(), step.v.float()
    temperature = float(getattr(objective, "temperature", UNTEMPERED))
    bound = mutual_information_bound(u, v, temperature=temperature)
    info_nce = bound.ceiling - bound.nats
    loss = info_nce if objective.value_is_constant else float(step.loss.detach())
    return {
        "loss": loss,
        "info_nce": info_nce,
        "mi_nats": bound.nats,
        "mi_ceiling": bound.ceiling,
        "accuracy": contrastive_accuracy(u, v),
        "ess": effective_sample_size(u, v, temperature=temperature),
        "alignment": alignment(u, v),
        "uniformity": uniformity(u),
        "effective_rank": effective_rank(u),
        "spread": collapse(u).ratio,
        "temperature": temperature,
        **{f"loss/{name}": float(part) for name, part in step.parts.items()},
        **{name: float(value) for name, value in step.readings.items()},
    }


@dataclass
class Health:
    """Says each thing once, when it is first seen."""

    said: set[str] = field(default_factory=set)

    def remarks(self, record: Mapping[str, Any], *, first: bool) -> list[str]:
        """Sentences about a reading; empty when all is well.

        >>> sick = {"spread": 0.01, "effective_rank": 1.2, "mi_nats": 0.0,
        ...         "mi_ceiling": 5.5, "accuracy": 0.0}
        >>> health = Health()
        >>> print(*health.remarks(sick, first=False))
        Collapse: all projections are nearly the same (spread 0.01 of a healthy 1, \
effective rank 1.2). Try a lower learning rate, a higher temperature, or a method with \
negatives.
        >>> health.remarks(sick, first=False)
        []
        """
        if first:
            return []
        found = {}
        if record["spread"] < 0.1 or record["effective_rank"] < 1.5:
            found["collapse"] = (
                "Collapse: all projections are nearly the same (spread "
                f"{record['spread']:.2f} of a healthy 1, effective rank "
                f"{record['effective_rank']:.1f}). Try a lower learning rate, a higher "
                "temperature, or a method with negatives."
            )
        elif record["mi_ceiling"] - record["mi_nats"] < 0.2:
            found["saturated"] = (
                f"Saturated: the information bound ({record['mi_nats']:.2f} nats) is "
                f"at its ceiling log n = {record['mi_ceiling']:.2f}; it cannot show "
                "more with this batch. Stronger views or a larger batch leave more "
                "to learn."
            )
        fresh = [text for name, text in found.items() if name not in self.said]
        self.said |= set(found)
        return fresh

    def state_dict(self) -> list[str]:
        """What a checkpoint must keep."""
        return sorted(self.said)
