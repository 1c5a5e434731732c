"""What an estimator answers: a number of nats and everything needed to trust it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from ..errors import SettingError
from ..markup import html_table
from ._samples import Rows
from ._score_bounds import reach

if TYPE_CHECKING:
    from ._trained import TrainedCritic

LOG_2 = math.log(2)
Z95 = 1.96  # two-sided
Z99 = 2.33  # one-sided: the best of several bounds must not be luck
NEARLY_NONE = 0.2  # nats; an upper end below is called independence
LEAST_SENSIBLE = -0.5  # nats; what reads lower was learned by heart
SMALL_ERROR = 0.5  # nats


@dataclass(frozen=True)
class Checkpoint:
    """A look at the training of a critic."""

    step: int
    train: float
    """The value on the last batches, in nats."""
    validation: float
    """The value on the validation rows, in nats."""
    ceiling: float | None
    """The most that the validation rows can show."""


@dataclass(frozen=True)
class Estimate:
    """Mutual information, and what the number may claim."""

    estimator: str
    nats: float
    std_error: float
    """Sampling error of ``nats`` (one standard deviation)."""
    interval: tuple[float, float]
    """95 % interval. Of a bound it says where the bound's own expectation lies, and the
    information may lie above; of an estimate it is meant to hold the information."""
    lower_bound: bool
    """Whether ``nats`` is a certified lower bound: in expectation not above the
    information, whatever the critic, as its rows were not trained on."""
    ceiling: float | None
    """The most that the estimator can show with these samples; None: no limit."""
    saturated: bool
    """So near the ceiling that the information may be far larger."""
    samples: int
    """Rows that were used, of both variables."""
    evaluated_on: int
    """Held-out rows behind ``nats`` (all rows for classical estimators)."""
    steps: int = 0
    """Training steps taken; 0 where nothing is trained."""
    critic: str | None = None
    conclusive: bool = False
    """Whether dependence of any kind would have shown, so that an interval around zero
    speaks for independence."""
    in_sample: float | None = None
    """The value on rows that were trained on: far above ``nats`` means overfitting."""
    reason: str = field(default="", repr=False)
    """Why this estimator was picked, where ``auto`` picked it."""
    withheld: str = ""
    """Why ``nats`` is no answer, where it is none; '' where it may be shown."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """What was done to the data, and what to keep in mind."""
    history: tuple[Checkpoint, ...] = field(default=(), repr=False)
    trained_critic: "TrainedCritic | None" = field(
        default=None, repr=False, compare=False
    )
    """The critic as it was read: call it with rows of x and y to score all pairs."""

    def pointwise(self, x: Rows, y: Rows) -> Float[Tensor, " n"]:
        r"""What each pair contributes: log p(x,y)/p(x)p(y) of row i of x and of y.

        $$i(x,y) = \log\frac{p(x,y)}{p(x)\,p(y)},\qquad E_{p(x,y)}[i] = I(X;Y)$$

        In nats; above 0 where the two go together more often than by chance. Any rows
        of the same columns will do, but of rows that were trained on the critic is
        surer than it should be. The critics of nwj, jsd, smile and binary_nce are the
        log ratio themselves; those of tuba and flo less their second network. mine's is
        so up to a constant, and those of info_nce, flat_nce, fdv, interpolated and
        unnormalized_ba up to a term of x: these are set so that e^i is 1 on average
        over held-out strangers. vince's is no log ratio, and other estimators train no
        critic; they are refused.

        >>> import torch
        >>> from invariance.estimators import correlated_gaussian, estimate_mi
        >>> pairs = correlated_gaussian(1, nats=1.0)
        >>> x, y = pairs.sample(500, generator=torch.Generator().manual_seed(0))
        >>> e = estimate_mi(x, y, estimator="jsd", max_steps=10)
        >>> e.pointwise([2.0, 2.0], [2.0, -2.0]) > 0
        tensor([ True, False])
        """
        if self.trained_critic is None:
            raise SettingError(
                f"{self.estimator} trains no critic, so it says nothing about single "
                "pairs: estimate with 'jsd' or another that trains one."
            )
        return self.trained_critic.pointwise(x, y)

    @property
    def bits(self) -> float:
        """The same in bits."""
        return self.nats / LOG_2

    @property
    def exact(self) -> bool:
        """Whether the answer was known without estimating, as for constants."""
        known = self.std_error == 0 and self.in_sample is None
        return known and self.interval[0] == self.nats

    @property
    def floor(self) -> float:
        """What a lower bound certifies with 95 % confidence; never below 0."""
        return max(0.0, self.nats - 1.645 * self.std_error)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        return _sentence(self)

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        if self.withheld:
            return html_table([("estimator", self.estimator), ("in words", str(self))])
        rows = [
            ("estimator", self.estimator),
            ("nats", f"{self.nats:.4g} ± {self.std_error:.2g}"),
            ("bits", f"{self.bits:.4g}"),
            ("95 % interval", f"{self.interval[0]:.4g} to {self.interval[1]:.4g}"),
            ("certified lower bound", "yes" if self.lower_bound else "no"),
            ("ceiling", "none" if self.ceiling is None else f"{self.ceiling:.4g} nats"),
            ("samples", f"{self.samples:,} (read on {self.evaluated_on:,})"),
            ("in words", self.sentence),
            *([("why", self.reason)] if self.reason else []),
            *(("note", note) for note in self.notes),
        ]
        return html_table(rows)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: what is infinite or was not measured is None."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        del values["trained_critic"]
        values["history"] = [vars(look) for look in self.history]
        return _plain({**values, "bits": self.bits, "sentence": self.sentence})


def make_estimate(
    estimator: str,
    nats: float,
    error: float,
    *,
    samples: int,
    evaluated_on: int,
    quantile: float = Z95,
    **more: Any,
) -> Estimate:
    """An estimate that is no bound and knows no ceiling: nats ± quantile * error."""
    return Estimate(
        estimator=estimator,
        nats=nats,
        std_error=error,
        interval=(nats - quantile * error, nats + quantile * error),
        lower_bound=False,
        ceiling=None,
        saturated=False,
        samples=samples,
        evaluated_on=evaluated_on,
        **more,
    )


def heed_bounds(estimate: Estimate, others: Iterable[Estimate]) -> Estimate:
    """The same, no lower than what certified bounds on the same rows rule out."""
    bounds = [e for e in others if e.lower_bound]
    best = max(bounds, key=lambda e: e.nats - Z99 * e.std_error, default=None)
    low, high = estimate.interval
    if best is None or best.nats - Z99 * best.std_error <= low:
        return estimate
    floor = best.nats - Z99 * best.std_error
    note = f"the interval begins where {best.estimator} is certain: {floor:.3f} nats"
    return replace(
        estimate,
        nats=max(floor, estimate.nats),
        interval=(floor, max(floor, high)),
        notes=(*estimate.notes, note),
    )


def withhold_absurd(e: Estimate) -> Estimate:
    """The estimate without its number where that says nothing, and why.

    Near zero an error always exceeds the value, so small errors are let through.
    """
    read = f"{e.nats:,.2f} ± {e.std_error:,.2f} nats"
    if e.in_sample is not None:
        read += f" on {e.evaluated_on:,} rows it was not trained on"
    learned_nothing = e.nats == e.std_error == 0 and not e.exact
    if not e.nats >= LEAST_SENSIBLE:
        why = f"it reads {read}, but information is never below zero"
    elif not e.std_error <= max(e.nats, SMALL_ERROR):
        why = f"it reads {read}, and its error is larger than the value"
    elif learned_nothing and not e.lower_bound:
        why = (
            "nothing that it learned on its training rows held on other rows, which "
            "does not show that there is nothing"
        )
    else:
        return e
    return replace(
        e,
        nats=math.nan,
        std_error=math.nan,
        interval=(math.nan, math.nan),
        lower_bound=False,
        saturated=False,
        withheld=f"{why}; bring more rows or fewer columns",
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _sentence(e: Estimate) -> str:
    if e.withheld:
        return f"{e.estimator} gives no number: {e.withheld}."
    if math.isinf(e.nats) and not e.exact:
        least = f"at least about {e.interval[0]:.1f} nats"
        return f"The information is {least} and may be infinite: {e.reason}"
    if math.isinf(e.nats):
        return f"The information is infinite: {e.reason}"
    if e.nats == 0 and e.exact:
        return f"x and y share nothing: {e.reason}."
    size = f"{e.nats:.2f} nats ({e.bits:.2f} bits)"
    low, high = e.interval
    within = f"95 % interval {low:.2f} to {high:.2f}"
    if math.isinf(high):
        within = f"with 95 % confidence at least {low:.2f}; no upper end can be given"
    if e.saturated and e.ceiling is not None:
        least = "at least" if e.lower_bound else "about"
        return (
            f"x and y share {least} {size}, close to the most that {e.estimator} can "
            f"show here ({e.ceiling:.2f} nats): the information may be far larger. "
            f"More samples raise the ceiling{_name_higher(e)}."
        )
    if e.lower_bound:
        if e.floor == 0:
            return (
                f"No information is certified: the lower bound {e.estimator} is {size} "
                f"with an error of {e.std_error:.2f}, which does not show that there "
                "is none."
            )
        return (
            f"x and y share at least {size} ({e.estimator}, a lower bound; "
            f"with 95 % confidence at least {e.floor:.2f} nats)."
        )
    if low <= 0 and e.conclusive and high <= NEARLY_NONE:
        return f"x and y may well be independent: {e.estimator} gives {size}, {within}."
    if low <= 0:
        unseen = "" if e.conclusive else ", which does not show that there is none"
        return f"{e.estimator} finds no certain dependence{unseen}: {size}, {within}."
    return f"x and y share about {size} ({e.estimator}, an estimate; {within})."


def _name_higher(e: Estimate) -> str:
    """Estimators that see beyond the ceiling of this one."""
    higher, assumed = 1 + reach(e.evaluated_on), "smile has none, but certifies nothing"
    if e.ceiling is not None and higher > e.ceiling + 0.5:
        return f"; flo and nwj see up to {higher:.1f} nats, and {assumed}"
    return f"; {assumed}"
