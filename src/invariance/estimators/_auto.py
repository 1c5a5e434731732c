"""``auto``: look at the data, run what suits them, and weigh the answers.

Few values on both sides are counted. Labels on one side are predicted. Else three looks
are taken at columns made normal (which changes no information): a Gaussian copula on
all rows; a critic that starts from that copula's and learns what it misses, read on
rows it has not seen; and, in few columns, nearest neighbours, less their error on a
Gaussian twin of the data. If critic and neighbours find nothing beyond the copula, the
copula's number stands. If they do, the larger of theirs stands: held-out critics and
neighbours err downwards. The interval reaches from the certified bound to beyond the
largest of the estimates, so that it also holds what bias is likely left.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from ..errors import DataError
from ._bounds import BOUNDS
from ._by_columns import by_columns
from ._classical import (
    MANY_COLUMNS,
    answer,
    few_enough,
    gaussian_estimate,
    histogram_estimate,
    margins,
    noise,
    ties,
)
from ._classical_gaussian import canonical_correlations
from ._estimate import Estimate
from ._held_out import held_out
from ._ksg import corrected_ksg, gaussian_twin
from ._models import CriticModel
from ._request import Request
from ._split import LEAST
from ._trained import barber_agakov_estimate, read, trained_critic

FEW_ROWS = 400
CELLS_A_ROW = 1 / 3
Z = 1.96


def auto_estimate(request: Request) -> Estimate:
    """The estimate of whatever suits the samples; ``reason`` says what and why."""
    s = request.samples
    n, columns = len(s), s.x.shape[1] + s.y.shape[1]
    if s.x_label is not None and s.y_label is not None:
        cells = len(torch.unique(torch.stack([s.x_label, s.y_label]), dim=1).T)
        if cells <= CELLS_A_ROW * n or n < LEAST:
            why = f"both variables have few values ({cells} pairs in {n} rows): counted"
            return _picked(histogram_estimate(request), "histogram", why)
    if (s.x_label is not None or s.y_label is not None) and n >= LEAST:
        return _labels(request)
    if n < columns + 3:
        raise DataError(
            f"{n} rows of {columns} columns say nothing about their information: "
            f"bring several times more rows, or fewer columns."
        )
    if n < FEW_ROWS:
        why = (
            f"{n} rows are too few to train or check anything, so a Gaussian copula is "
            "assumed, and dependence of other kinds is not seen"
        )
        estimate = gaussian_estimate(request)
        if n < 5 * columns:
            why += f"; even that is shaky with {columns} columns"
        return _picked(estimate, "gaussian", why)
    return _continuous(request)


def _labels(request: Request) -> Estimate:
    estimate = barber_agakov_estimate(request)
    assert estimate.in_sample is not None
    if not estimate.lower_bound:
        return _picked(estimate, "barber_agakov", "few values")
    top = estimate.ceiling or math.inf
    middle = min((estimate.nats + max(estimate.in_sample, estimate.nats)) / 2, top)
    low = estimate.nats - Z * estimate.std_error
    high = min(max(estimate.in_sample, middle) + Z * estimate.std_error, top)
    learned_nothing = middle + Z * estimate.std_error < 0
    if learned_nothing:
        high = top  # a failed classifier rules nothing out
    middle = max(0.0, middle)  # information is never negative
    why = (
        "one variable has few values, which a classifier predicts from the other; the "
        f"held-out value {estimate.nats:.3f} is a lower bound, the value on training "
        "rows errs upwards, and the number is the middle"
        if not learned_nothing
        else "one variable has few values, but the classifier that predicts them "
        f"learned nothing (held-out value {estimate.nats:.3f}), which does not show "
        "that there is nothing: bring more rows or allow more steps"
    )
    return replace(
        _picked(estimate, "barber_agakov", why),
        nats=middle,
        interval=(max(0.0, low), max(high, middle)),
        lower_bound=False,
    )


def _continuous(request: Request) -> Estimate:
    s = request.samples
    copula = gaussian_estimate(
        replace(request, training=replace(request.training, margins="normal"))
    )
    critic, gain, gain_error = _critic_look(request)
    assert critic.in_sample is not None
    middle = (critic.nats + max(critic.in_sample, critic.nats)) / 2
    looks = {"critic": (middle, critic.std_error)}
    x, y = margins(s, "normal")
    if ties(x) or ties(y):
        x, y = (z + 1e-8 * noise(z, request.generator()) for z in (x, y))
    x, y, _ = few_enough(x, y, request.generator())
    if x.shape[1] + y.shape[1] <= MANY_COLUMNS:
        looks["ksg"] = _neighbours(x, y, request)
    if columns := by_columns(x, y):
        looks["columns"] = columns
    found = [
        f"a Gaussian copula gives {copula.nats:.3f}",
        f"a critic that starts from it gains {gain:+.3f} ± {gain_error:.3f} on unseen "
        f"rows ({critic.nats:.3f} there, {critic.in_sample:.3f} on training rows)",
        *(
            f"{WORDS[k]} {value:.3f}"
            for k, (value, _) in looks.items()
            if k != "critic"
        ),
    ]
    beyond = gain > max(2 * gain_error, 0.01)
    for value, error in (looks[k] for k in ("ksg", "columns") if k in looks):
        clear = 2.5 * math.hypot(error, copula.std_error) + 0.02
        beyond = beyond or value - copula.nats > clear
    if not beyond and not _contradicts(copula, looks):
        pick, value, error = "gaussian", copula.nats, copula.std_error
        found.append("nothing is found beyond the copula, whose number stands")
    else:
        pick = max(looks, key=lambda k: looks[k][0])
        value, error = looks[pick]
        found.append(
            f"there is more than the copula; the larger of the others ({pick}) stands"
        )
    value = max(0.0, value)  # information is never negative
    interval = _interval(pick, value, error, critic, looks)
    if pick == "critic" and "ksg" not in looks:
        # in many columns a critic seldom learns all there is, and nothing checks it:
        # half of what it gained may come on top
        interval = (interval[0], interval[1] + gain / 2)
    # a ceiling that is near hides what a critic would gain
    notes = [f"certified lower bound: {critic.sentence}"]
    if critic.saturated:
        notes.append("near the ceiling of held-out checking: there may be more")
        interval = (interval[0], interval[1] + 0.5)
    return replace(
        answer(f"auto ({pick})", value, error, s, len(s), (*s.notes, *notes)),
        interval=interval,
        steps=critic.steps,
        critic=critic.critic,
        history=critic.history,
        in_sample=critic.in_sample,
        reason="; ".join(found),
    )


WORDS = {
    "ksg": "nearest neighbours, less their error on a Gaussian twin, give",
    "columns": "independent columns, taken in pairs, add up to",
}


def _critic_look(request: Request) -> tuple[Estimate, float, float]:
    """A held-out InfoNCE critic, and what it gains on the copula it starts from."""
    request = replace(
        request, training=replace(request.training, base="gaussian", margins="normal")
    )
    name = "info_nce"
    parts, model, steps, history = trained_critic(name, request)
    critic = read(name, model, parts, request, bound=BOUNDS[name])
    gain, error = held_out(_Gain(model), *parts.test)
    critic = replace(critic, steps=steps, history=history, critic=request.critic)
    return critic, gain, error


class _Gain(CriticModel):
    """Reads the difference of two critics on the same rows, so that noise cancels."""

    def __init__(self, model: CriticModel) -> None:
        torch.nn.Module.__init__(self)
        self.model = model
        value = model.bound.value
        self.bound = replace(
            model.bound, value=lambda s, _: value(s[0], _) - value(s[1], _)
        )

    def parts(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        base = getattr(self.model.critic, "base")  # noqa: B009
        both = torch.stack([self.model.critic(x, y), base(x, y)])
        return both, both.new_zeros(len(x))


def _neighbours(x: Tensor, y: Tensor, request: Request) -> tuple[float, float]:
    rho = canonical_correlations(x, y)
    exact = -0.5 * (1 - rho.square()).log().sum().item()
    twin = gaussian_twin(x, y, exact, request.generator())
    return corrected_ksg(x, y, twin)


def _contradicts(copula: Estimate, looks: dict[str, tuple[float, float]]) -> bool:
    """Whether the copula claims clearly more than all else finds."""
    value, error = max(looks.values())
    return copula.nats - value > 0.1 + 0.1 * value + 3 * error


def _interval(
    pick: str,
    value: float,
    error: float,
    critic: Estimate,
    looks: dict[str, tuple[float, float]],
) -> tuple[float, float]:
    certified = critic.nats - 1.645 * critic.std_error
    if pick == "gaussian":
        # what a held-out critic may have missed, and the copula may have made up
        room = Z * error + 0.01 + 0.01 * value
        return max(0.0, value - room), value + room
    top = max(*(v for v, _ in looks.values()), critic.in_sample or 0.0)
    low = min(certified, value - Z * error)
    high = top + Z * error + 0.5 * max(0.0, value - critic.nats)
    return max(0.0, low), max(high, value)


def _picked(estimate: Estimate, pick: str, why: str) -> Estimate:
    return replace(estimate, estimator=f"auto ({pick})", reason=why)
