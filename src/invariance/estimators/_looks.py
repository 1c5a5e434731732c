r"""Looks at two continuous variables that assume no distribution.

Each is read at all rows and at their halves. What the second half of the rows still
added says how much more rows would add:

$$\text{missing} \approx \max\Big(-\log\big(1 - \tfrac{g}{\log 2}\big),\;
\frac{g}{2^{2/D}-1}\Big),\qquad g = \hat I_n - \hat I_{n/2}$$

The first form is that of a dependence sharper than the distance of neighbors, which
shows log 2 more each time the rows double, for ever; the second that of D columns too
many for neighbors to be near.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from ._classical import (
    MANY_COLUMNS,
    bin_numbers,
    break_ties,
    canonical_correlations,
    ksg,
    plug_in,
    sharpen_ranks,
)
from ._cross_fit import predict_columns, split_folds
from ._estimate import Z95
from ._normal_scores import fit_normal_scores

MOST_PAIRED_COLUMNS = 30  # on a side: 900 tables of pairs
MOST_JOINTLY = 2  # predicted columns that neighbors see at once, four with their own
FOLDS = 5
LEAST_TO_PREDICT = 40  # eight rows per fold
BINS = 8  # 64 cells, which 200 rows fill with three each
CLEAR = 3.0
"""Standard errors that make a dependence, or a share worth counting: chance reaches
them once in 700 looks."""
# How far looks may be off has no formula. These were set on the distributions of
# benchmarks/auto_information.py --tuning; the others there, and benchmarks/few_rows.py,
# tell whether the intervals hold.
SLACK = {"ksg": 0.1, "columns": 0.15, "prediction": 0.05}
"""Share of the nats by which a look may be too high."""
UNSEEN = 0.5
"""Share of what products of columns show that other dependence may add."""
PREDICTED = "columns of {} and their predictions from products of {}'s columns share"

Reading = tuple[float, float]  # nats and their standard error


@dataclass(frozen=True)
class Look:
    """What one way of looking finds."""

    words: str
    """What was done, before its number."""
    nats: float
    error: float
    slack: float
    """The share of ``nats`` by which it may be too high."""
    missing: float = 0.0
    """What more rows would be likely to add; infinite where nothing limits it."""

    @property
    def low(self) -> float:
        return self.nats - Z95 * self.error - self.slack * max(0.0, self.nats)

    @property
    def high(self) -> float:
        return self.nats + Z95 * self.error


def look_around(
    x: Tensor, y: Tensor, raw: tuple[Tensor, Tensor], generator: torch.Generator
) -> dict[str, Look]:
    """Every look that suits the columns, by name.

    Args:
        x: Columns of one variable, made normal.
        y: Columns of the other.
        raw: Both before they were made normal.
        generator: Of twins and folds.
    """
    both, widths = x.shape[1] + y.shape[1], (x.shape[1], y.shape[1])
    independent = [are_independent(z) for z in (x, y)]
    looks = {}
    if both <= MANY_COLUMNS:
        looks["ksg"] = _extrapolate(
            lambda rows: corrected_ksg(x[rows], y[rows], generator),
            len(x),
            generator,
            words="nearest neighbors, corrected for their error on a Gaussian twin, "
            "give",
            slack=SLACK["ksg"],
            columns=both,
        )
    if min(widths) >= 2 and max(widths) <= MOST_PAIRED_COLUMNS and any(independent):
        looks["columns"] = _extrapolate(
            lambda rows: sum_over_columns(x[rows], y[rows]),
            len(x),
            generator,
            words="independent columns, taken in pairs, add up to",
            slack=SLACK["columns"],
            columns=2,
        )
    for name, words, ways, one_by_one in (
        ("prediction", PREDICTED.format("y", "x"), ((x, y), raw), independent[1]),
        (
            "prediction back",
            PREDICTED.format("x", "y"),
            ((y, x), raw[::-1]),
            independent[0],
        ),
    ):
        inputs, outputs = (z.shape[1] for z in ways[0])
        jointly = outputs <= MOST_JOINTLY
        if len(x) < LEAST_TO_PREDICT or inputs < 2 or not (jointly or one_by_one):
            continue
        look = _extrapolate(
            partial(read_predictions, ways=ways, jointly=jointly, generator=generator),
            len(x),
            generator,
            words=words,
            slack=SLACK["prediction"],
            columns=2 * outputs if jointly else 2,
        )
        # products are one kind of dependence: what they miss is a matter of guessing
        unseen = max(look.missing, UNSEEN * max(0.0, look.nats))
        looks[name] = replace(look, missing=unseen)
    return looks


def _extrapolate(
    read: Callable[[Tensor], Reading],
    n: int,
    generator: torch.Generator,
    *,
    words: str,
    slack: float,
    columns: int,
) -> Look:
    """``read`` all rows, and halves of them for what is missing."""
    nats, error = read(torch.arange(n))
    half = sum(read(rows)[0] for rows in split_folds(n, 2, generator)) / 2
    gain = max(0.0, nats - half + error)  # a standard error more: halves are noisy
    share = gain / math.log(2)
    sharp = -math.log1p(-share) if share < 1 else math.inf
    return Look(words, nats, error, slack, max(sharp, gain / (2 ** (2 / columns) - 1)))


def corrected_ksg(x: Tensor, y: Tensor, generator: torch.Generator) -> Reading:
    """Nearest neighbors, less their error on a twin of known information.

    The twin is drawn from a Gaussian with the covariance of [x, y], which is so like
    the data that the two errors are nearly the same. What making columns normal cost
    is added as for a copula.
    """
    rho = canonical_correlations(x, y)
    exact = -0.5 * (1 - rho.square()).clamp(min=1e-300).log().sum().item()
    both = torch.cat([x, y], 1).double()
    both = both - both.mean(0)
    values, vectors = torch.linalg.eigh(both.T @ both / len(both))
    root = vectors * values.clamp(min=0).sqrt()
    twin = torch.randn(both.shape, generator=generator, dtype=torch.float64) @ root.T
    nats, error = ksg(x, y)
    twin_nats, twin_error = ksg(*twin.split([x.shape[1], y.shape[1]], 1))
    lost, unsure, _ = sharpen_ranks(rho, exact, len(x))
    return nats - (twin_nats - exact) + lost, math.hypot(error, twin_error, unsure)


def sum_over_columns(x: Tensor, y: Tensor) -> Reading:
    r"""Information column by column, where the columns of one side are independent.

    $$I(X;Y) \ge \sum_k I(X_k;Y) \ge \sum_k I(X_k;Y_{\pi(k)})\quad
    \text{if } X_1,\dots,X_d \text{ are independent}$$

    Single columns are what nearest neighbors estimate best, so for variables made of
    independent blocks the sum over the best pairing of columns is nearly exact where
    joint neighbors are far too low.
    """
    a, b = ([bin_numbers(c, BINS) for c in z.T] for z in (x, y))
    shared = torch.tensor([[plug_in(p, q)[0] for q in b] for p in a])
    rows, columns = linear_sum_assignment(-shared.numpy())
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    # the best of d^2 pairs look dependent by chance
    clear = math.sqrt(CLEAR**2 + 2 * math.log(len(a) * len(b)))
    return _add_up([ksg(x[:, [i]], y[:, [j]]) for i, j in pairs], clear)


def read_predictions(
    rows: Tensor,
    ways: tuple[tuple[Tensor, Tensor], ...],
    jointly: bool,
    generator: torch.Generator,
) -> Reading:
    r"""What predictions of y from x share with y, by nearest neighbors.

    $$I(X;Y) \ge I(\hat y(X);Y),\qquad
    I(X;Y) \ge \sum_k I(\hat y_k(X);Y_k)\text{ if the } Y_k \text{ are independent}$$

    No function of x knows more about y than x does. Few columns of y are taken
    ``jointly``, many one by one. ``ways`` are forms of x and y, such as columns made
    normal and columns as they came: what is a product in one need not be in the other,
    so the better counts.
    """
    y = ways[0][1][rows]
    folds = split_folds(len(rows), FOLDS, generator)
    readings = []
    for a, b in ways:
        predicted = predict_columns(a[rows], b[rows], folds)
        predicted = fit_normal_scores(predicted)(predicted)
        predicted = break_ties(predicted, generator)  # folds where nothing was learned
        if jointly:
            readings.append(ksg(predicted, y))
        else:
            pairs = zip(predicted.T, y.T, strict=True)
            readings.append(_add_up([ksg(p[:, None], q[:, None]) for p, q in pairs]))
    return max(readings)


def _add_up(readings: list[Reading], clear: float = CLEAR) -> Reading:
    """The sum of those ``clear`` standard errors above zero."""
    counted = [reading for reading in readings if reading[0] > clear * reading[1]]
    if not counted:
        return 0.0, max(error for _, error in readings)
    errors = math.hypot(*(error for _, error in counted))
    return sum(nats for nats, _ in counted), errors


def are_independent(z: Tensor) -> bool:
    """Whether no two columns show a dependence, allowing for the number of looks."""
    d = z.shape[1]
    if d > MOST_PAIRED_COLUMNS:
        return False
    columns = [bin_numbers(c, BINS) for c in z.T]
    looks = d * (d - 1) / 2
    limit = CLEAR + math.sqrt(2 * math.log(looks)) if looks > 1 else CLEAR
    n, free = len(z), (BINS - 1) ** 2
    for i in range(d):
        for j in range(i):
            nats, _, bias = plug_in(columns[i], columns[j])
            chi_square = 2 * n * (nats + bias)  # (BINS - 1)^2 degrees of freedom
            if (chi_square - free) / math.sqrt(2 * free) > limit:
                return False
    return True
