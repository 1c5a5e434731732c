"""One way to train: split the rows, and fit a model with early stopping."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import DataError
from ._estimate import Checkpoint
from ._models import Model
from ._normal_scores import fit_normal_scores
from ._request import Request

VALIDATION, TEST = 0.1, 0.3
LEAST_ROWS = 100
MOST_VALIDATION = 2048
MOST_VALUES = 1024
LONGEST_GRADIENT = 10.0


@dataclass(frozen=True)
class Parts:
    """Rows to train on, to stop by, and to be read on."""

    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


def split_rows(name: str, request: Request, *, y_as_labels: bool = False) -> Parts:
    """Shuffled parts with mapped columns; few values become one column each.

    The maps are increasing in every column and learned from training rows only, so the
    information is the same before and after, and the test rows stay unseen.
    """
    samples, options = request.samples, request.training
    n = len(samples)
    if n < LEAST_ROWS:
        raise DataError(
            f"{name} trains a network and needs at least {LEAST_ROWS} rows (to learn "
            f"from, to stop by, to be read on), got {n}: use estimator='gaussian' or "
            "'ksg'."
        )
    order = torch.randperm(n, generator=request.generator())
    n_test = min(int(TEST * n), options.max_candidates)
    n_validation = min(int(VALIDATION * n), MOST_VALIDATION, options.max_candidates)
    test, validation, train = order.split(
        [n_test, n_validation, n - n_test - n_validation]
    )
    x, y = (
        _map_columns(z, label, train, options.margins)
        for z, label in ((samples.x, samples.x_label), (samples.y, samples.y_label))
    )
    if y_as_labels and samples.y_label is not None:
        y = samples.y_label[:, None].float()
    x, y = x.to(request.device), y.to(request.device)
    return Parts(*((x[rows], y[rows]) for rows in (train, validation, test)))


def _map_columns(
    z: Tensor, label: Tensor | None, train: Tensor, margins: str
) -> Tensor:
    if label is not None and int(label.max()) < MOST_VALUES:
        return torch.nn.functional.one_hot(label).float()
    if margins == "raw":
        return z.float()
    mean, spread = z[train].mean(0), z[train].std(0)
    z = (z - mean) / torch.where(spread > 0, spread, 1.0)
    return fit_normal_scores(z[train])(z).float() if margins == "normal" else z.float()


def fit(
    model: Model,
    parts: Parts,
    request: Request,
    *,
    ceiling: Callable[[int], float] | None = None,
) -> tuple[Checkpoint, ...]:
    """Train ``model`` and leave it at its best validation value.

    The untrained model counts as the first look, so that training never makes a good
    start worse. Steps whose gradient is not finite are left out. Returns the looks.
    """
    options, generator = request.training, request.generator()
    model.to(request.device)
    x, y = parts.train
    size = min(options.batch_size, len(x))
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        learned, lr=options.lr, weight_decay=options.weight_decay
    )
    top = ceiling(len(parts.validation[0])) if ceiling else None
    history: list[Checkpoint] = []
    best, waited, step = -math.inf, 0, 0
    best_state = copy.deepcopy(model.state_dict())

    def look(train: float) -> bool:
        nonlocal best, best_state, waited
        model.eval()
        with torch.no_grad():
            score = model.criterion(*parts.validation).item()
            value = model.value(*parts.validation).item()
        model.train()
        history.append(Checkpoint(step, train, value, top))
        if request.progress:
            request.progress(history[-1])
        if score > best:
            best, waited = score, 0
            best_state = copy.deepcopy(model.state_dict())
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
        optimizer.zero_grad(set_to_none=True)
        loss = model.loss(x[rows], y[rows])
        loss.backward()
        length = torch.nn.utils.clip_grad_norm_(learned, LONGEST_GRADIENT)
        if torch.isfinite(length):
            optimizer.step()
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
    return tuple(history)
