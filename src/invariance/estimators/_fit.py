"""One way to train: split the rows, and fit a model with early stopping."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..checked_rows import may_look
from ..errors import DataError
from ._estimate import Checkpoint
from ._models import Model
from ._normal_scores import fit_normal_scores
from ._request import Request
from ._samples import Rows

Map = Callable[[Tensor, Tensor | None], Tensor]
# m rows can show log m nats, up to an error of 1/sqrt(m): what is read gets most
VALIDATION, TEST = 0.1, 0.3
FEW_TO_STOP_BY = 50
"""Rows of validation below which it gets a fifth of all: they show at most 3.9 nats."""
BEYOND = 1.0
"""How far beyond the training rows a normal score may lie. The largest of ten times as
many normal numbers lies 0.6 to 0.7 further out."""
LEAST_ROWS = 100  # of which 30 are read, and show at most log 30 = 3.4 nats
MOST_VALIDATION = 2048  # all pairs of them cost as much as 64 steps of 256 rows
MOST_VALUES = 1024  # that get a column each; more are taken for numbers
LONGEST_GRADIENT = 10.0
"""Gradients of bounded losses measured 0.02 to 5; NWJ's e^g reached 86 at 4 nats."""


@dataclass(frozen=True)
class Parts:
    """Rows to train on, to stop by, and to be read on."""

    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    map_rows: Callable[[Rows, Rows], tuple[Tensor, Tensor]]
    """Brings new rows of x and y into the same form, on the same device."""
    y_repeats: bool = False
    """Whether y has few values, so that strangers may share one."""


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
    n_validation = max(int(VALIDATION * n), min(n // 5, FEW_TO_STOP_BY))
    n_validation = min(n_validation, MOST_VALIDATION, options.max_candidates)
    test, validation, train = order.split(
        [n_test, n_validation, n - n_test - n_validation]
    )
    map_x = _fit_map(samples.x[train], samples.x_label, options.margins)
    map_y = _fit_map(samples.y[train], samples.y_label, options.margins)
    if y_as_labels and samples.y_label is not None:
        map_y = _as_column

    def map_rows(x: Rows, y: Rows) -> tuple[Tensor, Tensor]:
        mapped = map_x(*samples.x_columns.read(x)), map_y(*samples.y_columns.read(y))
        return mapped[0].to(request.device), mapped[1].to(request.device)

    x = map_x(samples.x, samples.x_label).to(request.device)
    y = map_y(samples.y, samples.y_label).to(request.device)
    return Parts(
        (x[train], y[train]),
        (x[validation], y[validation]),
        (x[test], y[test]),
        map_rows,
        y_repeats=samples.y_label is not None,
    )


def _fit_map(z: Tensor, label: Tensor | None, margins: str) -> Map:
    """What is done to rows and their labels, learned from training rows ``z``."""
    if label is not None and (values := int(label.max()) + 1) <= MOST_VALUES:
        return lambda _, label: _one_hot(label, values)
    if margins == "raw":
        return lambda z, _: z.float()
    mean, spread = z.mean(0), z.std(0)
    spread = torch.where(spread > 0, spread, 1.0)
    if margins == "standard":
        return lambda z, _: ((z - mean) / spread).float()
    scores = fit_normal_scores((z - mean) / spread)
    most = scores((z - mean) / spread).abs().amax(0) + BEYOND
    # beyond the training rows the map goes on with a slope that few rows settle badly
    return lambda z, _: scores((z - mean) / spread).clamp(-most, most).float()


def _one_hot(label: Tensor | None, values: int) -> Tensor:
    assert label is not None
    return torch.nn.functional.one_hot(label, values).float()


def _as_column(_: Tensor, label: Tensor | None) -> Tensor:
    assert label is not None
    return label[:, None].float()


def fit(
    model: Model,
    parts: Parts,
    request: Request,
    *,
    ceiling: Callable[[int], float | None] | None = None,
) -> tuple[Checkpoint, ...]:
    """Train ``model`` and leave it at its best validation value.

    The untrained model counts as the first look, so that training never makes a good
    start worse. Steps whose gradient is not finite are left out; a GPU, which is not
    waited for, takes their gradient for zero. Returns the looks.
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
            model.calibrate(*parts.validation)
            score = model.criterion(*parts.validation).item()
            value = model.value(*parts.validation).item()
        model.train()
        history.append(Checkpoint(step, train, value, top))
        if request.progress:
            request.progress(history[-1])
        if score > best:
            best, waited = score, 0
            best_state = copy.deepcopy(model.state_dict())
        elif step % options.check_every == 0:
            waited += 1
        return waited >= options.patience

    look(math.nan)
    # few rows are learned by heart before the first regular look
    early = {options.check_every // part for part in (16, 8, 4, 2)} - {0}
    early.add(options.max_steps)
    recent: list[Tensor] = []
    order, at = torch.empty(0, dtype=torch.long), 0
    while step < options.max_steps:
        if at + size > len(order):
            order, at = torch.randperm(len(x), generator=generator).to(x.device), 0
        rows = order[at : at + size]
        at += size
        step += 1
        optimizer.zero_grad(set_to_none=True)
        loss = model.loss(x[rows], y[rows])
        loss.backward()
        length = torch.nn.utils.clip_grad_norm_(learned, LONGEST_GRADIENT)
        if take_finite(learned, length):
            optimizer.step()
        if -step % options.check_every <= 3 or step in early:
            with torch.no_grad():  # what the curve shows for training rows
                recent.append(model.value(x[rows], y[rows]))
        if step % options.check_every == 0 or step in early:
            seen = [r for r in torch.stack(recent).tolist() if math.isfinite(r)]
            stop = look(sum(seen) / len(seen) if seen else math.nan)
            recent = []
            if stop:
                break
    model.load_state_dict(best_state)
    model.eval()
    return tuple(history)


def take_finite(weights: list[nn.Parameter], length: Tensor) -> bool:
    """Whether to step, by the gradient's length; where looking waits, zeros serve."""
    if may_look(length):
        return bool(length.isfinite())
    for weight in weights:
        if weight.grad is not None:
            weight.grad.masked_fill_(~length.isfinite(), 0.0)
    return True
