"""``auto``: look at the data, run what suits them, and weigh the answers.

Few values on both sides are counted. Labels on one side are predicted. Else three looks
are taken at columns made normal (which changes no information): a Gaussian copula on
all rows; a critic that starts from that copula's and learns what it misses, read on
rows it has not seen; and, in few columns, nearest neighbors, less their error on a
Gaussian twin of the data. If critic and neighbors find nothing beyond the copula, the
copula's number stands. If they do, the larger of theirs stands: held-out critics and
neighbors err downwards. The interval reaches from the certified bound to beyond the
largest of the estimates, so that it also holds what bias is likely left.
"""

import math
from dataclasses import replace

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from ..critics import Residual
from ..errors import DataError
from ._classical import (
    MANY_COLUMNS,
    bin_numbers,
    break_ties,
    canonical_correlations,
    classical_estimate,
    draw_few,
    gaussian_estimate,
    has_ties,
    histogram_estimate,
    ksg,
    map_margins,
    plug_in,
)
from ._estimate import Estimate
from ._fit import LEAST_ROWS
from ._models import jackknife
from ._request import Request
from ._score_bounds import info_nce
from ._trained import barber_agakov_estimate, train_critic

FEW_ROWS = 400
CELLS_PER_ROW = 1 / 3
Z95 = 1.96
BINS = 8
MOST_COLUMNS = 30
CLEAR = 3.0  # standard errors that make a dependence, or a share worth counting
WORDS = {
    "ksg": "nearest neighbors, less their error on a Gaussian twin, give",
    "columns": "independent columns, taken in pairs, add up to",
}
Look = tuple[float, float]  # nats and their standard error


def auto_estimate(request: Request) -> Estimate:
    """The estimate of whatever suits the samples; ``reason`` says what and why."""
    s = request.samples
    n, columns = len(s), s.x.shape[1] + s.y.shape[1]
    if s.x_label is not None and s.y_label is not None:
        cells = len(torch.unique(torch.stack([s.x_label, s.y_label]), dim=1).T)
        if cells <= CELLS_PER_ROW * n or n < LEAST_ROWS:
            why = f"both variables have few values ({cells} pairs in {n} rows): counted"
            return _pick(histogram_estimate(request), "histogram", why)
    if (s.x_label is not None or s.y_label is not None) and n >= LEAST_ROWS:
        return _estimate_from_labels(request)
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
        return _pick(estimate, "gaussian", why)
    return _estimate_continuous(request)


def _estimate_from_labels(request: Request) -> Estimate:
    estimate = barber_agakov_estimate(request)
    assert estimate.in_sample is not None
    if not estimate.lower_bound:
        return _pick(estimate, "barber_agakov", "few values")
    top = estimate.ceiling or math.inf
    middle = min((estimate.nats + max(estimate.in_sample, estimate.nats)) / 2, top)
    low = estimate.nats - Z95 * estimate.std_error
    high = min(max(estimate.in_sample, middle) + Z95 * estimate.std_error, top)
    learned_nothing = middle + Z95 * estimate.std_error < 0
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
        _pick(estimate, "barber_agakov", why),
        nats=middle,
        interval=(max(0.0, low), max(high, middle)),
        lower_bound=False,
    )


def _estimate_continuous(request: Request) -> Estimate:
    s = request.samples
    copula = gaussian_estimate(
        replace(request, training=replace(request.training, margins="normal"))
    )
    critic, gain, gain_error = _train_on_the_copula(request)
    assert critic.in_sample is not None
    middle = (critic.nats + max(critic.in_sample, critic.nats)) / 2
    looks = {"critic": (middle, critic.std_error)}
    x, y = map_margins(s, "normal")
    if has_ties(x) or has_ties(y):
        x, y = (break_ties(z, request.generator()) for z in (x, y))
    x, y = draw_few(x, y, request.generator())
    if x.shape[1] + y.shape[1] <= MANY_COLUMNS:
        looks["ksg"] = _corrected_ksg(x, y, request.generator())
    if columns := _sum_over_columns(x, y):
        looks["columns"] = columns
    reasons = [
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
        reasons.append("nothing is found beyond the copula, whose number stands")
    else:
        pick = max(looks, key=lambda k: looks[k][0])
        value, error = looks[pick]
        reasons.append(
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
        classical_estimate(
            f"auto ({pick})", value, error, s, len(s), (*s.notes, *notes)
        ),
        interval=interval,
        steps=critic.steps,
        critic=critic.critic,
        history=critic.history,
        in_sample=critic.in_sample,
        reason="; ".join(reasons),
    )


def _train_on_the_copula(request: Request) -> tuple[Estimate, float, float]:
    """A held-out InfoNCE critic, and what it gains on the copula it starts from.

    The gain is read as one difference on the same rows, so that their noise cancels.
    """
    request = replace(
        request, training=replace(request.training, base="gaussian", margins="normal")
    )
    estimate, model, parts = train_critic("info_nce", request)
    assert isinstance(model.critic, Residual)
    with torch.no_grad():
        scores = torch.stack(
            [model.critic(*parts.test), model.critic.base(*parts.test)]
        )
        gain, error = jackknife(lambda s: info_nce(s[0]) - info_nce(s[1]), scores)
    return estimate, gain, error


def _corrected_ksg(x: Tensor, y: Tensor, generator: torch.Generator) -> Look:
    """Nearest neighbors, less their error on a twin of known information.

    The twin is drawn from a Gaussian with the covariance of [x, y], which is so like
    the data that the two errors are nearly the same.
    """
    rho = canonical_correlations(x, y)
    exact = -0.5 * (1 - rho.square()).log().sum().item()
    both = torch.cat([x, y], 1).double()
    both = both - both.mean(0)
    values, vectors = torch.linalg.eigh(both.T @ both / len(both))
    root = vectors * values.clamp(min=0).sqrt()
    twin = torch.randn(both.shape, generator=generator, dtype=torch.float64) @ root.T
    nats, error = ksg(x, y)
    twin_nats, twin_error = ksg(*twin.split([x.shape[1], y.shape[1]], 1))
    return nats - (twin_nats - exact), math.hypot(error, twin_error)


def _sum_over_columns(x: Tensor, y: Tensor) -> Look | None:
    r"""Information column by column, where the columns of one side are independent.

    $$I(X;Y) \ge \sum_k I(X_k;Y) \ge \sum_k I(X_k;Y_{\pi(k)})\quad
    \text{if } X_1,\dots,X_d \text{ are independent}$$

    Single columns are what nearest neighbors estimate best, so for variables made of
    independent blocks the sum over the best pairing of columns is nearly exact where
    joint neighbors are far too low. None where neither side has (pairwise) independent
    columns, or there are too many.
    """
    if min(x.shape[1], y.shape[1]) < 2 or max(x.shape[1], y.shape[1]) > MOST_COLUMNS:
        return None
    a, b = ([bin_numbers(c, BINS) for c in z.T] for z in (x, y))
    if not (_independent(a) or _independent(b)):
        return None
    shared = torch.tensor([[plug_in(p, q)[0] for q in b] for p in a])
    rows, columns = linear_sum_assignment(-shared.numpy())
    total, variance = 0.0, 0.0
    for i, j in zip(rows, columns, strict=True):
        nats, error = ksg(x[:, [i]], y[:, [j]])
        if nats > CLEAR * error:  # the best of many pairs always shows a little
            total, variance = total + nats, variance + error**2
    return total, math.sqrt(variance)


def _independent(columns: list[Tensor]) -> bool:
    """Whether no two columns show a dependence, allowing for the number of looks."""
    d = len(columns)
    looks = d * (d - 1) / 2
    limit = CLEAR + math.sqrt(2 * math.log(looks)) if looks > 1 else CLEAR
    n, free = len(columns[0]), (BINS - 1) ** 2
    for i in range(d):
        for j in range(i):
            nats, _, bias = plug_in(columns[i], columns[j])
            chi_square = 2 * n * (nats + bias)  # (BINS - 1)^2 degrees of freedom
            if (chi_square - free) / math.sqrt(2 * free) > limit:
                return False
    return True


def _contradicts(copula: Estimate, looks: dict[str, Look]) -> bool:
    """Whether the copula claims clearly more than all else finds."""
    value, error = max(looks.values())
    return copula.nats - value > 0.1 + 0.1 * value + 3 * error


def _interval(
    pick: str,
    value: float,
    error: float,
    critic: Estimate,
    looks: dict[str, Look],
) -> tuple[float, float]:
    certified = critic.nats - 1.645 * critic.std_error
    if pick == "gaussian":
        # what a held-out critic may have missed, and the copula may have made up
        margin = Z95 * error + 0.01 + 0.01 * value
        return max(0.0, value - margin), value + margin
    top = max(*(v for v, _ in looks.values()), critic.in_sample or 0.0)
    low = min(certified, value - Z95 * error)
    high = top + Z95 * error + 0.5 * max(0.0, value - critic.nats)
    return max(0.0, low), max(high, value)


def _pick(estimate: Estimate, pick: str, why: str) -> Estimate:
    return replace(estimate, estimator=f"auto ({pick})", reason=why)
