"""Estimates by training: a critic with its bound, or Barber and Agakov's density."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import DataError, SettingError
from ..thresholds import is_saturated
from ._bounds import BOUNDS
from ._estimate import Checkpoint, Estimate, make_estimate
from ._fit import Parts, fit, split_rows
from ._models import Classifier, CriticModel, Model, Regressor
from ._request import Request
from ._samples import Rows
from ._score_bounds import log_mean

MOST_REFERENCES = 2048


class TrainedCritic:
    """The critic of an estimate, to score any rows of the same two variables.

    Rows come as they were given to ``estimate_mi``; columns are mapped as they were
    for training.
    """

    def __init__(self, name: str, model: CriticModel, parts: Parts) -> None:
        self.name = name
        self._model, self._parts = model, parts
        self._held_out = tuple(z[:MOST_REFERENCES] for z in parts.test)

    @torch.no_grad()
    def __call__(self, x: Rows, y: Rows) -> Float[Tensor, "n m"]:
        """The scores of every row of x with every row of y.

        >>> import torch
        >>> from invariance.estimators import correlated_gaussian, estimate_mi
        >>> dice = torch.Generator().manual_seed(0)
        >>> x, y = correlated_gaussian(2, nats=1.0).sample(400, generator=dice)
        >>> e = estimate_mi(x, y, estimator="jsd", max_steps=10)
        >>> e.trained_critic(x[:5], y[:3]).shape
        torch.Size([5, 3])
        """
        return self._score(*self._parts.map_rows(x, y)).cpu()

    @torch.no_grad()
    def pointwise(self, x: Rows, y: Rows) -> Float[Tensor, " n"]:
        """See ``Estimate.pointwise``."""
        kind = self._model.bound.log_ratio
        if kind == "none":
            raise SettingError(
                f"The critic of {self.name} is not a log ratio, so it gives no "
                "pointwise information: estimate with "
                f"{', '.join(_name_log_ratios())}."
            )
        a, b = self._parts.map_rows(x, y)
        if len(a) != len(b):
            raise DataError(
                f"Pointwise information needs pairs: got {len(a)} rows of x and "
                f"{len(b)} of y."
            )
        scores = self._model.score_pairs(a, b)
        if kind == "constant":
            scores = scores - log_mean(self._score(*self._held_out))
        elif kind == "row":
            scores = scores - self._find_row_level(a, b)
        return scores.cpu()

    def _score(self, x: Tensor, y: Tensor) -> Tensor:
        return self._model.scale * self._model.critic(x, y)

    def _find_row_level(self, x: Tensor, y: Tensor) -> Tensor:
        """Log of the mean of e^g over held-out rows of y that are strangers of x."""
        _, others = self._held_out
        scores = self._score(x, others)
        # a pair may be among the held-out ones, and its y is then no stranger; labels
        # repeat, and a row with the same label is one
        if not self._parts.y_repeats:
            same = torch.stack([(others == row).all(1) for row in y])
            scores = scores.masked_fill(same, -math.inf)
        return scores.logsumexp(1) - scores.isfinite().sum(1).log()


def _name_log_ratios() -> list[str]:
    return [name for name, bound in BOUNDS.items() if bound.log_ratio == "itself"]


def bound_estimate(name: str, request: Request) -> Estimate:
    """Train a critic with the bound of that name and read it on held-out rows."""
    estimate, model, parts = train_critic(name, request)
    return replace(estimate, trained_critic=TrainedCritic(name, model, parts))


def train_critic(name: str, request: Request) -> tuple[Estimate, CriticModel, Parts]:
    """The same, with the trained model and the parts of the data."""
    options = request.training
    bound = BOUNDS[name]
    given = {key: getattr(options, key) for key in bound.settings}
    bound = bound.set(**{key: v for key, v in given.items() if v is not None})
    parts = split_rows(name, request)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        model = CriticModel(bound, request.critic, *parts.train, options)
        model.weigh_base(*parts.validation)
        history = fit(model, parts, request, ceiling=bound.most)
    estimate = _read(name, model, parts, request, history)
    ceiling = bound.most(estimate.evaluated_on)
    estimate = replace(
        estimate,
        lower_bound=bound.lower_bound,
        ceiling=ceiling,
        saturated=is_saturated(estimate.nats, ceiling),
        critic=request.critic,
    )
    return estimate, model, parts


def barber_agakov_estimate(request: Request) -> Estimate:
    """Train q(y|x), or q(x|y) where only x holds labels, and read it held out."""
    s = request.samples
    turned = s.y_label is None and s.x_label is not None
    if turned:  # information is symmetric, and labels are the easier to predict
        s = s.turn()
    name, labels = "barber_agakov", s.y_label
    parts = split_rows(name, replace(request, samples=s), y_as_labels=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        x, y = parts.train
        model = Regressor(x, y) if labels is None else Classifier(x.shape[1], labels)
        history = fit(model, parts, request)
    estimate = _read(name, model, parts, request, history)
    how = (
        "H(Y) is a Gaussian model's, so the value is a difference of two models"
        if labels is None
        else "labels predicted by a classifier; their entropy is that of all rows"
    )
    return replace(
        estimate,
        lower_bound=labels is not None,
        # never saturated: all that the labels hold is no limit of the estimator
        ceiling=None if labels is None else model.entropy,
        notes=(*estimate.notes, how, *(["x was predicted from y"] if turned else [])),
    )


def _read(
    name: str,
    model: Model,
    parts: Parts,
    request: Request,
    history: tuple[Checkpoint, ...],
) -> Estimate:
    """The value on the test rows, and on as many training rows; it claims nothing."""
    nats, error = model.measure(*parts.test)
    n = len(parts.test[0])
    with torch.no_grad():
        in_sample = model.value(parts.train[0][:n], parts.train[1][:n]).item()
    return make_estimate(
        name,
        nats,
        error,
        samples=len(request.samples),
        evaluated_on=n,
        steps=history[-1].step,
        in_sample=in_sample,
        notes=request.samples.notes,
        history=history,
    )
