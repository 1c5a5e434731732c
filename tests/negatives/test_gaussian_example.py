"""Which negatives keep InfoNCE below the mutual information, where it is known.

x ~ N(0, I_2), y = 0.9 x + sqrt(0.19) e, so I = -log 0.19 = 1.661 nats. The critic is
the best there is, the log of the density ratio. Of K = 16 candidates 15 are negatives,
drawn from p(y) and chosen by their distance to the positive. Hard ones lower the value,
easy ones, and leaving the positive out of the denominator, carry it above I.
"""

import math

import pytest
import torch

from invariance.negatives import monte_carlo_partition
from invariance.objectives import DCL, Contrast, InfoNCE

RHO, K, POOL = 0.9, 16, 200
N_BATCHES, BATCH = 60, 250
INFORMATION = -math.log(1 - RHO**2)
# shares of the pool, from the nearest on; the last leaves the positive out
SHARES = {
    "iid": (0.0, 1.0),
    "nearest quarter": (0.0, 0.25),
    "ring": (0.1, 0.5),
    "farthest quarter": (0.75, 1.0),
}
PRINTED = torch.tensor([1.340, 0.462, 1.128, 2.641, 1.931], dtype=torch.float64)
N_PRINTED = 1000  # anchors behind the printed figures, about


def log_ratio(x, y):
    """log p(y | x) / p(y), in two dimensions."""
    left = 1 - RHO**2
    quadratic = RHO**2 * (x.square() + y.square()) - 2 * RHO * x * y
    return -math.log(left) - quadratic.sum(-1) / (2 * left)


@pytest.fixture(scope="module")
def values():
    """One row a batch of anchors, one column a choice of negatives."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(N_BATCHES):
        x, e = torch.randn(2, BATCH, 2, generator=generator, dtype=torch.float64)
        y = RHO * x + math.sqrt(1 - RHO**2) * e
        pool = torch.randn(BATCH, POOL, 2, generator=generator, dtype=torch.float64)
        distance = (pool - y[:, None]).square().sum(-1)
        order = distance.argsort(1)
        positive, scores = log_ratio(x, y), log_ratio(x[:, None], pool)
        found = []
        for inner, outer in SHARES.values():
            chosen = order[:, round(inner * POOL) : round(outer * POOL)]
            lots = torch.rand(chosen.shape, generator=generator).argsort(1)[:, : K - 1]
            logits = scores.gather(1, chosen.gather(1, lots))
            total = monte_carlo_partition(logits) + math.log(K - 1)
            contrast = Contrast(positive, total[None], math.log(K - 1))
            found.append(math.log(K) - InfoNCE(1.0).of(contrast).mean().item())
            if (inner, outer) == SHARES["ring"]:
                alone = math.log(K - 1) - DCL(1.0).of(contrast).mean().item()
        rows.append([*found, alone])
    return torch.tensor(rows, dtype=torch.float64)


def test_hard_negatives_stay_below_and_easy_ones_overshoot(values):
    iid, nearest, ring, farthest, alone = values.mean(0).tolist()
    error = 4 * values.std(0).max().item() / math.sqrt(N_BATCHES)
    assert nearest + error < ring < ring + error < iid < iid + error < INFORMATION
    assert min(farthest, alone) > INFORMATION + error
    assert (values[:, :4] < math.log(K)).all()  # the ceiling of 16 candidates


def test_the_printed_figures_are_these_within_sampling_error(values):
    per_anchor = values.T.cov() * BATCH
    covariance = per_anchor / N_PRINTED + per_anchor / (N_BATCHES * BATCH)
    gap = PRINTED - values.mean(0)
    errors = gap.abs() / covariance.diag().sqrt()
    assert errors.max() < 3, dict(zip(SHARES, errors.tolist(), strict=False))
    chi_square = gap @ torch.linalg.solve(covariance, gap)
    assert chi_square < 20.5  # one in a thousand on five degrees of freedom
