"""Every estimator by name, with a line about it and what its number may claim."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ._auto import auto_estimate
from ._bounds import BOUNDS
from ._classical import gaussian_estimate, histogram_estimate, ksg_estimate
from ._estimate import Estimate
from ._request import Request
from ._trained import barber_agakov_estimate, train_bound


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


ESTIMATORS: dict[str, Estimator] = {
    "auto": Estimator(
        "looks at the data, runs what suits them, and says why",
        lower_bound=False,
        trained=True,
        run=auto_estimate,
    ),
    "barber_agakov": Estimator(
        "how well x predicts y; certified for labels, else a difference of two models",
        lower_bound=False,
        trained=True,
        run=barber_agakov_estimate,
    ),
    **{
        name: Estimator(
            bound.about, bound.lower_bound, True, partial(train_bound, name)
        )
        for name, bound in BOUNDS.items()
    },
    "ksg": Estimator(
        "nearest neighbours; nearly unbiased in few columns, too low in many",
        lower_bound=False,
        trained=False,
        run=ksg_estimate,
    ),
    "gaussian": Estimator(
        "canonical correlations of columns made normal; exact for a Gaussian copula",
        lower_bound=False,
        trained=False,
        run=gaussian_estimate,
    ),
    "histogram": Estimator(
        "counts with Miller and Madow's correction; for discrete data",
        lower_bound=False,
        trained=False,
        run=histogram_estimate,
    ),
}
