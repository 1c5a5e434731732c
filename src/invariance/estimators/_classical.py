"""The classical estimators as answers: Gaussian, nearest neighbours, histogram."""

from dataclasses import replace

import torch
from scipy.special import stdtrit
from torch import Tensor

from ..errors import DataError
from ._classical_gaussian import correlations_and_ranks, gaussian_information
from ._estimate import Estimate
from ._histogram import bins, plug_in
from ._ksg import ksg
from ._normal_scores import fit_normal_scores
from ._request import Request
from ._samples import Samples

MANY_COLUMNS = 8
KSG_ROWS, KSG_ROWS_MANY_COLUMNS = 20_000, 4_000


def gaussian_estimate(request: Request) -> Estimate:
    """Canonical correlations of normal scores: a Gaussian copula."""
    s = request.samples
    x, y = margins(s, request.training.margins)
    n, columns = len(s), x.shape[1] + y.shape[1]
    if n < columns + 3:
        raise DataError(
            f"A Gaussian of {columns} columns needs more than {columns + 2} rows, got "
            f"{n}: bring more samples, or fewer columns."
        )
    rho, ranks = correlations_and_ranks(x, y)
    nats, error = gaussian_information(rho, n, ranks)
    notes = (
        ("columns made normal: exact for increasing maps of Gaussians, else no bound",)
        if request.training.margins == "normal"
        else ("exact for Gaussian variables only",)
    )
    return answer("gaussian", nats, error, s, n, (*s.notes, *notes))


def ksg_estimate(request: Request) -> Estimate:
    """Nearest neighbours after normal scores."""
    s = request.samples
    if s.x_label is not None and s.y_label is not None:
        raise DataError(
            "Both variables have few values, so neighbours are ties: use "
            "estimator='histogram'."
        )
    x, y = margins(s, request.training.margins)
    notes = list(s.notes)
    x, y, cut = few_enough(x, y, request.generator())
    if cut:
        notes.append(f"{len(x)} rows drawn for the neighbour search")
    if ties(x) or ties(y):
        x, y = (z + 1e-8 * noise(z, request.generator()) for z in (x, y))
        notes.append("equal values told apart by tiny noise")
    if x.shape[1] + y.shape[1] > MANY_COLUMNS:
        notes.append("far too low in this many columns")
    nats, error = ksg(x, y)
    return answer("ksg", nats, error, s, len(x), tuple(notes))


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
            label = bins(z[:, 0], count)
            notes.append(f"{name} cut into {count} bins, which loses information")
        columns.append(label)
    nats, error, bias = plug_in(*columns)
    cells = len(torch.unique(torch.stack(columns, 1), dim=0))
    if cells * 3 > len(s):
        notes.append(
            f"{cells} cells for {len(s)} rows: too few for each to be counted well"
        )
    estimate = answer("histogram", nats, error, s, len(s), tuple(notes))
    low, high = estimate.interval
    # Miller and Madow's correction is itself uncertain by about its size squared
    room = bias**2 if cells * 3 <= len(s) else abs(bias)
    return _with_interval(estimate, (low - room, high + room))


def margins(samples: Samples, kind: str) -> tuple[Tensor, Tensor]:
    """All rows with their columns made normal, scaled, or as they are ("raw")."""
    if kind == "raw":
        return samples.x, samples.y
    out = []
    for z in (samples.x, samples.y):
        z = (z - z.mean(0)) / z.std(0)
        out.append(fit_normal_scores(z)(z) if kind == "normal" else z)
    return out[0], out[1]


def few_enough(
    x: Tensor, y: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor, bool]:
    """Rows for a neighbour search that ends; a random part where there are many."""
    many = x.shape[1] + y.shape[1] > MANY_COLUMNS
    most = KSG_ROWS_MANY_COLUMNS if many else KSG_ROWS
    if len(x) <= most:
        return x, y, False
    rows = torch.randperm(len(x), generator=generator)[:most]
    return x[rows], y[rows], True


def ties(z: Tensor) -> bool:
    """Whether some column repeats values."""
    ordered = z.sort(0).values
    return bool((ordered[1:] == ordered[:-1]).any())


def noise(z: Tensor, generator: torch.Generator) -> Tensor:
    """Normal noise of the same shape."""
    return torch.randn(z.shape, generator=generator, dtype=z.dtype)


def answer(
    name: str,
    nats: float,
    error: float,
    samples: Samples,
    used: int,
    notes: tuple[str, ...],
) -> Estimate:
    """A classical estimate: no bound, no ceiling."""
    wide = float(stdtrit(max(2, used - 2), 0.975)) * error
    return Estimate(
        estimator=name,
        nats=nats,
        std_error=error,
        interval=(nats - wide, nats + wide),
        lower_bound=False,
        ceiling=None,
        saturated=False,
        samples=len(samples),
        evaluated_on=used,
        notes=notes,
    )


def _with_interval(e: Estimate, interval: tuple[float, float]) -> Estimate:
    return replace(e, interval=interval)
