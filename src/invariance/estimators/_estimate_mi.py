"""The one call: two variables in, an ``Estimate`` out; and every estimator by name."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..critics import CRITICS
from ..devices import choose_device
from ..errors import SettingError, choose, unknown
from ..plain_numbers import plain_number
from ._auto import auto_estimate
from ._bounds import BOUNDS
from ._classical import (
    canonical_correlations,
    gaussian_estimate,
    histogram_estimate,
    ksg_estimate,
)
from ._estimate import Estimate, make_estimate, withhold_absurd
from ._normal_scores import fit_normal_scores
from ._request import OF_CRITIC, OF_LOOP, OnCheckpoint, Request, Training
from ._samples import Rows, Samples, read_samples
from ._trained import barber_agakov_estimate, bound_estimate

NO_NOISE = 1e-12  # 1 - rho^2 of columns that differ by rounding only
LEAST_TO_ORDER = 50
OLD_NAMES = {"unnormalised_ba": "unnormalized_ba"}


@dataclass(frozen=True)
class Estimator:
    """One way to estimate mutual information."""

    about: str
    """A line in words."""
    lower_bound: bool
    """Whether its value is a certified lower bound."""
    trained: bool
    """Whether it trains a network, and so needs a few hundred rows."""
    run: Callable[[Request], Estimate]
    settings: frozenset[str]
    """The settings that it listens to; others are refused."""


ESTIMATORS: dict[str, Estimator] = {
    "auto": Estimator(
        "looks at the data, runs what suits them, and says why",
        lower_bound=False,
        trained=True,
        run=auto_estimate,
        # it starts from a copula of columns made normal, so these are not to be chosen
        settings=OF_LOOP | OF_CRITIC - {"base"},
    ),
    "barber_agakov": Estimator(
        "how well x predicts y; certified for labels, else a difference of two models",
        lower_bound=False,
        trained=True,
        run=barber_agakov_estimate,
        settings=OF_LOOP | {"margins"},
    ),
    **{
        name: Estimator(
            bound.about,
            bound.lower_bound,
            trained=True,
            run=partial(bound_estimate, name),
            settings=OF_LOOP | OF_CRITIC | {"margins", *bound.settings},
        )
        for name, bound in BOUNDS.items()
    },
    "ksg": Estimator(
        "nearest neighbors; nearly unbiased with few columns, too low with many",
        lower_bound=False,
        trained=False,
        run=ksg_estimate,
        settings=frozenset({"margins"}),
    ),
    "gaussian": Estimator(
        "canonical correlations of columns made normal; exact for a Gaussian copula",
        lower_bound=False,
        trained=False,
        run=gaussian_estimate,
        settings=frozenset({"margins"}),
    ),
    "histogram": Estimator(
        "counts with Miller and Madow's correction; for discrete data",
        lower_bound=False,
        trained=False,
        run=histogram_estimate,
        settings=frozenset(),
    ),
}


def estimate_mi(
    x: Rows,
    y: Rows,
    *,
    estimator: str = "info_nce",
    critic: str | None = None,
    seed: int = 0,
    drop_missing: bool = False,
    device: str | torch.device = "cpu",
    progress: OnCheckpoint | None = None,
    **training: Any,
) -> Estimate:
    """How much two variables share, in nats, and what that number may claim.

    Args:
        x: One row per sample (tensor, array, data frame), or one number per sample.
        y: The same; row i belongs to row i of x. Integers that repeat are labels.
        estimator: A name of ``ESTIMATORS``. The default is a certified bound; "auto",
            the default of the command line, picks by the data and says why.
        critic: A name of ``invariance.critics.CRITICS``, for estimators that train one;
            None is "separable". A class of your own goes there, too.
        seed: Of the split, the weights and the batches; the same seed repeats exactly.
        drop_missing: Leave rows with NaN or infinite numbers out instead of refusing.
        device: Where networks are trained: "cpu", "cuda" or "auto".
        progress: Called with every ``Checkpoint`` of the training.
        **training: Settings of ``Training``, such as batch_size=512. What the estimator
            would ignore is refused; ``ESTIMATORS[name].settings`` has what it takes.

    Columns are made normal one by one first (an increasing map each, which changes no
    information; margins="standard" or "raw" turn that off). Critics train on 60 % of
    the rows, stop early by 10 % (50 rows, if there are 250 or more), and are read on
    rows that neither touched. A number that says nothing about the information is
    withheld: ``nats`` is NaN, and ``withheld`` has the reason.

    >>> import torch
    >>> from invariance.estimators import correlated_gaussian
    >>> dice = torch.Generator().manual_seed(0)
    >>> x, y = correlated_gaussian(2, nats=1.0).sample(2000, generator=dice)
    >>> print(estimate_mi(x, y, estimator="gaussian"))
    x and y share about 1.01 nats (1.46 bits) (gaussian, an estimate; 95 % interval \
0.96 to 1.06).
    """
    method = find_estimator(estimator)
    training = {name: plain_number(value) for name, value in training.items()}
    given = {**training, **({} if critic is None else {"critic": critic})}
    options = read_training(estimator, given)
    place, seed = choose_device(device), plain_number(seed)
    if not isinstance(seed, int):
        raise SettingError(f"seed must be a whole number: got {seed!r}.")
    samples = read_samples(x, y, drop_missing=drop_missing)
    if estimate := find_exact(samples, estimator):
        return estimate
    request = Request(
        samples,
        critic=critic or "separable",
        training=options,
        seed=seed,
        device=place,
        progress=progress,
    )
    estimate = method.run(request)
    # what auto is not sure of is in its interval
    return estimate if estimator == "auto" else withhold_absurd(estimate)


def find_estimator(name: str) -> Estimator:
    """The estimator of this name; names of earlier versions still work."""
    return choose(ESTIMATORS, OLD_NAMES.get(name, name), "estimator")


def read_training(estimator: str, given: Mapping[str, Any]) -> Training:
    """The training that settings of ``estimate_mi`` ask for; none may be ignored."""
    method = find_estimator(estimator)
    if "critic" in given:
        if not isinstance(given["critic"], str):
            raise SettingError(
                "critic is a name, since a new one is made for each fit: got "
                f"{type(given['critic']).__name__}. Add a class of your own to "
                "invariance.critics.CRITICS, and say its name here."
            )
        choose(CRITICS, given["critic"], "critic")
    known = {"critic"} | {f.name for f in fields(Training)}
    if wrong := [name for name in given if name not in known]:
        named = inspect.signature(estimate_mi).parameters.keys() - {"training"}
        raise SettingError(unknown("setting", wrong[0], known | named))
    if ignored := [name for name in given if name not in method.settings]:
        takes = ", ".join(sorted(method.settings)) or "none"
        who = ", ".join(n for n, e in ESTIMATORS.items() if ignored[0] in e.settings)
        raise SettingError(
            f"{estimator} would ignore {', '.join(ignored)}. Its settings: {takes}. "
            f"{ignored[0]} is for {who}."
        )
    if "penalty_weight" in given and given.get("gradient_penalty", "none") == "none":
        raise SettingError(
            "penalty_weight weighs nothing without gradient_penalty='wgan' or 'zero'."
        )
    return Training(**{name: given[name] for name in given if name != "critic"})


def find_exact(samples: Samples, name: str) -> Estimate | None:
    """The answer where x or y is constant, or one determines the other; else None."""
    for z, which in ((samples.x, "x"), (samples.y, "y")):
        if z.shape[1] == 0:
            note = f"{which} is constant, and a constant shares nothing with anything"
            return _exact_estimate(name, 0.0, note, samples)
    if samples.x_label is not None or samples.y_label is not None:
        return None  # what has few values cannot share infinitely much
    n = len(samples)
    if n > samples.x.shape[1] + samples.y.shape[1] + 2:
        rho = canonical_correlations(samples.x, samples.y)
        if len(rho) and 1 - rho[0].item() ** 2 < NO_NOISE:
            return _exact_estimate(
                name,
                math.inf,
                "a combination of columns of x is a combination of columns of y, up to "
                "rounding. Continuous variables that determine each other share "
                "infinitely much; add the noise you mean, or compare other variables.",
                samples,
            )
    if n >= LEAST_TO_ORDER and (same := _find_same_order(samples.x, samples.y)):
        # a normal pair with I nats has about n^2 e^-I / 2 pi pairs of rows in another
        # order; none at all is likely only if that number is below 3
        least = 2 * math.log(n) - math.log(6 * math.pi)
        estimate = _exact_estimate(
            name,
            math.inf,
            f"column {same[0]} of x and column {same[1]} of y put all {n} rows in the "
            "same order.",
            samples,
        )
        return replace(estimate, interval=(least, math.inf))
    return None


def _find_same_order(x: Tensor, y: Tensor) -> tuple[int, int] | None:
    """A column of x and one of y with equal or opposite ranks, and few ties."""
    ranks = []
    for z in (x, y):
        score = fit_normal_scores(z)(z)
        score = score - score.mean(0)
        ranks.append(score / score.norm(dim=0).clamp(min=1e-300))
    agree = (ranks[0].T @ ranks[1]).abs()
    for i, j in (agree > 1 - 1e-6).nonzero().tolist():
        by_x, by_y = (z[:, k].argsort() for z, k in ((x, i), (y, j)))
        few_ties = len(x[:, i].unique()) > 0.9 * len(x)
        if few_ties and (torch.equal(by_x, by_y) or torch.equal(by_x, by_y.flip(0))):
            return i, j
    return None


def _exact_estimate(name: str, nats: float, reason: str, samples: Samples) -> Estimate:
    n = len(samples)
    estimate = make_estimate(name, nats, 0.0, samples=n, evaluated_on=n)
    infinite = math.isinf(nats)
    return replace(estimate, saturated=infinite, reason=reason, notes=samples.notes)
