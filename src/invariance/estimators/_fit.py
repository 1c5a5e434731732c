"""The one training loop of all critics: steps, looks at validation rows, early stop."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ._estimate import Checkpoint
from ._models import Model
from ._options import Training

Progress = Callable[[Checkpoint], None]
LONGEST_GRADIENT = 10.0


@dataclass(frozen=True)
class Parts:
    """Rows to train on, to stop by, and to be believed on."""

    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    def to(self, device: str) -> "Parts":
        """The same rows elsewhere."""
        return Parts(
            *(
                (x.to(device), y.to(device))
                for x, y in (self.train, self.validation, self.test)
            )
        )


def fit(
    model: Model,
    parts: Parts,
    options: Training,
    *,
    generator: torch.Generator,
    ceiling: Callable[[int], float] | None = None,
    progress: Progress | None = None,
) -> tuple[int, tuple[Checkpoint, ...]]:
    """Train ``model`` and leave it at its best validation value.

    The untrained model counts as the first look, so that training never makes a good
    start worse. Steps whose gradient is not finite are left out.
    """
    x, y = parts.train
    size = min(options.batch_size, len(x))
    learned = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(
        learned, lr=options.lr, weight_decay=options.weight_decay
    )
    top = ceiling(len(parts.validation[0])) if ceiling else None
    history: list[Checkpoint] = []
    best, best_state, waited, step = -math.inf, _state(model), 0, 0

    def look(train: float) -> bool:
        nonlocal best, best_state, waited
        model.eval()
        with torch.no_grad():
            score = model.criterion(*parts.validation).item()
            value = model.value(*parts.validation).item()
        model.train()
        history.append(Checkpoint(step, train, value, top))
        if progress:
            progress(history[-1])
        if score > best:
            best, best_state, waited = score, _state(model), 0
        else:
            waited += 1
        return waited >= options.patience

    look(math.nan)
    recent: list[float] = []
    order, at = torch.empty(0, dtype=torch.long), 0
    while step < options.max_steps:
        if at + size > len(order):
            order, at = torch.randperm(len(x), generator=generator), 0
        rows = order[at : at + size].to(x.device)
        at += size
        step += 1
        optimiser.zero_grad(set_to_none=True)
        loss = model.loss(x[rows], y[rows])
        loss.backward()
        length = torch.nn.utils.clip_grad_norm_(learned, LONGEST_GRADIENT)
        if torch.isfinite(length):
            optimiser.step()
        if -step % options.check_every <= 3:  # the last steps before a look
            with torch.no_grad():  # what the curve shows for training rows
                recent.append(model.value(x[rows], y[rows]).item())
        if step % options.check_every == 0 or step == options.max_steps:
            seen = [r for r in recent if math.isfinite(r)]
            stop = look(sum(seen) / len(seen) if seen else math.nan)
            recent = []
            if stop:
                break
    model.load_state_dict(best_state)
    model.eval()
    return step, tuple(history)


def _state(model: Model) -> dict[str, Tensor]:
    return copy.deepcopy(model.state_dict())
