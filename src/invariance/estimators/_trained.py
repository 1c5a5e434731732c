"""Estimates by training: a critic with its bound, or Barber-Agakov's density."""

from dataclasses import replace

import torch
from torch import Tensor

from ._bounds import BOUNDS, Bound
from ._estimate import Checkpoint, Estimate, near_ceiling
from ._fit import Parts, fit
from ._held_out import held_out
from ._models import CriticModel, Model, density_model
from ._request import Request
from ._samples import Samples
from ._split import split

Z95 = 1.96


def train_bound(name: str, request: Request) -> Estimate:
    """Train a critic with the bound of that name and read it on held-out rows."""
    bound = BOUNDS[name]
    parts, model, steps, history = trained_critic(name, request)
    estimate = read(name, model, parts, request, bound=bound)
    return replace(estimate, steps=steps, history=history, critic=request.critic)


def trained_critic(
    name: str, request: Request
) -> tuple[Parts, CriticModel, int, tuple[Checkpoint, ...]]:
    """The parts of the data, the trained model, its steps and its history."""
    bound, options = BOUNDS[name], request.training
    parts = split(request.samples, options, request.generator(), name)
    parts = parts.to(request.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        model = CriticModel(bound, request.critic, *parts.train, options)
        steps, history = fit(
            model.to(request.device),
            parts,
            options,
            generator=request.generator(),
            ceiling=bound.ceiling,
            progress=request.progress,
        )
    return parts, model, steps, history


def barber_agakov_estimate(request: Request) -> Estimate:
    """Train q(y|x), or q(x|y) where only x holds labels, and read it held out."""
    samples = request.samples
    turned = samples.y_label is None and samples.x_label is not None
    if turned:  # information is symmetric, and labels are the easier to predict
        samples = Samples(
            samples.y, samples.x, samples.y_label, samples.x_label, samples.notes
        )
    options, labels = request.training, samples.y_label
    parts = split(
        samples, options, request.generator(), "barber_agakov", y_as_labels=True
    ).to(request.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        model = density_model(*parts.train, labels)
        steps, history = fit(
            model.to(request.device),
            parts,
            options,
            generator=request.generator(),
            progress=request.progress,
        )
    estimate = read("barber_agakov", model, parts, request, bound=None)
    top = model.entropy if labels is not None else None
    how = (
        "labels predicted by a classifier; their entropy is estimated from all rows"
        if labels is not None
        else "H(Y) is a Gaussian model's, so the value is a difference of two models"
    )
    return replace(
        estimate,
        lower_bound=labels is not None,
        ceiling=top,
        # all that the labels hold is no limit of the estimator
        saturated=False,
        steps=steps,
        history=history,
        notes=(*estimate.notes, how, *(["x was predicted from y"] if turned else [])),
    )


def read(
    name: str, model: Model, parts: Parts, request: Request, *, bound: Bound | None
) -> Estimate:
    """The value on the test rows, and on as many training rows."""
    nats, error = held_out(model, *parts.test)
    n = len(parts.test[0])
    with torch.no_grad():
        seen: tuple[Tensor, Tensor] = (parts.train[0][:n], parts.train[1][:n])
        in_sample = model.value(*seen).item()
    ceiling = bound.ceiling(n) if bound and bound.ceiling else None
    return Estimate(
        estimator=name,
        nats=nats,
        std_error=error,
        interval=(nats - Z95 * error, nats + Z95 * error),
        lower_bound=bound is not None and bound.lower_bound,
        ceiling=ceiling,
        saturated=near_ceiling(nats, ceiling),
        samples=len(request.samples),
        evaluated_on=n,
        in_sample=in_sample,
        notes=request.samples.notes,
    )
