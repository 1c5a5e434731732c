"""Variables that settle the question before any estimate: constants and copies."""

import math

import torch
from torch import Tensor

from ._classical_gaussian import canonical_correlations
from ._estimate import Estimate
from ._normal_scores import fit_normal_scores
from ._samples import Samples

NO_NOISE = 1e-12  # 1 - rho^2 of columns that differ by rounding only
LEAST_ROWS = 50


def settled(samples: Samples, name: str) -> Estimate | None:
    """The answer where x or y is constant, or one determines the other; else None."""
    for z, which in ((samples.x, "x"), (samples.y, "y")):
        if z.shape[1] == 0:
            note = f"{which} is constant, and a constant shares nothing with anything"
            return _exact(name, 0.0, note, samples)
    if samples.x_label is not None or samples.y_label is not None:
        return None  # what has few values cannot share infinitely much
    n = len(samples)
    if n > samples.x.shape[1] + samples.y.shape[1] + 2:
        rho = canonical_correlations(samples.x, samples.y)
        if len(rho) and 1 - rho[0].item() ** 2 < NO_NOISE:
            return _exact(
                name,
                math.inf,
                "a combination of columns of x is a combination of columns of y, up to "
                "rounding. Continuous variables that determine each other share "
                "infinitely much; add the noise you mean, or compare other variables.",
                samples,
            )
    if n >= LEAST_ROWS and (same := _same_order(samples.x, samples.y)):
        return _exact(
            name,
            math.inf,
            f"column {same[0]} of x and column {same[1]} of y put all {n} rows in the "
            f"same order, which {n} rows show only if one determines the other "
            f"(or beyond about {2 * math.log(n):.0f} nats).",
            samples,
        )
    return None


def _same_order(x: Tensor, y: Tensor) -> tuple[int, int] | None:
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


def _exact(name: str, nats: float, reason: str, samples: Samples) -> Estimate:
    return Estimate(
        estimator=name,
        nats=nats,
        std_error=0.0,
        interval=(nats, nats),
        lower_bound=False,
        ceiling=None,
        saturated=math.isinf(nats),
        samples=len(samples),
        evaluated_on=len(samples),
        reason=reason,
        notes=samples.notes,
    )
