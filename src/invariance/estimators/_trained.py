"""Estimates by training: a critic with its bound, or Barber and Agakov's density."""

from dataclasses import replace

import torch

from ..thresholds import is_saturated
from ._bounds import BOUNDS
from ._estimate import Checkpoint, Estimate, unclaimed
from ._fit import Parts, fit, split_rows
from ._models import Classifier, CriticModel, Model, Regressor
from ._request import Request
from ._samples import Samples


def bound_estimate(name: str, request: Request) -> Estimate:
    """Train a critic with the bound of that name and read it on held-out rows."""
    return train_critic(name, request)[0]


def train_critic(name: str, request: Request) -> tuple[Estimate, CriticModel, Parts]:
    """The same, with the trained model and the parts of the data."""
    bound = BOUNDS[name]
    parts = split_rows(name, request)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        model = CriticModel(bound, request.critic, *parts.train, request.training)
        history = fit(model, parts, request, ceiling=bound.ceiling)
    estimate = _read(name, model, parts, request, history)
    ceiling = bound.ceiling(estimate.evaluated_on) if bound.ceiling else None
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
        s = Samples(s.y, s.x, s.y_label, s.x_label, s.notes)
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
    return unclaimed(
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
