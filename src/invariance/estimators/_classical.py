"""The classical estimators: Gaussian, nearest neighbors, histogram."""

import math
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.spatial import cKDTree
from scipy.special import digamma, polygamma, stdtrit
from torch import Tensor

from ..errors import DataError
from ._estimate import Estimate, make_estimate
from ._normal_scores import fit_normal_scores
from ._request import Request
from ._samples import Samples

MANY_COLUMNS = 8
"""Where neighbors show 1.55 of 2 nats (measured, 1,000 Gaussian rows); in 12, 1.19."""
KSG_ROWS, KSG_ROWS_MANY_COLUMNS = 20_000, 4_000
"""A core searches them in 6 s (8 columns; 0.1 s in 2) and in 3 s (20 columns)."""
KSG_SPREAD = 1.5
"""Neighboring terms share samples. The spread over 100 draws of Gaussian rows (100 and
1,000 rows, 2 to 8 columns, 0 to 3 nats) was 1.0 to 1.7 times that of independent terms,
1.4 on average."""
ROWS_PER_CELL = 3
"""Rows for each pair of values that let them be counted. With fewer, the correction is
not enough (10 x 10 unrelated values: 0.02 nats are left of 0.15 with three rows per
cell, 0.25 with one)."""
RANK_NOISE = 6.0  # the 6 of ``sharpen_ranks``
MOST_HIDDEN = 0.8
"""Hidden share of the noise above which the law's own error, 0.3 x 0.8, is more than
the fifth of it that still shows."""


def canonical_correlations(
    x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"]
) -> Float[Tensor, " k"]:
    """The canonical correlations of the sample, largest first.

    >>> import torch
    >>> x = torch.tensor([[1.0], [2.0], [3.0], [5.0]]).double()
    >>> round(canonical_correlations(x, 7 - 2 * x)[0].item(), 6)
    1.0
    """
    return correlations_and_ranks(x, y)[0]


def correlations_and_ranks(
    x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"]
) -> tuple[Float[Tensor, " k"], tuple[int, int]]:
    """Canonical correlations, and how many columns of x and y are no sums of others."""
    a, b = _basis(x), _basis(y)
    return torch.linalg.svdvals(a.T @ b).clamp(max=1.0), (a.shape[1], b.shape[1])


def _basis(z: Tensor) -> Tensor:
    """Orthonormal columns that span the centered columns of z."""
    z = z.double() - z.double().mean(0)
    z = z / z.std(0).clamp(min=1e-300)
    left, size, _ = torch.linalg.svd(z, full_matrices=False)
    return left[:, size > 1e-9 * size[0]]


def gaussian_information(
    rho: Float[Tensor, " k"], n: int, widths: tuple[int, int]
) -> tuple[float, float]:
    r"""The Gaussian estimate from canonical correlations: nats and standard error.

    $$\hat I = -\tfrac12\sum_k\log(1-\hat\rho_k^2) - \text{bias},\qquad
    \text{bias} = \tfrac12\big[c(d_x)+c(d_y)-c(d_x+d_y)\big]$$

    c(d) is the known error of the log-determinant of a sample covariance, a sum of
    digamma functions. Exact on average for Gaussian data; after normal scores (a
    Gaussian copula) for every increasing image of them, too; elsewhere neither above
    nor below I for sure. ``widths`` counts columns that say something new: repeated
    ones add no chance of correlation, and so no bias.
    """
    left = 1 - rho.square()
    nats = -0.5 * left.log().sum().item()
    bias = (_c(n, widths[0]) + _c(n, widths[1]) - _c(n, sum(widths))) / 2
    # the delta method for what is correlated, Wilks's law for what is not
    chance = widths[0] * widths[1] / n
    linked = max(0.0, rho.square().sum().item() - chance)
    wide, narrow = max(widths), min(widths)
    free = (n - 1 - np.arange(narrow)) / 2
    unlinked = (polygamma(1, free - wide / 2) - polygamma(1, free)).sum() / 4
    return nats - bias, math.sqrt(linked / n + unlinked)


def sharpen_ranks(
    rho: Float[Tensor, " k"], nats: float, n: int
) -> tuple[float, float, float]:
    r"""What strong dependence loses where columns are known by their ranks only.

    $$1-\hat\rho^2 \approx s^2 + \tfrac6n\,s\,(1-s),\qquad s^2 = 1-\rho^2$$

    of normal scores: noise below the distance of neighbors shows only where it changes
    their order. The law, and the error of 0.3 nats per share of the noise that is
    hidden, were measured on Gaussians of 100 to 5,000 rows. Returns the nats to add,
    their error, and the hidden share of the strongest pair (above about 0.8 ranks set
    no upper limit). ``nats`` is the estimate without the bias of n rows, which has
    nothing to do with ranks.
    """
    c = min(0.5, RANK_NOISE / n)
    each = -0.5 * (1 - rho.square()).clamp(min=1e-300).log()
    each = each * max(0.0, nats) / each.sum().clamp(min=1e-300)
    seen = (-2 * each).exp()
    s = ((c**2 + 4 * (1 - c) * seen).sqrt() - c) / (2 * (1 - c))
    lost = -s.log() - each
    hidden = c * (1 - s) / (s + c * (1 - s))
    return lost.sum().item(), 0.3 * hidden.norm().item(), hidden.max().item()


def _c(n: int, d: int) -> float:
    """E log|S| - log|Sigma| of the sample covariance of d normal columns."""
    free = n - 1
    return float(np.sum(digamma((free - np.arange(d)) / 2)) - d * math.log(free / 2))


def plug_in(a: Int[Tensor, " n"], b: Int[Tensor, " n"]) -> tuple[float, float, float]:
    r"""The estimate for discrete data: nats, standard error, and the correction in it.

    $$\hat I = \sum_{ab}\hat p_{ab}\log\frac{\hat p_{ab}}{\hat p_a\hat p_b}
    - \frac{K_{xy} - K_x - K_y + 1}{2n}$$

    K counts the values that occur (Miller and Madow). The correction is good while
    cells hold several rows.

    >>> import torch
    >>> a = torch.tensor([0, 1] * 50)
    >>> nats, error, _ = plug_in(a, a)
    >>> round(nats, 3)
    0.698
    """
    n = len(a)
    wide = int(b.max()) + 1
    cells, counts = torch.unique(a.long() * wide + b.long(), return_counts=True)
    p = counts.double() / n
    by_a, by_b = a.bincount().double() / n, b.bincount().double() / n
    ratio = p.log() - by_a[cells // wide].log() - by_b[cells % wide].log()
    nats = (p * ratio).sum()
    spread = (p * (ratio - nats).square()).sum()
    occurring = int((by_a > 0).sum()), int((by_b > 0).sum())
    bias = (len(cells) - occurring[0] - occurring[1] + 1) / (2 * n)
    # independent variables still scatter: 2 n I is chi-square there
    free = (occurring[0] - 1) * (occurring[1] - 1)
    error = math.sqrt(spread.item() / n + free / (2 * n**2))
    return nats.item() - bias, error, bias


def bin_numbers(column: Tensor, count: int) -> Tensor:
    """The number of each value's bin, with about equally many values in each."""
    edges = torch.linspace(0, 1, count + 1, dtype=torch.float64)[1:-1]
    column = column.double().contiguous()
    cuts = column.sort().values[(edges * (len(column) - 1)).round().long()]
    return torch.searchsorted(cuts, column)


def ksg(
    x: Float[Tensor, "n dx"], y: Float[Tensor, "n dy"], *, neighbors: int = 3
) -> tuple[float, float]:
    r"""Kraskov, Stögbauer and Grassberger's estimate: nats and standard error.

    $$\hat I = \psi(k) + \psi(n)
    - \frac1n\sum_i\big[\psi(n_x(i)+1)+\psi(n_y(i)+1)\big]$$

    n_x(i) counts the rows whose x is strictly closer than the k-th neighbor in the
    joint space (largest-coordinate distance). Nearly unbiased in few dimensions; in
    many, or for strong dependence, it comes out far too low. Columns should be on a
    common scale, and free of ties: neighbors at distance zero have no density.

    >>> import torch
    >>> x = torch.randn(500, 1, generator=torch.Generator().manual_seed(0))
    >>> y = x + torch.randn(500, 1, generator=torch.Generator().manual_seed(1))
    >>> round(ksg(x, y)[0], 1)  # log(2) / 2
    0.3
    """
    a, b = (np.ascontiguousarray(z.double().cpu().numpy()) for z in (x, y))
    n = len(a)
    both = np.concatenate([a, b], 1)
    distance = cKDTree(both).query(both, k=neighbors + 1, p=np.inf)[0][:, -1]
    counts = [_count_closer(z, distance) for z in (a, b)]
    terms = digamma(counts[0] + 1) + digamma(counts[1] + 1)
    nats = float(digamma(neighbors) + digamma(n) - terms.mean())
    return nats, KSG_SPREAD * float(terms.std()) / math.sqrt(n)


def _count_closer(z: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """How many other rows lie strictly within each row's distance."""
    if z.shape[1] > 1:
        within = np.nextafter(distance, 0)
        counts = cKDTree(z).query_ball_point(z, within, p=np.inf, return_length=True)
        return np.maximum(counts - 1, 0)
    # a sorted column answers at once, but for rounding: the row that sets the distance
    # must not be counted, so the ends are moved in until differences are smaller
    column = z[:, 0]
    ordered = np.sort(column)
    high = np.searchsorted(ordered, column + distance, side="right")
    low = np.searchsorted(ordered, column - distance, side="left")
    while (over := (high > low + 1) & (ordered[high - 1] - column >= distance)).any():
        high = high - over
    while (over := (high > low + 1) & (column - ordered[low] >= distance)).any():
        low = low + over
    return np.maximum(high - low - 1, 0)


def gaussian_estimate(request: Request) -> Estimate:
    """Canonical correlations of normal scores: a Gaussian copula."""
    s = request.samples
    x, y = map_margins(s, request.training.margins)
    n, columns = len(s), x.shape[1] + y.shape[1]
    if n < columns + 3:
        raise DataError(
            f"A Gaussian of {columns} columns needs more than {columns + 2} rows, got "
            f"{n}: bring more samples, or fewer columns."
        )
    rho, ranks = correlations_and_ranks(x, y)
    nats, error = gaussian_information(rho, n, ranks)
    if request.training.margins != "normal":
        notes = (*s.notes, "exact for Gaussian variables only")
        return classical_estimate("gaussian", nats, error, s, n, notes)
    lost, unsure, hidden = sharpen_ranks(rho, nats, n)
    note = "columns made normal: exact for increasing maps of Gaussians, else no bound"
    estimate = classical_estimate(
        "gaussian", nats + lost, math.hypot(error, unsure), s, n, (*s.notes, note)
    )
    if hidden > MOST_HIDDEN:
        more = f"{n} rows in nearly the same order set no upper limit"
        low = min(nats, estimate.interval[0])
        estimate = replace(
            estimate, interval=(low, math.inf), notes=(*estimate.notes, more)
        )
    return estimate


def ksg_estimate(request: Request) -> Estimate:
    """Nearest neighbors after normal scores."""
    s = request.samples
    if s.x_label is not None and s.y_label is not None:
        raise DataError(
            "Both variables have few values, so neighbors are tied: use "
            "estimator='histogram'."
        )
    x, y = map_margins(s, request.training.margins)
    notes = list(s.notes)
    rows = draw_few(len(s), x.shape[1] + y.shape[1], request.generator())
    x, y = x[rows], y[rows]
    if len(x) < len(s):
        notes.append(f"{len(x)} rows drawn for the neighbor search")
    if has_ties(x) or has_ties(y):
        x, y = (break_ties(z, request.generator()) for z in (x, y))
        notes.append("equal values separated by tiny noise")
    if x.shape[1] + y.shape[1] > MANY_COLUMNS:
        notes.append("far too low with this many columns")
    nats, error = ksg(x, y)
    return classical_estimate("ksg", nats, error, s, len(x), tuple(notes))


def histogram_estimate(request: Request) -> Estimate:
    """Counts of values, or of bins where a single column is continuous."""
    s, notes = request.samples, list(request.samples.notes)
    columns = []
    for z, label, name in ((s.x, s.x_label, "x"), (s.y, s.y_label, "y")):
        if label is None:
            if z.shape[1] > 1:
                raise DataError(
                    f"{name} is continuous with {z.shape[1]} columns: a histogram needs"
                    " values that repeat, or one column. Use estimator='auto'."
                )
            count = max(2, round(len(s) ** (1 / 3)))
            label = bin_numbers(z[:, 0], count)
            notes.append(f"{name} cut into {count} bins, which loses information")
        columns.append(label)
    nats, error, bias = plug_in(*columns)
    cells = len(torch.unique(torch.stack(columns, 1), dim=0))
    few = cells * ROWS_PER_CELL > len(s)
    if few:
        notes.append(
            f"{cells} cells for {len(s)} rows: too few for each to be counted well"
        )
    estimate = classical_estimate("histogram", nats, error, s, len(s), tuple(notes))
    low, high = estimate.interval
    # Miller and Madow's correction is itself uncertain by about its size squared
    margin = abs(bias) if few else bias**2
    return replace(estimate, interval=(low - margin, high + margin))


def map_margins(samples: Samples, kind: str) -> tuple[Tensor, Tensor]:
    """All rows with their columns made normal, scaled, or as they are ("raw")."""
    if kind == "raw":
        return samples.x, samples.y
    x, y = ((z - z.mean(0)) / z.std(0) for z in (samples.x, samples.y))
    if kind == "normal":
        x, y = (fit_normal_scores(z)(z) for z in (x, y))
    return x, y


def draw_few(n: int, columns: int, generator: torch.Generator) -> Tensor:
    """Rows for a neighbor search that ends: a random part where there are many."""
    most = KSG_ROWS_MANY_COLUMNS if columns > MANY_COLUMNS else KSG_ROWS
    return torch.randperm(n, generator=generator)[:most].sort().values


def has_ties(z: Tensor) -> bool:
    """Whether some column repeats values."""
    ordered = z.sort(0).values
    return bool((ordered[1:] == ordered[:-1]).any())


def break_ties(z: Tensor, generator: torch.Generator) -> Tensor:
    """The same with noise too small to matter, so that no two values are equal."""
    return z + 1e-8 * torch.randn(z.shape, generator=generator, dtype=z.dtype)


def classical_estimate(
    name: str,
    nats: float,
    error: float,
    samples: Samples,
    used: int,
    notes: tuple[str, ...],
) -> Estimate:
    """Nats with Student's interval."""
    quantile = float(stdtrit(max(2, used - 2), 0.975))
    return make_estimate(
        name,
        nats,
        error,
        samples=len(samples),
        evaluated_on=used,
        quantile=quantile,
        notes=notes,
    )
